#include "store/directory/named_checkpoint.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "io/local_path.hpp"
#include "store/commit/names.hpp"
#include "store/commit/state_file.hpp"
#include "store/contents/find_checkpoints.hpp"
#include "store/contents/hdf5_reader.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/not_ours.hpp"
#include "store/directory/catalog.hpp"
#include "store/location.hpp"

namespace cairn {
namespace {

bool is_checkpoint(const Address& prefix) {
  if (prefix.name().empty()) return false;
  return prefix.at(commit::index_path(prefix.path())).exists() ||
         is_own_hdf5(*prefix.files(), commit::hdf5_path(prefix.path()));
}

// Why it cannot be used, if it is a numbered one; empty: nothing is known against it.
std::string damage_of(const Address& prefix) {
  const auto split = commit::split_step(prefix.name());
  if (!split) return "";
  return look_at_step(location_of(prefix.directory(), split->name), split->step).damage;
}

// What the state file names, unless a job removes that just now.
std::optional<Address> named_by_state_file(const Address& directory) {
  auto state = commit::read_state_file(*directory.files(), directory.path());
  // A job may save and remove between the two looks. If the file has not changed meanwhile, it
  // names what is gone.
  for (int looks = 64; state && looks > 0; --looks) {
    const auto prefix = directory / state->model_checkpoint_path;  // absolute ones stay themselves
    if (is_checkpoint(prefix)) return prefix;
    const auto before =
        std::exchange(state, commit::read_state_file(*directory.files(), directory.path()));
    if (state == before) return prefix;
  }
  return std::nullopt;
}

[[noreturn]] void none_in(const Address& directory) {
  const auto other = recognise_other(directory);
  if (auto* const lists = step_list_of(*directory.files())) {
    const auto names = lists->names_in(directory.path());
    const bool any_beside = std::ranges::any_of(names, [&](const auto& naming) {
      return !lists->steps_beside(location_of(directory, naming)).empty();
    });
    if (any_beside) {
      throw Error(Code::not_found, cat("no checkpoint in ", directory.string(), " counts"),
                  "none of them is in the list of those that do",
                  "cairn ls tells what is there beside it.")
          .at(directory.string());
    }
    if (!names.empty()) {
      throw Error(Code::not_found, cat("there is no checkpoint in ", directory.string()),
                  "the list of those that count is empty",
                  cat("cairn gc ", directory.string(), " --dry-run ", what_gc_tells, '.'))
          .at(directory.string());
    }
  }
  throw Error(Code::not_found, cat("there is no checkpoint in ", directory.string()),
              other ? other->what : "neither an index nor a state file is there",
              other ? other->way_out : "cairn ls tells which saves failed there, if any did.")
      .at(directory.string());
}

// By what is there: of the name whose checkpoint the state file names, or the only one.
Address newest_of_all(const Address& directory, const std::optional<Address>& told) {
  const auto prefixes = list_prefixes(directory);
  auto names = names_of(prefixes);
  const auto split = told ? commit::split_step(told->name()) : std::nullopt;
  if (split && names.contains(split->name)) names = {split->name};
  if (names.empty() && prefixes.size() == 1) return directory / prefixes.front();
  if (prefixes.empty()) none_in(directory);
  if (names.size() != 1) {
    throw Error(Code::not_found,
                cat(directory.string(), " does not say which of its ", prefixes.size(),
                    " checkpoints is the newest"),
                "it has no state file", "Give a PREFIX; cairn ls lists them.")
        .at(directory.string());
  }
  const auto catalog = scan_catalog(location_of(directory, *names.begin()));
  const auto live = restorable(catalog);
  const auto path = [&](std::int64_t step) {
    return directory / commit::prefix_name(*names.begin(), step);
  };
  if (!live.empty()) return path(live.front()->step);
  if (catalog.empty()) none_in(directory);
  const auto gone = told && !is_checkpoint(*told)
                        ? cat("the one that the state file names, ", told->name(), ", is gone; ")
                        : std::string();
  throw Error(
      Code::data_loss, cat("no checkpoint in ", directory.string(), " can be used"),
      cat(gone, "the newest, ", path(catalog.back().step).name(), ": ", catalog.back().damage),
      "cairn verify DIR --repair puts back what is there a second time.")
      .at(directory.string());
}

// What the state file names, if it is there and whole. Otherwise all of the directory is looked at.
// Where a list tells what counts, the state file tells the name only.
Address newest_in(const Address& directory) {
  const auto told = named_by_state_file(directory);
  if (step_list_of(*directory.files())) return newest_of_all(directory, told);
  const bool is_there = told && is_checkpoint(*told);
  const auto damage = is_there ? damage_of(*told) : "";
  if (is_there && damage.empty()) return *told;
  auto newest = newest_of_all(directory, told);
  // What a job that saves here lets go of meanwhile is no news.
  const auto told_now = told ? named_by_state_file(directory) : std::nullopt;
  const bool is_still_told = told_now && told_now->path() == told->path();
  if (is_still_told && newest.path() != told->path()) {
    log(LogLevel::warning, cat("the newest checkpoint, ", told->string(), ", ",
                               is_there ? cat("cannot be used (", damage, ")") : "is gone",
                               ": this is ", newest.name()));
  }
  return newest;
}

// The prefix that the text names by itself, if it does.
std::optional<Address> named_prefix(const Address& text) {
  if (is_checkpoint(text)) return text;
  const auto file = commit::split_main_file(text.path());
  if (file && is_checkpoint(text.at(file->prefix))) return text.at(file->prefix);
  return std::nullopt;
}

std::optional<LostCheckpoint> lost_at(const Address& text) {
  if (auto lost = find_lost_at(*text.files(), text.path())) return lost;
  const auto file = commit::split_main_file(text.path());
  return file ? find_lost_at(*text.files(), file->prefix) : std::nullopt;
}

[[noreturn]] void nothing_there(const Address& given) {
  const auto text = given.string();
  if (const auto other = recognise_other(given)) {
    throw Error(Code::not_found, cat(text, " is no checkpoint"), other->what, other->way_out)
        .at(text);
  }
  throw Error(Code::not_found, cat("there is no checkpoint ", text),
              "neither PREFIX.index nor a PREFIX.h5 of Cairn's nor a directory of this name exists",
              "List what is there with cairn ls DIRECTORY.")
      .at(text);
}

}  // namespace

Address resolve_checkpoint(const Address& given) {
  const auto text = given.at(io::local_path(given.path()));
  if (const auto prefix = named_prefix(text)) return *prefix;
  if (text.is_directory()) return newest_in(text);
  if (const auto lost = lost_at(text)) throw lost_error(*lost);
  nothing_there(text);
}

bool names_another(const Address& given, const Address& prefix) try {
  return resolve_checkpoint(given).path() != prefix.path();
} catch (const Error&) {  // what was wrong first is told
  return false;
}

std::vector<Address> resolve_checkpoints(const Address& given) {
  const auto text = given.at(io::local_path(given.path()));
  if (const auto prefix = named_prefix(text)) return {*prefix};
  if (const auto lost = lost_at(text)) return {text.at(lost->prefix)};
  if (!text.is_directory()) nothing_there(text);
  std::vector<Address> found;
  for (const auto& prefix : list_prefixes(text)) found.push_back(text / prefix);
  if (found.empty()) none_in(text);
  return found;
}

bool Still::is_the_one() const {
  return stands_as_before(prefix_.view(), before_) && !names_another(given_, prefix_);
}

void Still::require() const {
  if (is_the_one()) return;
  const auto prefix = prefix_.string();
  throw Error(
      Code::not_found, cat("the checkpoint ", prefix, " was removed or replaced while it was read"),
      "the job that saves there has let it go", "Try again, or give the PREFIX of one that stays.")
      .at(prefix);
}

}  // namespace cairn
