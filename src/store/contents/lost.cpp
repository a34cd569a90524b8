#include "store/contents/lost.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "io/local_path.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "store/commit/protocol.hpp"
#include "store/commit/staging_directory.hpp"
#include "store/commit/state_file.hpp"
#include "store/contents/format.hpp"
#include "store/contents/hdf5_reader.hpp"
#include "store/contents/notes.hpp"
#include "store/contents/spare.hpp"

namespace cairn {
namespace {

using EntryKind = commit::ParsedName::Kind;

struct Evidence {
  std::set<std::string> listed;      // prefixes in the state file
  std::set<std::string> told_names;  // names of which it lists a checkpoint
  std::map<std::string, Note> notes;

  // Whether the state file lists no checkpoint of this name, because it is missing or is another
  // name's. Then only a note tells that a checkpoint was live.
  bool untold(const std::string& prefix) const {
    const auto split = commit::split_step(prefix);
    return split && !told_names.count(split->name);
  }

  Note note(const std::string& prefix) const {
    const auto at = notes.find(prefix);
    return at == notes.end() ? Note{} : at->second;
  }
};

Evidence read_evidence(io::FileSystem& files, const io::Path& directory) {
  Evidence evidence;
  if (const auto state = commit::read_state_file(files, directory)) {
    for (const auto& path : state->all_paths) {
      const auto name = io::Path(path).filename().string();
      const auto split = commit::split_step(name);
      if (!split) continue;
      evidence.listed.insert(name);
      evidence.told_names.insert(split->name);
    }
  }
  evidence.notes = read_notes(files, directory);
  return evidence;
}

// What is left of one checkpoint in the directory.
struct Remains {
  std::set<std::int64_t> counts;     // counts in the names of its data files
  std::string data;                  // the name of one data file
  std::set<std::string> unfinished;  // UUIDs of saves that are pending, or died
  // Those of `unfinished` that have no staged index. If the data holds a copy of such a save's
  // index, the index was renamed, and the save is committed.
  std::set<std::string> without_index;
  bool replacing = false;  // one of these saves has set the index aside
};

bool is_known_absent(io::FileSystem& files, const io::Path& path) {
  try {
    return !io::exists(files, path);
  } catch (const Error& error) {
    if (error.code() == Code::unavailable) throw;
    return false;
  }
}

Remains look_for(io::FileSystem& files, const io::Path& directory, const std::string& prefix,
                 const std::vector<std::string>& listing) {
  Remains found;
  const commit::Naming name(prefix, false);
  for (const auto& entry : listing) {
    const auto parsed = commit::parse_name(entry, name);
    if (parsed.kind == EntryKind::data) {
      found.counts.insert(parsed.count);
      found.data = entry;
    }
    if (parsed.kind != EntryKind::temp_directory) continue;
    found.unfinished.insert(parsed.uuid);
    commit::Transaction save{directory, name, 0, parsed.uuid, 0, parsed.direct};
    save.keeper = parsed.keeper;
    if (!parsed.direct) {
      if (is_known_absent(files, save.staged_index())) found.without_index.insert(parsed.uuid);
      continue;
    }
    const auto old = commit::read_old_index(files, save);
    found.replacing |= old && old->bytes;
  }
  return found;
}

bool may_be_whole_hdf5(io::FileSystem& files, const io::Path& path) {
  bool may_be = false;
  io::with_open(files, path, [&](io::File& file) {
    const auto size = file.size();
    std::string bytes(static_cast<std::size_t>(std::min(size, hdf5::marker_reach)), '\0');
    if (!bytes.empty()) file.read_at(0, std::as_writable_bytes(std::span(bytes)));
    may_be = hdf5::may_be_whole(bytes, size);
  });
  return may_be;
}

std::optional<LostCheckpoint> lost_hdf5(io::FileSystem& files, const io::Path& prefix) {
  const auto status = files.status(commit::hdf5_path(prefix));
  if (!status) return std::nullopt;  // removed meanwhile
  LostCheckpoint lost{prefix, Format::hdf5};
  lost.wall_time_seconds = status->modified_seconds;
  lost.why = cat("what Cairn saved in ", commit::hdf5_path(prefix).filename().string(),
                 " is not there any more: ",
                 status->size > 0 ? cat("neither the beginning nor the end of its ", status->size,
                                        " bytes is Cairn's")
                                  : "it is empty");
  return lost;
}

// Describes a bundle that has lost its index, by the copies of its index.
void tell_of_spares(LostCheckpoint& lost, std::vector<Spare>& spares, const std::string& missing,
                    const Remains& found, bool beside_hdf5) {
  if (spares.empty()) {
    lost.why = cat(missing, "; none of them holds a sound copy of it");
  } else if (spares.size() > 1 || found.counts.size() > 1 || beside_hdf5) {
    lost.why = cat(missing, "; what is there is of several saves");
    // The other data files belong to an unfinished save, so those of this checkpoint are known.
    const bool known = spares.size() == 1 && !beside_hdf5 && !found.unfinished.empty();
    if (known) lost.num_files = spares.front().num_files;
  } else {
    lost.why = missing;
    lost.num_files = spares.front().num_files;
    lost.spare = std::move(spares.front().index);
  }
}

// A bundle without an index, if the state file or a note says that it was live.
std::optional<LostCheckpoint> lost_bundle(io::FileSystem& files, const io::Path& directory,
                                          const std::string& prefix, const Remains& found,
                                          bool listed, const Note& note, bool beside_hdf5) {
  const auto missing =
      cat(commit::index_name(prefix), " is missing, though its data files are there");
  std::vector<Spare> spares;
  try {
    spares = find_spares(files, directory, commit::Naming(prefix, false), 0);
  } catch (const Error& error) {
    const bool is_told = error.code() != Code::not_found && error.code() != Code::unavailable;
    if (!is_told || !listed) throw;
    LostCheckpoint lost{directory / prefix};
    lost.why = cat(missing, ", and cannot be read now: ", error.what());
    return lost;
  }
  // A save died after its commit, and its index vanished afterwards (Remains::without_index).
  const auto committed = std::find_if(spares.begin(), spares.end(), [&](const auto& spare) {
    return found.without_index.count(spare.meta.uuid) != 0;
  });
  if (committed != spares.end() && listed && !beside_hdf5) {
    LostCheckpoint lost{directory / prefix};
    lost.wall_time_seconds = committed->meta.wall_time_seconds;
    lost.why = missing;
    lost.num_files = committed->num_files;
    lost.spare = std::move(committed->index);
    return lost;
  }
  const auto split = commit::split_step(prefix);
  auto others = found.counts;  // without the counts of unfinished saves
  // Copies that tell nothing of a live checkpoint: those of unfinished saves, and those that
  // neither the note names nor, by their step, the state file.
  std::erase_if(spares, [&](const auto& spare) {
    if (found.unfinished.count(spare.meta.uuid)) {
      others.erase(spare.num_files);
      return true;
    }
    if (!note.bundle.empty() && spare.meta.uuid == note.bundle) return false;
    return !listed || !split || spare.meta.step != split->step;
  });
  if (spares.empty() && (!listed || others.empty())) return std::nullopt;
  LostCheckpoint lost{directory / prefix};
  if (const auto status = files.status(directory / found.data)) {
    lost.wall_time_seconds = status->modified_seconds;
  }
  tell_of_spares(lost, spares, missing, found, beside_hdf5);
  return lost;
}

bool was_retired(io::FileSystem& files, const io::Path& directory,
                 const std::vector<std::string>& listing, const std::string& prefix) {
  const auto split = commit::split_step(prefix);
  return split && commit::was_retired(files, directory, listing, split->name, split->step);
}

// Whether this prefix is a lost checkpoint: it has no main file, something says that it was live,
// and neither a save that replaces it nor its removal on purpose explains that.
std::optional<LostCheckpoint> look_at(io::FileSystem& files, const io::Path& directory,
                                      const std::string& prefix,
                                      const std::vector<std::string>& listing,
                                      const Evidence& evidence) {
  const auto is_listed = [&](const std::string& entry) {
    return std::binary_search(listing.begin(), listing.end(), entry);
  };
  const auto index = commit::index_name(prefix);
  const bool has_hdf5 = is_listed(commit::hdf5_name(prefix));
  const auto& hdf5 = format_of(Format::hdf5);
  if (is_listed(index) || (has_hdf5 && hdf5.may_be_one(files, hdf5.main_file(directory / prefix))))
    return std::nullopt;
  const bool listed = evidence.listed.count(prefix) != 0;
  const auto note = evidence.note(prefix);
  const auto found = look_for(files, directory, prefix, listing);
  if (found.replacing) return std::nullopt;
  std::optional<LostCheckpoint> lost;
  const bool live = listed || note.alone || evidence.untold(prefix);
  if (has_hdf5 && ((note.hdf5 && live) || (listed && found.counts.empty()))) {
    lost = lost_hdf5(files, directory / prefix);
  } else if (!found.counts.empty()) {
    lost = lost_bundle(files, directory, prefix, found, listed, note, has_hdf5);
  }
  if (lost && was_retired(files, directory, listing, prefix)) return std::nullopt;
  // It may have been committed after the listing and before the state file was read.
  if (files.status(directory / index)) return std::nullopt;
  return lost;
}

}  // namespace

std::vector<LostCheckpoint> find_lost(io::FileSystem& files, const io::Path& directory) {
  std::vector<LostCheckpoint> all;
  if (!files.status(directory)) return all;
  // First the files are listed, then the state file is read. An owner that removes does it in the
  // opposite order.
  const auto listing = files.list(directory);
  const auto evidence = read_evidence(files, directory);
  auto prefixes = evidence.listed;
  for (const auto& [prefix, note] : evidence.notes) prefixes.insert(prefix);
  for (const auto& prefix : prefixes) try {
      if (auto lost = look_at(files, directory, prefix, listing, evidence)) {
        all.push_back(*std::move(lost));
      }
    } catch (const Error& error) {  // removed meanwhile
      if (error.code() != Code::not_found) throw;
    }
  return all;
}

std::map<std::int64_t, LostCheckpoint> find_lost_steps(io::FileSystem& files,
                                                       const io::Path& directory,
                                                       const commit::Naming& name) {
  std::map<std::int64_t, LostCheckpoint> steps;
  for (auto& lost : find_lost(files, directory)) {
    const auto step = commit::parse_prefix(lost.prefix.filename().string(), name);
    if (step) steps.emplace(*step, std::move(lost));
  }
  return steps;
}

std::optional<LostCheckpoint> find_lost_at(io::FileSystem& files, const io::Path& prefix) {
  const auto directory = prefix.has_parent_path() ? prefix.parent_path() : io::Path(".");
  if (!prefix.has_filename() || !files.status(directory)) return std::nullopt;
  try {
    const auto listing = files.list(directory);
    return look_at(files, directory, prefix.filename().string(), listing,
                   read_evidence(files, directory));
  } catch (const Error& error) {
    if (error.code() != Code::not_found) throw;
    return std::nullopt;
  }
}

const char* index_way_out(const io::Path& prefix) {
  return io::is_address(prefix)
             ? "cairn verify --repair puts the index back, whose copy is there, in a download of "
               "the whole directory. Upload it from there."
             : "cairn verify --repair puts the index back, whose copy is there.";
}

Error lost_error(const LostCheckpoint& lost) {
  auto file = format_of(lost.format).main_file(lost.prefix).string();
  return Error(Code::data_loss, cat("the checkpoint ", lost.prefix.string(), " is lost"), lost.why,
               lost.spare.empty()
                   ? "Restore another checkpoint; a save of this one replaces what is left."
                   : index_way_out(lost.prefix))
      .at(std::move(file));
}

bool was_own_hdf5(io::FileSystem& files, const io::Path& prefix) {
  const auto path = commit::hdf5_path(prefix);
  if (is_own_hdf5(files, path)) return true;
  const auto status = files.status(path);
  if (!status || status->is_directory) return false;
  if (may_be_whole_hdf5(files, path)) return false;
  if (read_evidence(files, prefix.parent_path()).note(prefix.filename().string()).hdf5) return true;
  const auto lost = find_lost_at(files, prefix);
  return lost && lost->format == Format::hdf5;
}

void retire(io::FileSystem& files, const io::Path& directory, const commit::Naming& name,
            const std::vector<io::Path>& prefixes) {
  for (const auto& prefix : prefixes) forget_alone(files, prefix);
  auto state = commit::read_state_file(files, directory);
  if (!state) return;
  const auto goes = [&](const std::string& path) {
    return std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& prefix) {
      return io::Path(path).filename() == prefix.filename();
    });
  };
  // The state file without these prefixes, otherwise as it was.
  auto kept = *state;
  kept.all_paths.clear();
  kept.timestamps.clear();
  for (std::size_t i = 0; i < state->all_paths.size(); ++i) {
    if (goes(state->all_paths[i])) continue;
    kept.all_paths.push_back(state->all_paths[i]);
    if (i < state->timestamps.size()) kept.timestamps.push_back(state->timestamps[i]);
  }
  if (goes(state->model_checkpoint_path)) {
    kept.model_checkpoint_path = kept.all_paths.empty() ? "" : kept.all_paths.back();
  } else if (kept.all_paths.size() == state->all_paths.size()) {
    return;
  }
  const bool in_order = !kept.all_paths.empty() &&
                        kept.all_paths.back() == kept.model_checkpoint_path &&
                        kept.timestamps.size() == kept.all_paths.size();
  if (!in_order) kept.timestamps.clear();  // another program wrote the file
  try {
    if (!kept.model_checkpoint_path.empty()) {
      return commit::write_state_file(files, directory, name, kept);
    }
  } catch (const Error& error) {
    if (error.code() != Code::no_space) throw;
  }
  files.remove(directory / commit::state_file_name);
  files.sync_directory(directory);
}

}  // namespace cairn
