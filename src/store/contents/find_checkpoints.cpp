#include "store/contents/find_checkpoints.hpp"

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

bool is_checkpoint(const Address& prefix) {
  if (prefix.name().empty()) return false;
  return prefix.at(commit::index_path(prefix.path())).exists() ||
         is_own_hdf5(*prefix.files(), commit::hdf5_path(prefix.path()));
}

Address newest_in(const Address& directory) {
  auto& files = *directory.files();
  auto state = commit::read_state_file(files, directory.path());
  for (int looks = 64; state; --looks) {
    const auto prefix = directory / state->model_checkpoint_path;  // absolute ones stay themselves
    if (is_checkpoint(prefix)) return prefix;
    // A job that saves and removes may have gone on meanwhile.
    const auto before = std::exchange(state, commit::read_state_file(files, directory.path()));
    if (looks > 0 && state != before) continue;
    throw Error(Code::not_found, cat("the newest checkpoint of ", directory.string(), " is gone"),
                cat("its state file names ", prefix.string(), ", which has no index"),
                "List what is there with cairn ls, and give a PREFIX.")
        .at(directory.string());
  }
  const auto prefixes = list_prefixes(directory);
  if (prefixes.size() == 1) return directory / prefixes.front();
  throw Error(Code::not_found,
              prefixes.empty() ? cat("there is no checkpoint in ", directory.string())
                               : cat(directory.string(), " does not say which of its ",
                                     prefixes.size(), " checkpoints is the newest"),
              "it has no state file", prefixes.empty() ? "" : "Give a PREFIX; cairn ls lists them.")
      .at(directory.string());
}

// The prefix that the text names by itself, if it does.
std::optional<Address> named_prefix(const Address& text) {
  if (is_checkpoint(text)) return text;
  const auto file = commit::split_main_file(text.path());
  if (file && is_checkpoint(text.at(file->prefix))) return text.at(file->prefix);
  return std::nullopt;
}

[[noreturn]] void nothing_there(const std::string& text) {
  throw Error(Code::not_found, cat("there is no checkpoint ", text),
              "neither PREFIX.index nor a PREFIX.h5 of Cairn's nor a directory of this name exists",
              "List what is there with cairn ls DIRECTORY.")
      .at(text);
}

}  // namespace

std::vector<std::string> list_prefixes(const Address& directory) {
  std::set<std::string> found;  // a step may be there in both formats
  for (const auto& entry : directory.list()) {
    const auto file = commit::split_main_file(entry);
    if (!file) continue;
    if (try_recognise(format_of(file->kind), directory / entry).value_or(true)) {
      found.insert(file->prefix.string());
    }
  }
  for (const auto& lost : find_lost(*directory.files(), directory.path()))
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

Address resolve_checkpoint(const Address& given) {
  const auto text = given.at(io::local_path(given.path()));
  if (const auto prefix = named_prefix(text)) return *prefix;
  if (text.is_directory()) return newest_in(text);
  nothing_there(text.string());
}

bool names_another(const Address& given, const Address& prefix) try {
  return resolve_checkpoint(given).path() != prefix.path();
} catch (const Error&) {  // what was wrong first is told
  return false;
}

std::vector<Address> resolve_checkpoints(const Address& given) {
  const auto text = given.at(io::local_path(given.path()));
  auto& files = *text.files();
  if (const auto prefix = named_prefix(text)) return {*prefix};
  if (const auto lost = find_lost_at(files, text.path())) return {text.at(lost->prefix)};
  if (const auto file = commit::split_main_file(text.path())) {
    if (const auto lost = find_lost_at(files, file->prefix)) return {text.at(lost->prefix)};
  }
  if (!text.is_directory()) nothing_there(text.string());
  std::vector<Address> found;
  for (const auto& prefix : list_prefixes(text)) found.push_back(text / prefix);
  if (found.empty()) {
    throw Error(Code::not_found, cat("there is no checkpoint in ", text.string()))
        .at(text.string());
  }
  return found;
}

}  // namespace cairn
