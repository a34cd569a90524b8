#include "store/commit/names.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::commit {
namespace {

using Kind = ParsedName::Kind;

constexpr std::size_t uuid_digits = 32;
// A file name may have 255 bytes; ours add a step and "_temp_UUID", or two numbers and a mark that
// the file is being removed.
constexpr std::size_t longest_name = 180;
constexpr std::string_view aside_mark = ".aside_", sequences_mark = "sequences.",
                           room_mark = "room.", retired_mark = "retired-",
                           recorded_mark = "recorded-", xdmf_temporary_mark = ".tmp_";
constexpr std::size_t token_digits = 16;

void require(bool good, std::string_view what) {
  if (!good) throw Error(Code::internal, cat("a file name cannot be built: ", what));
}

std::string padded(std::int64_t value) {
  const std::string digits = cat(value);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

std::string numbers(std::int64_t number, std::int64_t count) {
  require(number >= 0 && number < count, cat("number ", number, " of ", count));
  return padded(number) + "-of-" + padded(count);
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Digits as they would be printed with this minimum width.
std::optional<std::int64_t> take_number(std::string_view& text, std::size_t width) {
  const auto end =
      std::find_if(text.begin(), text.end(), [](char c) { return c < '0' || c > '9'; });
  const auto digits = static_cast<std::size_t>(end - text.begin());
  if (digits < width || (digits > width && text[0] == '0')) return std::nullopt;
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + digits, value);
  if (result.ec != std::errc{}) return std::nullopt;
  text.remove_prefix(digits);
  return value;
}

// "NUMBER-of-COUNT" to the end.
ParsedName parse_numbers(Kind kind, std::string_view text) {
  const auto number = take_number(text, 5);
  if (!number || !take(text, "-of-")) return {};
  const auto count = take_number(text, 5);
  if (!count || !text.empty() || *number >= *count) return {};
  ParsedName parsed;
  parsed.kind = kind;
  parsed.number = *number;
  parsed.count = *count;
  return parsed;
}

ParsedName of_kind(Kind kind) {
  ParsedName parsed;
  parsed.kind = kind;
  return parsed;
}

// Takes "NAME-STEP" off the front.
std::optional<std::int64_t> take_prefix(std::string_view& text, const Naming& naming) {
  if (!take(text, naming.name)) return std::nullopt;
  if (!naming.numbered) return 0;
  if (!take(text, "-")) return std::nullopt;
  return take_number(text, 1);
}

bool is_hexadecimal(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

void check_checkpoint_name(std::string_view name) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  const auto refuse = [&](const std::string& reason) {
    std::string shown(is_utf8(name) ? name : "?");
    std::replace_if(shown.begin(), shown.end(), is_control, '?');
    throw Error(Code::invalid_argument, cat("checkpoints cannot be called '", shown, "'"), reason,
                "Use letters, digits, '-', '_' and '.'.");
  };
  if (name.empty()) refuse("the name is empty");
  if (name.front() == '.') refuse("names that begin with '.' are hidden, and ours are private");
  if (name.size() > longest_name) {
    refuse(cat("it has ", name.size(), " bytes, at most ", longest_name,
               " leave room for what is appended"));
  }
  if (!is_utf8(name)) refuse("it is not UTF-8, which TensorFlow's state file needs");
  for (const char c : name) {
    if (c == '/') refuse("it contains '/': give a directory as the directory");
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\') {
      refuse(cat("it contains '", c, "': TensorFlow finds the files by pattern"));
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      refuse("it contains a control character");
  }
}

Uuid random_uuid() {
  Uuid uuid;
  if (::getentropy(&uuid, sizeof uuid) != 0) {
    throw Error(Code::io, "cannot get random bytes", std::generic_category().message(errno));
  }
  return uuid;
}

std::string uuid_text(const Uuid& uuid) {
  std::string text;
  for (const auto half : {uuid.high, uuid.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[half >> shift & 15];
  }
  return text;
}

Uuid parse_uuid(std::string_view text) {
  require(is_uuid(text), "a uuid");
  Uuid uuid;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto& half = i < uuid_digits / 2 ? uuid.high : uuid.low;
    const auto digit = text[i];
    half = half << 4 | static_cast<std::uint64_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
  }
  return uuid;
}

std::string new_uuid() { return uuid_text(random_uuid()); }

bool is_state_temporary(std::string_view entry, const Naming& naming) {
  const auto name = state_temporary_name(naming);
  if (!entry.starts_with(name)) return false;
  entry.remove_prefix(name.size());
  return entry.empty() || (entry.front() == '_' && entry.size() == 1 + token_digits &&
                           is_hexadecimal(entry.substr(1)));
}

bool is_uuid(std::string_view text) { return text.size() == uuid_digits && is_hexadecimal(text); }

std::string prefix_name(const Naming& naming, std::int64_t step) {
  require(step >= 0, cat("step ", step));
  return naming.numbered ? cat(naming.name, "-", step) : naming.name;
}

std::string state_temporary_name(const Naming& naming, std::string_view token) {
  const auto name = cat(state_file_name, ".tmp-", naming.name);
  if (token.empty()) return name;
  require(is_uuid(token), cat("token '", token, "'"));
  return cat(name, '_', token.substr(0, token_digits));
}

std::string xdmf_name(std::string_view name) { return cat(name, ".xdmf"); }

std::string xdmf_temporary_name(std::string_view name, std::string_view token) {
  require(is_uuid(token), cat("token '", token, "'"));
  return cat(xdmf_name(name), xdmf_temporary_mark, token.substr(0, token_digits));
}

std::string index_name(std::string_view prefix) { return cat(prefix, ".index"); }

std::string replaced_index_name(std::string_view prefix) {
  return cat(index_name(prefix), ".replaced");
}

std::string hdf5_name(std::string_view prefix) { return cat(prefix, ".h5"); }

std::filesystem::path index_path(const std::filesystem::path& prefix) {
  return index_name(prefix.string());
}

std::filesystem::path hdf5_path(const std::filesystem::path& prefix) {
  return hdf5_name(prefix.string());
}

std::filesystem::path data_path(const std::filesystem::path& prefix, std::int64_t number,
                                std::int64_t count) {
  return prefix.parent_path() / data_name(prefix.filename().string(), number, count);
}

std::optional<MainFile> split_main_file(const std::filesystem::path& path) {
  using Kind = ParsedName::Kind;
  const auto extension = path.extension();
  if (extension != ".h5" && extension != ".index") return std::nullopt;
  return MainFile{std::filesystem::path(path).replace_extension(),
                  extension == ".h5" ? Kind::hdf5 : Kind::index};
}

std::string data_name(std::string_view prefix, std::int64_t number, std::int64_t count) {
  return cat(prefix, ".data-", numbers(number, count));
}

std::string temp_directory_name(std::string_view prefix, std::string_view uuid) {
  require(is_uuid(uuid), cat("uuid '", uuid, "'"));
  return cat(prefix, "_temp_", uuid);
}

std::string kept_directory_name(std::string_view prefix, std::string_view uuid,
                                std::string_view token) {
  require(is_uuid(uuid), cat("uuid '", uuid, "'"));
  require(token.size() >= token_digits && is_hexadecimal(token), cat("token '", token, "'"));
  return cat(prefix, "_kept_", uuid, "_", token.substr(0, token_digits));
}

std::string part_directory_name(std::string_view prefix, std::string_view uuid) {
  require(is_uuid(uuid), cat("uuid '", uuid, "'"));
  return cat(prefix, ".part_", uuid);
}

std::string staging_directory_name(const Naming& naming, std::string_view uuid) {
  require(naming.numbered, "a checkpoint without a number is staged by itself");
  return temp_directory_name(prefix_name(naming, staging_step), uuid);
}

std::string aside_name(std::string_view entry, std::string_view token) {
  require(is_uuid(token), cat("token '", token, "'"));
  return cat(entry, aside_mark, token.substr(0, token_digits));
}

std::string sequences_name(std::int64_t last) {
  require(last >= 0, cat("sequence ", last));
  return cat(sequences_mark, last);
}

std::string room_name(int number) { return cat(room_mark, number); }

std::string part_name(std::int64_t number, std::int64_t count) {
  return "part-" + numbers(number, count);
}

std::string record_name(std::int64_t number, std::int64_t count) {
  return "record-" + numbers(number, count);
}

std::string staged_name(std::string_view uuid, std::string_view name) {
  require(is_uuid(uuid), cat("uuid '", uuid, "'"));
  return cat(uuid, '.', name);
}

std::string staged_part_name(std::string_view uuid, std::int64_t number, std::int64_t count,
                             bool recorded) {
  return staged_name(uuid, cat(recorded ? recorded_mark : "", part_name(number, count)));
}

std::string staged_record_name(int slot, std::int64_t number, std::int64_t count) {
  require(slot >= 0 && slot <= 9, cat("slot ", slot));
  return cat("record-", slot, '-', numbers(number, count));
}

std::string retired_name(std::int64_t step) {
  require(step >= 0, cat("step ", step));
  return cat(retired_mark, step);
}

std::string saver_name(std::int64_t number) {
  require(number >= 0, cat("saver ", number));
  return "saver-" + padded(number);
}

std::string recycled_name(const Naming& naming, std::int64_t number) {
  require(number >= 0, cat("data file ", number));
  return cat(naming.numbered ? "steps." : "single.", naming.name, ".", padded(number));
}

std::string owner_temporary_name(std::string_view token) {
  require(is_uuid(token), cat("uuid '", token, "'"));
  return cat(owner_name, ".tmp-", token);
}

ParsedName parse_name(std::string_view entry, const Naming& naming) {
  if (entry == state_file_name) return of_kind(Kind::state_file);
  // Only numbered checkpoints are in a state file.
  if (entry == old_state_temporary_name || (naming.numbered && is_state_temporary(entry, naming))) {
    return of_kind(Kind::state_temporary);
  }
  if (entry == private_directory_name) return of_kind(Kind::private_directory);
  if (auto rest = entry; take(rest, xdmf_name(naming.name))) {
    if (rest.empty()) return of_kind(Kind::xdmf);
    if (take(rest, xdmf_temporary_mark) && rest.size() == token_digits && is_hexadecimal(rest)) {
      return of_kind(Kind::xdmf_temporary);
    }
  }
  const auto step = take_prefix(entry, naming);
  if (!step) return {};
  ParsedName parsed;
  if (entry == ".index") {
    parsed.kind = Kind::index;
  } else if (entry == ".h5") {
    parsed.kind = Kind::hdf5;
  } else if (take(entry, ".data-")) {
    parsed = parse_numbers(Kind::data, entry);
  } else if (take(entry, "_temp_") && is_uuid(entry)) {
    parsed.kind = Kind::temp_directory;
    parsed.uuid = entry;
  } else if (take(entry, "_kept_") && entry.size() == uuid_digits + 1 + token_digits &&
             is_uuid(entry.substr(0, uuid_digits)) && entry[uuid_digits] == '_' &&
             is_hexadecimal(entry.substr(uuid_digits + 1))) {
    parsed.kind = Kind::temp_directory;
    parsed.uuid = entry.substr(0, uuid_digits);
    parsed.keeper = entry.substr(uuid_digits + 1);
  } else if (take(entry, ".part_") && is_uuid(entry)) {
    parsed.kind = Kind::temp_directory;
    parsed.uuid = entry;
    parsed.direct = true;
  }
  if (parsed.kind != Kind::foreign) parsed.step = *step;
  return parsed;
}

std::optional<std::string> parse_aside_name(std::string_view entry, const Naming& naming) {
  const auto mark = entry.rfind(aside_mark);
  if (mark == entry.npos) return std::nullopt;
  const auto digits = entry.substr(mark + aside_mark.size());
  if (digits.size() != token_digits || !is_hexadecimal(digits)) return std::nullopt;
  entry = entry.substr(0, mark);
  const auto kind = parse_name(entry, naming).kind;
  if (!is_main(kind) && kind != Kind::data) return std::nullopt;
  return std::string(entry);
}

ParsedName parse_temp_name(std::string_view entry) {
  if (is_uuid(entry.substr(0, uuid_digits)) && entry.substr(uuid_digits).starts_with('.')) {
    const auto name = entry.substr(uuid_digits + 1);
    ParsedName parsed;
    if (name == prepared_index_name) parsed.kind = Kind::prepared_index;
    if (name == staged_state_name) parsed.kind = Kind::state_temporary;
    auto part = name;
    take(part, recorded_mark);
    if (take(part, "part-")) parsed = parse_numbers(Kind::part, part);
    if (parsed.kind != Kind::foreign) parsed.uuid = entry.substr(0, uuid_digits);
    return parsed;
  }
  if (take(entry, retired_mark)) {
    auto parsed = of_kind(Kind::retired_index);
    const auto step = take_number(entry, 1);
    if (!step || !entry.empty()) return {};
    parsed.step = *step;
    return parsed;
  }
  if (entry == prepared_index_name) return of_kind(Kind::prepared_index);
  if (entry == old_index_name) return of_kind(Kind::old_index);
  if (entry == hdf5_part_name || entry == hdf5_copy_name) return of_kind(Kind::hdf5_part);
  if (take(entry, "part-")) return parse_numbers(Kind::part, entry);
  if (take(entry, "record-")) {
    const bool staged = entry.size() > 2 && entry[1] == '-' && entry[0] >= '0' && entry[0] <= '9';
    const int slot = staged ? entry[0] - '0' : -1;
    auto parsed = parse_numbers(Kind::record, staged ? entry.substr(2) : entry);
    if (parsed.kind == Kind::record) parsed.slot = slot;
    return parsed;
  }
  if (take(entry, "saver-")) {
    // Five digits of ours, then whatever the saver chose, digits too.
    auto parsed = of_kind(Kind::saver_file);
    auto digits = entry.substr(0, std::min<std::size_t>(5, entry.size()));
    const auto number = take_number(digits, 5);
    if (!number) return {};
    parsed.number = *number;
    return parsed;
  }
  return {};
}

namespace {

bool can_be_a_name(std::string_view name) {
  try {
    check_checkpoint_name(name);
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace

std::string runs_name(const Naming& naming) { return cat("runs.", naming.name); }

ParsedName parse_private_name(std::string_view entry) {
  if (entry == lock_name) return of_kind(Kind::lock);
  if (entry == owner_name) return of_kind(Kind::owner);
  if (entry == damaged_directory_name) return of_kind(Kind::damaged_directory);
  if (entry == no_rename_name) return of_kind(Kind::no_rename);
  if (entry == pinned_directory_name) return of_kind(Kind::pinned_directory);
  if (entry == pin_lock_name) return of_kind(Kind::pin_lock);
  if (entry == recycled_directory_name) return of_kind(Kind::recycled_directory);
  if (entry == saved_directory_name) return of_kind(Kind::saved_directory);
  if (entry == repair_directory_name) return of_kind(Kind::repair_directory);
  if (entry == pieces_directory_name) return of_kind(Kind::pieces_directory);
  for (const bool is_new : {false, true}) {
    auto name = entry;
    if (!take(name, is_new ? "new-runs." : "runs.")) continue;
    return can_be_a_name(name) ? of_kind(is_new ? Kind::runs_temporary : Kind::runs) : ParsedName{};
  }
  if (take(entry, sequences_mark)) {
    auto parsed = of_kind(Kind::sequences);
    const auto last = take_number(entry, 1);
    if (!last || !entry.empty()) return {};
    parsed.number = *last;
    return parsed;
  }
  for (const int number : {0, 1}) {
    if (entry != room_name(number)) continue;
    auto parsed = of_kind(Kind::room);
    parsed.number = number;
    return parsed;
  }
  if (!take(entry, cat(owner_name, ".tmp-")) || !is_uuid(entry)) return {};
  auto parsed = of_kind(Kind::owner_temporary);
  parsed.uuid = entry;
  return parsed;
}

std::optional<RecycledName> parse_recycled_name(std::string_view entry) {
  const bool numbered = take(entry, "steps.");
  if (!numbered && !take(entry, "single.")) return std::nullopt;
  const auto dot = entry.rfind('.');
  if (dot == entry.npos) return std::nullopt;
  auto digits = entry.substr(dot + 1);
  const auto number = take_number(digits, 5);
  if (!number || !digits.empty()) return std::nullopt;
  RecycledName parsed{Naming(std::string(entry.substr(0, dot)), numbered), *number};
  if (!can_be_a_name(parsed.naming.name)) return std::nullopt;
  return parsed;
}

std::optional<std::int64_t> parse_prefix(std::string_view prefix, const Naming& naming) {
  const auto step = take_prefix(prefix, naming);
  return prefix.empty() ? step : std::nullopt;
}

std::optional<NameAndStep> split_step(const std::string& prefix) {
  const auto dash = prefix.rfind('-');
  if (dash == prefix.npos || dash == 0) return std::nullopt;
  const auto name = prefix.substr(0, dash);
  const auto step = parse_prefix(prefix, name);
  if (!step) return std::nullopt;
  return NameAndStep{name, *step};
}

}  // namespace cairn::commit
