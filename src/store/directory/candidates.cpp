#include "store/directory/candidates.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/log.hpp"
#include "exchange/messages.hpp"
#include "group/collectives.hpp"
#include "layout/bundle/part_record.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "model/descriptions.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/data_files.hpp"
#include "store/contents/format.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/seal.hpp"
#include "store/contents/spare.hpp"

namespace cairn {
namespace {

constexpr std::int64_t record_limit_bytes = std::int64_t{4} << 30;

bundle::PartRecord read_record(io::FileSystem& files, const io::Path& path) {
  constexpr std::int64_t small = std::int64_t{1} << 20;
  const auto file = files.open_read(path);
  const auto size = file->size();
  if (size > small) {  // one that is none costs no memory
    std::string first(64, '\0');
    file->read_at(0, std::as_writable_bytes(std::span(first)));
    bundle::check_record_frame(first, static_cast<std::uint64_t>(size));
  }
  return bundle::decode_part_record(io::read_file(*file, path, record_limit_bytes));
}

std::vector<bundle::PartRecord> read_records(io::FileSystem& files, const io::Path& temp) {
  std::vector<bundle::PartRecord> records;
  for (const auto& file : files.list(temp)) {
    if (commit::parse_temp_name(file).kind != commit::ParsedName::Kind::record) continue;
    records.push_back(read_record(files, temp / file));
  }
  return records;
}

[[noreturn]] void refuse(std::string why) { throw Error(Code::data_loss, std::move(why)); }

// Refuses records that are not those of all writers of one and the same save.
void require_all_parts(const std::vector<bundle::PartRecord>& records, const std::string& uuid) {
  if (records.empty()) refuse("no part record");
  const auto& first = records.front();
  if (records.size() != static_cast<std::size_t>(first.parts)) {
    refuse(cat(records.size(), " of ", first.parts, " part records"));
  }
  std::vector<bool> seen(records.size());
  for (const auto& record : records) {
    if (record.uuid != uuid || record.fingerprint != first.fingerprint ||
        record.parts != first.parts || record.num_files != first.num_files || record.part < 0 ||
        record.part >= first.parts || seen[static_cast<std::size_t>(record.part)]) {
      refuse("part records of different saves");
    }
    seen[static_cast<std::size_t>(record.part)] = true;
  }
}

// The same with the paths of the files.
Candidate candidate_of(io::FileSystem& files, commit::Transaction save,
                       const std::vector<bundle::PartRecord>& records) {
  format_of(format_of_unfinished(files, save)).shape(save, 0);
  auto candidate = join_records(std::move(save), records);
  save = candidate.save;
  for (int file = 0; file < candidate.data_files; ++file) {
    // Writers may have given some files their final names before the job died.
    const auto path = io::exists(files, save.part(file)) ? save.part(file) : save.data(file);
    if (!io::exists(files, path)) refuse(cat("data file ", file, " is missing"));
    candidate.paths.push_back(path.string());
  }
  return candidate;
}

// What was committed here, as far as the indexes tell, and for a checkpoint whose index is damaged
// or lost the copies beside its data. If these are of several saves, the last save to give its data
// their names did so when all saves before it were committed or given up.
class Committed {
 public:
  Committed(const Location& place, const std::vector<std::string>& names) {
    std::set<std::int64_t> without;  // an index that can be read
    for (const auto& [step, lost] : find_lost_steps(*place.files, place.directory, place.naming)) {
      without.insert(step);
    }
    for (const auto& name : names) {
      const auto parsed = commit::parse_name(name, place.naming);
      if (!commit::is_main(parsed.kind)) continue;
      const auto there = try_summary(place, parsed.step);
      if (there && there->meta) last_ = std::max(last_, there->meta->sequence);
      if (!there) without.insert(parsed.step);
    }
    for (const auto step : without) try {
        auto metas = find_metas_without_index(*place.files, place.directory, place.naming, step);
        std::move(metas.begin(), metas.end(), std::back_inserter(without_index_));
      } catch (const Error& error) {
        if (error.code() == Code::unavailable) throw;
        log(LogLevel::warning, cat("step ", step, " cannot be looked at now: ", error.what()));
      }
  }
  // A save that something was committed after was given up, or was committed and then replaced or
  // removed. To complete it would make debris of the data that replaced it, if a crash has brought
  // its records back. A save whose own copy of the index is found may have lost its index, and is
  // completed again.
  bool has_come_after(const CheckpointMeta& save) const {
    return save.sequence <= last_ ||
           std::any_of(without_index_.begin(), without_index_.end(), [&](const auto& other) {
             return other.sequence >= save.sequence && other.uuid != save.uuid;
           });
  }

