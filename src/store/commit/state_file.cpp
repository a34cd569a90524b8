#include "store/commit/state_file.hpp"

#include <charconv>
#include <cmath>
#include <system_error>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"
#include "store/commit/room.hpp"
#include "store/commit/text_format.hpp"

namespace cairn::commit {
namespace {

constexpr std::int64_t largest_file_bytes = std::int64_t{64} << 20;

// As protobuf prints bytes: printable ASCII as it is, the rest in octal.
std::string literal(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      result += "\\n";
    } else if (c == '\r') {
      result += "\\r";
    } else if (c == '\t') {
      result += "\\t";
    } else if (c == '"' || c == '\'' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      result += '\\';
      for (const int shift : {6, 3, 0}) result += static_cast<char>('0' + ((byte >> shift) & 7));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string printed(double value) {
  char digits[400];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed);
  std::string text(digits, end.ptr);
  if (std::isfinite(value) && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::optional<StateFile> parse_state_file(std::string_view text) {
  if (!is_utf8(text)) return std::nullopt;
  StateFile state;
  TextFormat reader(text);
  while (!reader.at_end()) {
    const std::string field = reader.take_token();
    if (!reader.take(":")) return std::nullopt;
    bool good = false;
    if (field == "model_checkpoint_path") {
      good = reader.take_string(state.model_checkpoint_path);  // the last one counts
    } else if (field == "last_preserved_timestamp") {
      good = reader.take_double(state.last_preserved.emplace());
    } else if (field == "all_model_checkpoint_paths") {
      good = reader.take_values([&] { return reader.take_string(state.all_paths.emplace_back()); });
    } else if (field == "all_model_checkpoint_timestamps") {
      good =
          reader.take_values([&] { return reader.take_double(state.timestamps.emplace_back()); });
    }
    if (!good) return std::nullopt;
    if (!reader.take(",")) reader.take(";");
  }
  if (state.model_checkpoint_path.empty()) return std::nullopt;
  return state;
}

std::string print_state_file(const StateFile& state) {
  auto paths = state.all_paths;
  if (paths.empty() || paths.back() != state.model_checkpoint_path) {
    paths.push_back(state.model_checkpoint_path);
  }
  if (!state.timestamps.empty() && state.timestamps.size() != paths.size()) {
    throw Error(Code::internal, "the checkpoint state does not fit together",
                cat(state.timestamps.size(), " timestamps for ", paths.size(), " paths"));
  }
  std::string text = cat("model_checkpoint_path: ", literal(state.model_checkpoint_path), "\n");
  for (const auto& path : paths) text += cat("all_model_checkpoint_paths: ", literal(path), "\n");
  for (const double time : state.timestamps) {
    text += cat("all_model_checkpoint_timestamps: ", printed(time), "\n");
  }
  if (state.last_preserved) {
    text += cat("last_preserved_timestamp: ", printed(*state.last_preserved), "\n");
  }
  return text;
}

std::optional<StateFile> read_state_file(io::FileSystem& files, const io::Path& directory) {
  const auto text = io::try_read_file(files, directory / state_file_name, largest_file_bytes);
  return text ? parse_state_file(*text) : std::nullopt;
}

void write_state_file(io::FileSystem& files, const io::Path& directory, const Naming& name,
                      const StateFile& state, const Ownership* owner) {
  const auto path = directory / state_file_name;
  const auto text = print_state_file(state);
  if (!owner) {
    if (says_no_rename({files, directory})) return io::rewrite_file(files, path, text);
    return io::replace_file(files, path, text, directory / state_temporary_name(name, new_uuid()));
  }
  if (!owner->atomic_rename()) {
    owner->check();
    return io::rewrite_file(files, path, text);
  }
  io::replace_file(files, path, text, directory / state_temporary_name(name, owner->record().token),
                   [owner] { owner->check(); });
}

void rename_state_file(io::FileSystem& files, const io::Path& directory, const StateFile& state,
                       const io::Path& staged) {
  try {
    io::write_file(files, staged, print_state_file(state));
    files.rename(staged, directory / state_file_name);
  } catch (const Error&) {
    try {
      io::try_remove(files, staged);
    } catch (const Error&) {  // it is removed with the directory
    }
    throw;
  }
}

// An owner that opens the directory removes such temporaries (Ownership::take), also those of
// processes that live. So a file that vanishes while it is written is written again.
void replace_file(io::FileSystem& files, const io::Path& directory, const io::Path& path,
                  std::string_view bytes, bool takes_room) {
  if (says_no_rename({files, directory})) return io::rewrite_file(files, path, bytes);
  constexpr int most_tries = 3;
  for (int tries = 1;; ++tries) {
    const auto temporary = path.parent_path() / owner_temporary_name(new_uuid());
    try {
      return io::replace_file(files, path, bytes, temporary);
    } catch (const Error& error) {
      const bool full = takes_room && error.code() == Code::no_space;
      if (full && replace_in_room(files, directory, path, bytes, temporary)) return;
      if (error.code() != Code::not_found || tries == most_tries) throw;
    }
  }
}

}  // namespace cairn::commit
