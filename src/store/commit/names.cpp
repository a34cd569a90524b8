#include "store/commit/names.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <span>
#include <system_error>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::commit {
namespace {

using Kind = ParsedName::Kind;

constexpr std::size_t uuid_digits = 32;
// A file name may have 255 bytes. To this one Cairn appends a step and "_temp_UUID", or two numbers
// and a mark that the file is being removed.
constexpr std::size_t longest_name = 180;
constexpr std::string_view aside_mark = ".aside_", sequences_mark = "sequences.",
                           room_mark = "room.", retired_mark = "retired-",
                           recorded_mark = "recorded-", xdmf_temporary_mark = ".tmp_";
constexpr std::size_t token_digits = 16;  // of an owner's UUID; they tell owners apart

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

// Takes a number off the front, as it is printed with at least `width` digits.
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

// Parses "NUMBER-of-COUNT"; nothing may follow. Parses what follows NAME-STEP.
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

bool is_token(std::string_view text) { return text.size() == token_digits && is_hexadecimal(text); }

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// Behind NAME-STEP.
ParsedName parse_temp_directory(std::string_view entry) {
  auto parsed = of_kind(Kind::temp_directory);
  if (take(entry, "_temp_") && is_uuid(entry)) {
    parsed.uuid = entry;
  } else if (take(entry, "_kept_") && entry.size() > uuid_digits &&
             is_uuid(entry.substr(0, uuid_digits)) && entry[uuid_digits] == '_' &&
             is_token(entry.substr(uuid_digits + 1))) {
    parsed.uuid = entry.substr(0, uuid_digits);
    parsed.keeper = entry.substr(uuid_digits + 1);
  } else if (take(entry, ".part_") && is_uuid(entry)) {
    parsed.uuid = entry;
    parsed.direct = true;
  } else {
    return {};
  }
  return parsed;
}

// Parses what follows the save's UUID in the name of a file in a staging directory.
ParsedName parse_staged_name(std::string_view name) {
  if (name == prepared_index_name) return of_kind(Kind::prepared_index);
  if (name == staged_state_name) return of_kind(Kind::state_temporary);
  take(name, recorded_mark);
  return take(name, "part-") ? parse_numbers(Kind::part, name) : ParsedName{};
}

// Parses what follows "record-". In a staging directory a slot comes first.
ParsedName parse_record_name(std::string_view name) {
  const bool staged = name.size() > 2 && name[1] == '-' && name[0] >= '0' && name[0] <= '9';
  auto parsed = parse_numbers(Kind::record, staged ? name.substr(2) : name);
  if (staged && parsed.kind == Kind::record) parsed.slot = name[0] - '0';
  return parsed;
}

// Parses a number; nothing may follow.
std::optional<std::int64_t> whole_number(std::string_view text) {
  const auto number = take_number(text, 1);
  return text.empty() ? number : std::nullopt;
}

struct FixedName {
  std::string_view name;
  Kind kind;
};

ParsedName parse_fixed(std::span<const FixedName> names, std::string_view entry) {
  const auto at =
      std::find_if(names.begin(), names.end(), [&](const auto& one) { return one.name == entry; });
  return at == names.end() ? ParsedName{} : of_kind(at->kind);
}

}  // namespace

void check_checkpoint_name(std::string_view name) {
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
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) {
      refuse(cat("it contains '", c, "': TensorFlow finds the files by pattern"));
    }
    if (is_control(c)) refuse("it contains a control character");
  }
}

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
  auto name = cat(state_file_name, ".tmp-", naming.name);
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
  // macOS writes such files beside others on a file system that has no extended attributes.
  if (path.filename().string().starts_with("._")) return std::nullopt;
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
    if (take(rest, xdmf_temporary_mark) && is_token(rest)) {
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
  } else {
    parsed = parse_temp_directory(entry);
  }
  if (parsed.kind != Kind::foreign) parsed.step = *step;
  return parsed;
}

std::optional<std::string> parse_aside_name(std::string_view entry, const Naming& naming) {
  const auto mark = entry.rfind(aside_mark);
  if (mark == entry.npos) return std::nullopt;
  const auto digits = entry.substr(mark + aside_mark.size());
  if (!is_token(digits)) return std::nullopt;
  entry = entry.substr(0, mark);
  const auto kind = parse_name(entry, naming).kind;
  if (!is_main(kind) && kind != Kind::data) return std::nullopt;
  return std::string(entry);
}