 private:
  std::int64_t last_ = 0;  // of those that say it in their index
  std::vector<CheckpointMeta> without_index_;
};

// Only steps that are not there are saved from a staging directory. If such a step is there now,
// its records may be those of a committed save, and the step may be of a later one, whose sequence
// is unknown if it cannot be read. To complete the older save would make debris of its data.
void require_nothing_later(const Location& place, const commit::Transaction& save,
                           std::int64_t sequence) {
  if (!io::exists(*place.files, save.index())) {
    for (const auto& other :
         find_metas_without_index(*place.files, place.directory, place.naming, save.step)) {
      if (other.uuid == save.uuid || other.sequence < sequence) continue;
      throw Error(Code::already_exists, "data of a later save of its step are there");
    }
    return;
  }
  const auto there = read_contents_as(Format::bundle, *place.files, save.prefix());
  if (there.meta && there.meta->sequence < sequence) return;
  throw Error(Code::data_loss, cat("its step is there: ", save.index().string()));
}

// Which of these saves have records in a staging directory, and of which step they are. It reads a
// few of the records only, since there is one a rank.
std::map<std::string, std::int64_t> steps_of_records(io::FileSystem& files, const io::Path& temp,
                                                     const std::vector<std::string>& names,
                                                     const std::set<std::string>& uuids) {
  constexpr int most_looked_at = 64;
  std::map<std::string, std::int64_t> steps;
  int looked_at = 0;
  for (const auto& file : names) {
    if (commit::parse_temp_name(file).kind != commit::ParsedName::Kind::record) continue;
    if (steps.size() == uuids.size() || ++looked_at > most_looked_at) break;
    try {
      const auto record = read_record(files, temp / file);
      if (uuids.contains(record.uuid)) steps[record.uuid] = record.meta.step;
    } catch (const Error& error) {  // torn, say: it tells nothing
      if (error.code() == Code::unavailable) throw;
    }
  }
  return steps;
}

// The save whose records fill a slot; nothing if a later commit has ended it. `told` gets what the
// records say, also if something fails afterwards.
struct StagedSave {
  std::optional<std::int64_t> step;
  std::string uuid;
};
std::optional<Candidate> staged_candidate(const Location& place, commit::Transaction save,
                                          std::int64_t count, const Committed& committed,
                                          StagedSave& told) {
  std::vector<bundle::PartRecord> records;
  for (int part = 0; part < count; ++part) {
    records.push_back(read_record(*place.files, save.record(part, static_cast<int>(count))));
    const auto& first = records.front();
    told = {first.meta.step, first.uuid};
    if (committed.has_come_after(first.meta)) return std::nullopt;
  }
  save.step = *told.step;
  save.uuid = told.uuid;
  require_nothing_later(place, save, records.front().meta.sequence);
  return candidate_of(*place.files, std::move(save), records);
}

// Notes why a save cannot be completed now. Returns whether it may be possible later, as far as the
// error tells. Throws the error if the storage does not answer: a restart must not go on without
// the save.
bool note_why(Undecided& undecided, const std::string& entry, std::optional<std::int64_t> step,
              const std::string& which, const Error& error) {
  if (error.code() == Code::unavailable) throw Error(error);
  if (error.code() == Code::data_loss || error.code() == Code::internal) {
    undecided.add_unfinished(entry, step, error.what());
    return false;
  }
  log(LogLevel::info, cat(which, " did not finish: ", error.what()));
  undecided.temps.insert(entry);
  if (step) undecided.steps.insert(*step);
  undecided.any_step |= !step;
  return true;
}

// Looks into one temp directory after the other. What can be neither completed nor removed goes to
// `undecided`.
class Search {
 public:
  Search(const Location& place, const commit::Ownership* owner, Undecided& undecided,
         const std::vector<std::string>& names)
      : place_(place), owner_(owner), undecided_(undecided), committed_(place, names) {}

