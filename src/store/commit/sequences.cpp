#include "store/commit/sequences.hpp"

#include <algorithm>

#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "store/commit/names.hpp"

namespace cairn::commit {

std::optional<std::int64_t> reserved_sequences(io::FileSystem& files, const io::Path& directory) {
  std::optional<std::int64_t> last;
  const auto own = directory / private_directory_name;
  if (!files.status(own)) return last;
  for (const auto& entry : files.list(own)) {
    const auto parsed = parse_private_name(entry);
    // After a crash there may be several. The highest counts.
    if (parsed.kind == ParsedName::Kind::sequences)
      last = std::max(last.value_or(0), parsed.number);
  }
  return last;
}

std::int64_t reserve_sequences(io::FileSystem& files, const io::Path& directory,
                               std::int64_t last) {
  const auto own = directory / private_directory_name;
  last = std::max(last, reserved_sequences(files, directory).value_or(0));
  if (last > most_sequences - sequence_block) {
    throw Error(Code::no_space, "the directory has used up its numbers of commits", "",
                "Save into a new directory.")
        .at(directory.string());
  }
  const auto next = last + sequence_block;
  io::write_file(files, own / sequences_name(next), "");
  files.sync_directory(own);
  // Older reservations go when the new one is durable, so that one is there at any time.
  for (const auto& entry : files.list(own)) {
    const auto parsed = parse_private_name(entry);
    if (parsed.kind != ParsedName::Kind::sequences || parsed.number >= next) continue;
    try {
      files.remove(own / entry);
    } catch (const Error& error) {  // harmless: it reserves less than the new one
      log(LogLevel::info, error.what());
    }
  }
  return next;
}

}  // namespace cairn::commit
