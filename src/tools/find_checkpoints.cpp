#include "tools/find_checkpoints.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "io/local_path.hpp"
#include "store/commit/names.hpp"
#include "store/commit/state_file.hpp"
#include "store/contents/format.hpp"
#include "store/contents/hdf5_reader.hpp"
#include "store/contents/lost.hpp"

namespace cairn {
namespace {

bool is_directory(io::FileSystem& files, const io::Path& path) {
  const auto status = files.status(path);
  return status && status->is_directory;
}

bool is_checkpoint(io::FileSystem& files, const io::Path& prefix) {
  const auto name = prefix.filename().string();
  if (name.empty()) return false;
  return io::exists(files, prefix.parent_path() / commit::index_name(name)) ||
         is_own_hdf5(files, commit::hdf5_path(prefix));
}

io::Path newest_in(io::FileSystem& files, const io::Path& directory) {
  auto state = commit::read_state_file(files, directory);
  for (int looks = 64; state; --looks) {
    const auto prefix = directory / state->model_checkpoint_path;  // absolute ones stay themselves
    if (is_checkpoint(files, prefix)) return prefix;
    // A job that saves and removes may have gone on meanwhile.
    const auto before = std::exchange(state, commit::read_state_file(files, directory));
    if (looks > 0 && state != before) continue;
    throw Error(Code::not_found, cat("the newest checkpoint of ", directory.string(), " is gone"),
                cat("its state file names ", prefix.string(), ", which has no index"),
                "List what is there with cairn ls, and give a PREFIX.")
        .at(directory.string());
  }
  const auto prefixes = list_prefixes(files, directory);
  if (prefixes.size() == 1) return directory / prefixes.front();
  throw Error(Code::not_found,
              prefixes.empty() ? cat("there is no checkpoint in ", directory.string())
                               : cat(directory.string(), " does not say which of its ",
                                     prefixes.size(), " checkpoints is the newest"),
              "it has no state file", prefixes.empty() ? "" : "Give a PREFIX; cairn ls lists them.")
      .at(directory.string());
}

// The prefix that the text names by itself, if it does.
std::optional<io::Path> named_prefix(io::FileSystem& files, const std::string& text) {
  if (is_checkpoint(files, text)) return io::Path(text);
  const auto file = commit::split_main_file(text);
  if (file && is_checkpoint(files, file->prefix)) return file->prefix;
  return std::nullopt;
}

[[noreturn]] void nothing_there(const std::string& text) {
  throw Error(Code::not_found, cat("there is no checkpoint ", text),
              "neither PREFIX.index nor a PREFIX.h5 of Cairn's nor a directory of this name exists",
              "List what is there with cairn ls DIRECTORY.")
      .at(text);
}

}  // namespace

std::vector<std::string> list_prefixes(io::FileSystem& files, const io::Path& directory) {
  std::set<std::string> found;  // a step may be there in both formats
  for (const auto& entry : files.list(directory)) {
    const auto file = commit::split_main_file(entry);
    if (!file) continue;
    const auto path = directory / entry;
    if (try_recognise(format_of(file->kind), files, path).value_or(true)) {
      found.insert(file->prefix.string());
    }
  }
  for (const auto& lost : find_lost(files, directory))
    found.insert(lost.prefix.filename().string());
  std::vector<std::string> prefixes(found.begin(), found.end());
  const auto order = [](const std::string& prefix) {
    const auto split = commit::split_step(prefix);
    return split ? std::make_tuple(split->name, split->step, prefix)
                 : std::make_tuple(prefix, std::int64_t{-1}, prefix);
  };
  std::sort(prefixes.begin(), prefixes.end(),
            [&](const auto& a, const auto& b) { return order(a) < order(b); });
  return prefixes;
}

io::Path resolve_checkpoint(io::FileSystem& files, const std::string& given) {
  const auto text = io::local_path(given).string();
  if (const auto prefix = named_prefix(files, text)) return *prefix;
  if (is_directory(files, text)) return newest_in(files, text);
  nothing_there(text);
}

std::vector<io::Path> resolve_checkpoints(io::FileSystem& files, const std::string& given) {
  const auto text = io::local_path(given).string();
  if (const auto prefix = named_prefix(files, text)) return {*prefix};
  if (const auto lost = find_lost_at(files, text)) return {lost->prefix};
  if (const auto file = commit::split_main_file(text)) {
    if (const auto lost = find_lost_at(files, file->prefix)) return {lost->prefix};
  }
  if (!is_directory(files, text)) nothing_there(text);
  std::vector<io::Path> found;
  for (const auto& prefix : list_prefixes(files, text)) found.push_back(io::Path(text) / prefix);
  if (found.empty()) {
    throw Error(Code::not_found, cat("there is no checkpoint in ", text)).at(text);
  }
  return found;
}

}  // namespace cairn