  // The saves that were made in a staging directory. Records of earlier saves lie there until they
  // are overwritten, perhaps of another number of ranks: so they are counted by slot and number.
  void add_staged(const commit::ParsedName& staging) {
    auto& files = *place_.files;
    commit::Transaction save{place_.directory, place_.naming, staging.step, ""};
    save.staging = staging.uuid;
    save.keeper = staging.keeper;
    const auto temp = save.temp();
    const auto entry = temp.filename().string();
    std::map<std::pair<int, std::int64_t>, std::int64_t> there;  // of each slot and count: how many
    std::vector<std::string> names;
    std::set<std::string> begun;  // saves whose data has not got its final names
    try {
      names = files.list(temp);
      for (const auto& file : names) {
        const auto parsed = commit::parse_temp_name(file);
        if (parsed.slot >= 0) ++there[{parsed.slot, parsed.count}];
        if (parsed.kind == commit::ParsedName::Kind::part) begun.insert(parsed.uuid);
      }
    } catch (const Error& error) {
      if (error.code() == Code::not_found) return;  // its owner has ended
      if (error.code() == Code::unavailable) throw;
      log(LogLevel::warning, cat(temp.string(), " cannot be looked at now: ", error.what()));
      undecided_.temps.insert(entry);
      undecided_.any_step = true;
    }
    for (const auto& [which, found] : there) {
      if (found != which.second) continue;
      save.slot = which.first;
      StagedSave told;
      try {
        auto candidate = staged_candidate(place_, save, found, committed_, told);
        if (!candidate) continue;
        candidates_.push_back(std::move(*candidate));
      } catch (const Error& error) {
        note_why(undecided_, entry, told.step, cat("a save in ", temp.string()), error);
      }
      begun.erase(told.uuid);
    }
    if (begun.empty()) return;
    const auto steps = steps_of_records(files, temp, names, begun);
    for (const auto& uuid : begun) {
      const auto known = steps.find(uuid);
      undecided_.add_unfinished(entry,
                                known == steps.end() ? std::nullopt : std::optional(known->second),
                                "its job ended before all of it was written");
    }
  }

  // A save that was made in a temp directory of its own.
  void add_unstaged(const commit::ParsedName& parsed, const std::string& name) {
    auto& files = *place_.files;
    commit::Transaction save{place_.directory, place_.naming, parsed.step, parsed.uuid, 0,
                             parsed.direct};
    save.keeper = parsed.keeper;
    // Whether the save's own job could still complete it: the directory has the name that the job
    // knows.
    bool reached = parsed.keeper.empty() && !save.direct;
    try {
      if (save.direct) commit::finish_direct(files, save);
      if (has_checkpoint({place_.files, save.prefix()})) {
        const auto there = try_summary(place_, save.step);
        if (there && there->meta && there->meta->uuid == save.uuid) return;  // but for the tidying
      }
      if (!save.direct && !place_.atomic_rename) {
        undecided_.add_unfinished(name, save.step,
                                  "its commit is a rename, and there are none here");
        return;
      }
      if (owner_ && !save.direct) {
        owner_->check();  // else it may be one in which a later owner saves
        commit::keep(files, save, *owner_);
        kept_ = true;
      }
      reached = false;
      auto candidate = candidate_of(files, save, read_records(files, save.temp()));
      if (committed_.has_come_after(candidate.meta)) {
        log(LogLevel::info, cat("save ", name, " is behind what was committed after it"));
        return;
      }
      candidates_.push_back(std::move(candidate));
    } catch (const Error& error) {
      if (error.code() == Code::busy) throw;
      const auto entry = save.temp().filename().string();
      const bool later = note_why(undecided_, entry, save.step, cat("save ", name), error);
      // If the temp directory was not renamed, its own job may still complete the save. A direct
      // save has no such fence: its directory is looked at again before the step is saved.
      if (later && reached) undecided_.within_reach.insert(save.step);
    }
  }

  // In the order of their sequences.
  std::vector<Candidate> found() {
    if (kept_) place_.files->sync_directory(place_.directory);
    std::sort(candidates_.begin(), candidates_.end(),
              [](const auto& a, const auto& b) { return a.meta.sequence < b.meta.sequence; });
    return std::move(candidates_);
  }

