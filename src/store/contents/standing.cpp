#include "store/contents/standing.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/commit/state_file.hpp"
#include "store/contents/format.hpp"
#include "store/contents/lost.hpp"
#include "store/location.hpp"

namespace cairn {
namespace {

// Nothing: the directory cannot be listed.
std::optional<std::vector<std::string>> listed(const Address& directory,
                                               const std::string& name) try {
  const auto start = name + '.';
  auto listing = directory.list();
  std::erase_if(listing, [&](const auto& entry) { return !entry.starts_with(start); });
  return listing;
} catch (const Error& error) {
  if (error.code() != Code::not_found) return std::nullopt;
  return std::vector<std::string>();
}

std::optional<double> saved_at(const Address& directory, const std::string& name) try {
  const auto state = commit::read_state_file(directory);
  for (std::size_t i = 0; state && i < state->all_paths.size(); ++i) {
    if (io::Path(state->all_paths[i]).filename() != name) continue;
    return i < state->timestamps.size() ? state->timestamps[i] : 0;
  }
  return std::nullopt;
} catch (const Error&) {
  return std::nullopt;
}

std::string content_of(const CheckpointFormat& format, const Address& prefix) try {
  const auto index = format.read_index(*prefix.files(), prefix.path());
  return cat(index.bytes.size(), ' ', hex(crc32c(index.bytes)), '\n');
} catch (const Error& error) {
  return cat(error.what(), '\n');
}

bool is_lost(const Address& prefix) try {
  return find_lost_at(*prefix.files(), prefix.path()).has_value();
} catch (const Error&) {  // it cannot be told
  return true;
}

}  // namespace

Standing standing_of(const Address& prefix) {
  Standing now;
  // Where a list of steps tells what counts, a listing may be older than what it lists.
  std::optional<std::vector<std::string>> files;
  if (!step_list_of(*prefix.files())) {
    files = listed(prefix.directory(), prefix.name());
    now.saved_at = saved_at(prefix.directory(), prefix.name());
  }
  for (const auto* format : all_formats()) {
    const auto main = format->main_file(prefix.path()).filename().string();
    if (files && std::ranges::count(*files, main) == 0) continue;
    now.is_there = true;
    now.content += content_of(*format, prefix);
  }
  if (files) now.files = *std::move(files);
  return now;
}

bool stands_as_before(const Address& prefix, const Standing& before) {
  const auto now = standing_of(prefix);
  return now == before && (now.is_there || is_lost(prefix));
}

}  // namespace cairn