namespace {

// Open MPI keeps the shared pointer of a file in FILE-JOB-PROCESS.lock beside it, if the ranks are
// on several nodes. Returns the file's name.
std::optional<std::string_view> file_of_pointer(std::string_view entry) {
  constexpr std::string_view ending = ".lock";
  if (!entry.ends_with(ending)) return std::nullopt;
  entry.remove_suffix(ending.size());
  for (int numbers = 0; numbers < 2; ++numbers) {
    const auto dash = entry.rfind('-');
    if (dash == entry.npos || !whole_number(entry.substr(dash + 1))) return std::nullopt;
    entry = entry.substr(0, dash);
  }
  return entry;
}

}  // namespace

ParsedName parse_temp_name(std::string_view entry) {
  if (const auto file = file_of_pointer(entry)) {
    auto parsed = parse_temp_name(*file);
    if (parsed.kind != Kind::part && parsed.kind != Kind::hdf5_part) return {};
    auto pointer = of_kind(Kind::file_pointer);
    pointer.uuid = parsed.uuid;
    return pointer;
  }
  static constexpr FixedName fixed[]{{prepared_index_name, Kind::prepared_index},
                                     {old_index_name, Kind::old_index},
                                     {hdf5_part_name, Kind::hdf5_part},
                                     {hdf5_copy_name, Kind::hdf5_part}};
  if (is_uuid(entry.substr(0, uuid_digits)) && entry.substr(uuid_digits).starts_with('.')) {
    auto parsed = parse_staged_name(entry.substr(uuid_digits + 1));
    if (parsed.kind != Kind::foreign) parsed.uuid = entry.substr(0, uuid_digits);
    return parsed;
  }
  if (take(entry, retired_mark)) {
    const auto step = whole_number(entry);
    if (!step) return {};
    auto parsed = of_kind(Kind::retired_index);
    parsed.step = *step;
    return parsed;
  }
  if (take(entry, "part-")) return parse_numbers(Kind::part, entry);
  if (take(entry, "record-")) return parse_record_name(entry);
  if (!take(entry, "saver-")) return parse_fixed(fixed, entry);
  // First five digits of Cairn's, then the saver's own suffix, which may be digits too.
  auto digits = entry.substr(0, std::min<std::size_t>(5, entry.size()));
  const auto number = take_number(digits, 5);
  if (!number) return {};
  auto parsed = of_kind(Kind::saver_file);
  parsed.number = *number;
  return parsed;
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
std::string thinning_name(const Naming& naming) { return cat("thinning.", naming.name); }
std::string status_name(const Naming& naming) { return cat("status.", naming.name); }

ParsedName parse_private_name(std::string_view entry) {
  static constexpr FixedName fixed[]{{lock_name, Kind::lock},
                                     {owner_name, Kind::owner},
                                     {damaged_directory_name, Kind::damaged_directory},
                                     {no_rename_name, Kind::no_rename},
                                     {pinned_directory_name, Kind::pinned_directory},
                                     {pin_lock_name, Kind::pin_lock},
                                     {marked_directory_name, Kind::marked_directory},
                                     {ended_name, Kind::ended},
                                     {recycled_directory_name, Kind::recycled_directory},
                                     {saved_directory_name, Kind::saved_directory},
                                     {repair_directory_name, Kind::repair_directory},
                                     {pieces_directory_name, Kind::pieces_directory}};
  if (auto parsed = parse_fixed(fixed, entry); parsed.kind != Kind::foreign) return parsed;
  static constexpr FixedName of_names[]{{"runs.", Kind::runs},
                                        {"new-runs.", Kind::runs_temporary},
                                        {"thinning.", Kind::thinning},
                                        {"status.", Kind::status}};
  for (const auto& [front, kind] : of_names) {
    auto name = entry;
    if (take(name, front)) return can_be_a_name(name) ? of_kind(kind) : ParsedName{};
  }
  if (take(entry, sequences_mark)) {
    const auto last = whole_number(entry);
    if (!last) return {};
    auto parsed = of_kind(Kind::sequences);
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