 private:
  const Location& place_;
  const commit::Ownership* owner_;
  Undecided& undecided_;
  const Committed committed_;
  std::vector<Candidate> candidates_;
  bool kept_ = false;  // a temp directory has come into our own hands
};

}  // namespace

Candidate join_records(commit::Transaction save, const std::vector<bundle::PartRecord>& records) {
  require_all_parts(records, save.uuid);
  Candidate candidate;
  std::vector<StoredTensor> entries;
  auto& data_files = candidate.data_files;
  for (const auto& record : records) {
    for (const auto& tensor : record.tensors) {
      for (const auto& slice : tensor.slices) data_files = std::max(data_files, slice.file + 1);
      entries.push_back(tensor);
    }
    std::ranges::copy(record.uploads, std::back_inserter(candidate.uploads));
    // Only the first part has descriptions.
    if (record.part == 0) candidate.meta = record.meta;
  }
  save.num_files = records.front().num_files;
  // Throws for names that another version may have allowed.
  descriptions::encode_new(candidate.meta.descriptions);
  candidate.tensors = join_entries(entries, candidate.meta.gaps);
  candidate.entries = std::move(entries);
  if (auto why = format_of(save).refuses(data_files, save.num_files); !why.empty()) {
    refuse(std::move(why));
  }
  if (!is_credible(save.num_files, std::ssize(candidate.entries))) {
    refuse(cat(save.num_files, " data files, which is more than any save makes"));
  }
  candidate.save = std::move(save);
  return candidate;
}

std::optional<Error> check_share(const Location& place, const Readers& readers,
                                 const std::vector<std::string>& paths,
                                 const std::vector<StoredTensor>& tensors) {
  constexpr std::int64_t piece = std::int64_t{4} << 20;
  // All ranks count the slices alike, and each io rank reads every n-th of them.
  std::size_t turn = 0;
  std::string bytes;
  std::unique_ptr<io::File> file;
  int open = -1;
  try {
    for (const auto& tensor : tensors) {
      for (const auto& slice : tensor.slices) {
        if (readers.ranks[turn++ % readers.ranks.size()] != readers.group.rank() ||
            slice.stored_bytes == 0)
          continue;
        if (slice.file != std::exchange(open, slice.file)) {
          file = place.files->open_read(paths.at(static_cast<std::size_t>(slice.file)));
        }
        if (tensor.dtype == DType::string) {
          bytes.resize(static_cast<std::size_t>(slice.stored_bytes));
          file->read_at(slice.offset, std::as_writable_bytes(std::span(bytes)));
          bundle::decode_strings(bytes, slice.box.count(), slice.crc32c, false);
          continue;
        }
        std::uint32_t crc = 0;
        for (std::int64_t at = 0; at < slice.stored_bytes; at += piece) {
          bytes.resize(static_cast<std::size_t>(std::min(piece, slice.stored_bytes - at)));
          file->read_at(slice.offset + at, std::as_writable_bytes(std::span(bytes)));
          crc = crc32c(bytes, crc);
        }
        if (crc != slice.crc32c) {
          throw Error(Code::data_loss, cat("bytes of tensor '", tensor.key, "' are damaged"));
        }
      }
    }
  } catch (...) {
    return current_error();
  }
  return std::nullopt;
}

void Undecided::add_unfinished(const std::string& entry, std::optional<std::int64_t> step,
                               const std::string& why) {
  auto& text = unfinished[entry];
  text += cat(text.empty() ? "a save" : "; a save", step ? cat(" of step ", *step) : "",
              " that did not finish: ", why);
}

Soundness examine(const Location& place, const Readers& readers, const Candidate& candidate,
                  std::string& why) {
  std::string message;
  if (readers.root()) message = pack(std::tie(candidate.paths, candidate.entries));
  readers.group.broadcast(message, 0);
  const auto [paths, entries] =
      unpack<std::pair<std::vector<std::string>, std::vector<StoredTensor>>>(message);
  const auto problem = check_share(place, readers, paths, entries);
  try {
    agree(readers.group, problem);
  } catch (const Error& error) {
    // A message that failed, or storage that does not answer, tells nothing of the save.
    if (error.code() == Code::communication || error.code() == Code::unavailable) throw;
    why = error.what();
    return error.code() == Code::data_loss ? Soundness::damaged : Soundness::unreadable;
  }
  return Soundness::whole;
}

std::optional<CheckpointContents> try_summary(const Location& place, std::int64_t step) {
  try {
    return read_summary(*place.files, place.prefix(step));
  } catch (const Error& error) {
    if (error.code() == Code::unavailable) throw;
    tell_unreadable(step, error);
    return std::nullopt;
  }
}

void tell_unreadable(std::int64_t step, const Error& error) {
  if (error.code() == Code::data_loss || error.code() == Code::not_found) return;
  log(LogLevel::warning, cat("step ", step, " cannot be read now: ", error.what()));
}

std::vector<Candidate> find_candidates(const Location& place, const commit::Ownership* owner,
                                       Undecided& undecided) {
  const auto names = place.files->list(place.directory);
  const auto is_temp = [&](const auto& name) {
    return commit::parse_name(name, place.naming).kind == commit::ParsedName::Kind::temp_directory;
  };
  if (std::none_of(names.begin(), names.end(), is_temp)) return {};
  Search search(place, owner, undecided, names);
  for (const auto& name : names) {
    if (!is_temp(name)) continue;
    const auto parsed = commit::parse_name(name, place.naming);
    if (!commit::is_staging(parsed)) {
      search.add_unstaged(parsed, name);
    } else if (place.atomic_rename) {
      search.add_staged(parsed);
    }
  }
  return search.found();
}

}  // namespace cairn
