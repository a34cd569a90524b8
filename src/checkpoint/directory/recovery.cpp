#include "checkpoint/directory/recovery.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/log.hpp"
#include "checkpoint/directory/lost.hpp"
#include "checkpoint/directory/notes.hpp"
#include "checkpoint/messages.hpp"
#include "checkpoint/save/hdf5_file.hpp"
#include "checkpoint/tools/contents_reader.hpp"
#include "checkpoint/tools/hdf5_reader.hpp"
#include "commit/names.hpp"
#include "commit/recycled.hpp"
#include "format/bundle/index.hpp"
#include "format/bundle/part_record.hpp"
#include "format/bundle/strings.hpp"
#include "group/collectives.hpp"

namespace cairn {
namespace {
constexpr std::int64_t record_limit_bytes = std::int64_t{4} << 30;

// A save that died after its parts were written, as its records tell.
struct Candidate {
  commit::Transaction save;
  CheckpointMeta meta;
  std::vector<StoredTensor> entries;  // as the writers left them: what is checked
  std::vector<StoredTensor> tensors;  // of the index
  std::vector<std::string> paths;     // of the data files, where they are now
};

std::uint64_t fingerprint(const commit::Transaction& save, const CheckpointMeta& meta,
                          const FileLayout& layout) {
  const auto text = cat(save.name.name, '\n', save.step, '\n', save.num_files, '\n', meta.sequence,
                        '\n', meta.policy, '\n', layout.data_files, '\n', layout.writers);
  return std::uint64_t{crc32c(text)} << 32 | crc32c(save.uuid);
}

// Throws data_loss with the reason if the records do not make a whole save.
Candidate read_candidate(io::FileSystem& files, commit::Transaction save) {
  Candidate candidate;
  std::vector<bundle::PartRecord> records;
  for (const auto& file : files.list(save.temp())) {
    if (commit::parse_temp_name(file).kind != commit::ParsedName::Kind::record) continue;
    records.push_back(
        bundle::decode_part_record(io::read_file(files, save.temp() / file, record_limit_bytes)));
  }
  const auto refuse = [&](std::string why) { throw Error(Code::data_loss, std::move(why)); };
  if (records.empty()) refuse("no part record");
  const auto& first = records.front();
  if (records.size() != static_cast<std::size_t>(first.parts)) {
    refuse(cat(records.size(), " of ", first.parts, " part records"));
  }
  std::vector<bool> seen(records.size());
  std::vector<StoredTensor> entries;
  int data_files = 0;
  for (const auto& record : records) {
    if (record.uuid != save.uuid || record.fingerprint != first.fingerprint ||
        record.parts != first.parts || record.num_files != first.num_files || record.part < 0 ||
        record.part >= first.parts || seen[static_cast<std::size_t>(record.part)]) {
      refuse("part records of different saves");
    }
    seen[static_cast<std::size_t>(record.part)] = true;
    for (const auto& tensor : record.tensors) {
      for (const auto& slice : tensor.slices) data_files = std::max(data_files, slice.file + 1);
      entries.push_back(tensor);
    }
  }
  save.num_files = first.num_files;
  save.hdf5 = io::exists(files, save.temp() / commit::hdf5_part_name);
  candidate.save = save;
  candidate.meta = first.meta;
  candidate.tensors = join_entries(entries);
  candidate.entries = std::move(entries);
  if (save.hdf5 && data_files > 1) refuse("more data files than one");
  if (!save.hdf5 && data_files >= save.num_files) refuse("more data files than the save has");
  for (int file = 0; file < data_files; ++file) {
    const auto path = io::exists(files, save.part(file)) ? save.part(file) : save.data(file);
    if (!io::exists(files, path)) refuse(cat("data file ", file, " is missing"));
    candidate.paths.push_back(path.string());
  }
  return candidate;
}

// Every io rank reads its share; what is wrong, or nothing.
std::optional<Error> check_share(const Job& job, const std::vector<std::string>& paths,
                                 const std::vector<StoredTensor>& tensors) {
  constexpr std::int64_t piece = std::int64_t{4} << 20;
  std::size_t turn = 0;
  const auto readers = job.io_ranks();
  std::string bytes;
  try {
    for (const auto& tensor : tensors) {
      for (const auto& slice : tensor.slices) {
        if (readers[turn++ % readers.size()] != job.rank() || slice.size == 0) continue;
        const auto file = job.files->open_read(paths.at(static_cast<std::size_t>(slice.file)));
        if (tensor.dtype == DType::string) {
          bytes.resize(static_cast<std::size_t>(slice.size));
          file->read_at(slice.offset, std::as_writable_bytes(std::span(bytes)));
          bundle::decode_strings(bytes, slice.box.count(), slice.crc32c, false);
          continue;
        }
        std::uint32_t crc = 0;
        for (std::int64_t at = 0; at < slice.size; at += piece) {
          bytes.resize(static_cast<std::size_t>(std::min(piece, slice.size - at)));
          file->read_at(slice.offset + at, std::as_writable_bytes(std::span(bytes)));
          crc = crc32c(bytes, crc);
        }
        if (crc != slice.crc32c) {
          throw Error(Code::data_loss, cat("bytes of tensor '", tensor.key, "' are damaged"));
        }
      }
    }
  } catch (...) {
    return error_in_flight();
  }
  return std::nullopt;
}

// Saves that could not be read now: neither completed nor removed.
struct Undecided {
  std::set<std::string> temps;
  std::set<std::int64_t> steps;
};

enum class Soundness { whole, damaged, unreadable };

// Collective. Whether every byte of the candidate, which rank 0 knows, is what was written.
Soundness examine(const Job& job, const Candidate& candidate, std::string& why) {
  std::string message;
  if (job.root()) {
    WireWriter writer;
    writer.put(candidate.paths);
    put(writer, candidate.entries);
    message = writer.take();
  }
  job.group->broadcast(message, 0);
  WireReader reader(message);
  const auto paths = reader.get_all<std::string>();
  const auto problem = check_share(job, paths, get_stored(reader));
  try {
    agree(*job.group, problem);
  } catch (const Error& error) {
    if (error.code() == Code::communication) throw;
    why = error.what();
    return error.code() == Code::data_loss ? Soundness::damaged : Soundness::unreadable;
  }
  return Soundness::whole;
}

// The contents of a committed checkpoint, or nothing where that cannot be told: then its files are
// left alone.
std::optional<CheckpointContents> try_contents(const Job& job, std::int64_t step,
                                               std::optional<Format> format = std::nullopt) {
  try {
    const auto prefix = job.prefix(step);
    return format ? read_contents_as(*format, *job.files, prefix)
                  : read_contents(*job.files, prefix);
  } catch (const Error& error) {
    if (error.code() != Code::data_loss && error.code() != Code::not_found) {
      log(LogLevel::warning, cat("step ", step, " cannot be read now: ", error.what()));
    }
    return std::nullopt;
  }
}

// The format in which a step is there only because a save that replaced it in the other one died
// before it was done. Two formats of one save, or another program's bundle, are not that.
std::optional<Format> find_replaced(const Job& job, std::int64_t step) {
  const auto prefix = job.prefix(step);
  if (!is_own_hdf5(*job.files, hdf5_path(prefix)) ||
      !job.files->status(prefix.string() + ".index")) {
    return std::nullopt;
  }
  const auto bundle = try_contents(job, step, Format::bundle);
  const auto hdf5 = try_contents(job, step, Format::hdf5);
  if (!bundle || !hdf5 || !bundle->meta || !hdf5->meta) return std::nullopt;
  if (bundle->meta->sequence == hdf5->meta->sequence) return std::nullopt;
  return bundle->meta->sequence < hdf5->meta->sequence ? Format::bundle : Format::hdf5;
}

// How many data files an index is of; -1 if it does not say.
int try_count_files(const std::string& index) {
  try {
    return bundle::parse_index(index).num_files;
  } catch (const Error&) {
    return -1;
  }
}

std::vector<Candidate> find_candidates(const Job& job, Undecided& undecided) {
  std::vector<Candidate> candidates;
  auto& files = *job.files;
  const auto names = files.list(job.directory);
  // A save that something was committed after has been given up, or was committed and is replaced.
  std::int64_t committed = 0;
  for (const auto& name : names) {
    const auto parsed = commit::parse_name(name, job.naming);
    if (parsed.kind != commit::ParsedName::Kind::index &&
        parsed.kind != commit::ParsedName::Kind::hdf5) {
      continue;
    }
    const auto there = try_contents(job, parsed.step);
    if (there && there->meta) committed = std::max(committed, there->meta->sequence);
  }
  for (const auto& name : names) {
    const auto parsed = commit::parse_name(name, job.naming);
    if (parsed.kind != commit::ParsedName::Kind::temp_directory) continue;
    const commit::Transaction save{job.directory, job.naming, parsed.step,
                                   parsed.uuid,   0,          parsed.direct};
    try {
      if (save.direct) commit::settle(files, save);
      const auto there = try_contents(job, save.step);
      if (there && there->meta && there->meta->uuid == save.uuid) continue;  // but for the tidying
      if (!save.direct && !job.atomic_rename) {
        log(LogLevel::info, cat("save ", name, " did not finish, which takes renames"));
        continue;
      }
      auto candidate = read_candidate(files, save);
      if (candidate.meta.sequence <= committed) {
        log(LogLevel::info, cat("save ", name, " is behind what was committed after it"));
        continue;
      }
      candidates.push_back(std::move(candidate));
    } catch (const Error& error) {
      log(LogLevel::info, cat("save ", name, " did not finish: ", error.what()));
      if (error.code() == Code::data_loss || error.code() == Code::internal) continue;
      undecided.temps.insert(name);
      undecided.steps.insert(parsed.step);
    }
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const auto& a, const auto& b) { return a.meta.sequence < b.meta.sequence; });
  return candidates;
}

void roll_forward(const Job& job, const Candidate& candidate) {
  if (candidate.save.hdf5) {
    const auto patches = seal_hdf5(*job.files, candidate.save, candidate.tensors);
    commit::publish_hdf5(*job.files, candidate.save, patches);
  } else {
    const auto data_files = static_cast<int>(candidate.paths.size());
    const auto sealed =
        seal_index(candidate.tensors, candidate.meta, data_files, candidate.save.num_files);
    commit::publish(*job.files, candidate.save, sealed.index, sealed.own_files);
  }
  log(LogLevel::info, cat("completed the save of step ", candidate.save.step,
                          ", whose job died before its commit"));
}

// A direct save that was replacing an index when it died, and cannot be completed.
struct Reversal {
  commit::Transaction save;
  commit::OldIndex old;
};

// What was there before, of the steps that have no whole index now.
std::vector<Reversal> find_reversals(const Job& job, const std::vector<Candidate>& completed,
                                     Undecided& undecided,
                                     std::optional<std::int64_t> only_step = std::nullopt) {
  std::vector<Reversal> reversals;
  auto& files = *job.files;
  for (const auto& name : files.list(job.directory)) {
    const auto parsed = commit::parse_name(name, job.naming);
    if (parsed.kind != commit::ParsedName::Kind::temp_directory || !parsed.direct) continue;
    const bool becomes = std::any_of(completed.begin(), completed.end(), [&](const auto& other) {
      return other.save.step == parsed.step;
    });
    if (becomes || undecided.steps.count(parsed.step)) continue;
    if (only_step && parsed.step != *only_step) continue;
    const commit::Transaction save{job.directory, job.naming, parsed.step, parsed.uuid, 0, true};
    try {
      const auto old = commit::read_old_index(files, save);
      if (!old) continue;
      if (io::exists(files, save.index())) try {
          bundle::parse_index(
              io::read_file(files, save.index(), std::numeric_limits<std::int64_t>::max()));
          continue;
        } catch (const Error& error) {
          if (error.code() != Code::data_loss) throw;
        }
      reversals.push_back({save, *old});
    } catch (const Error& error) {
      log(LogLevel::warning, cat("save ", name, " cannot be looked at now: ", error.what()));
      undecided.temps.insert(name);
      undecided.steps.insert(parsed.step);
    }
  }
  return reversals;
}

// Whatever of ours no checkpoint refers to, when these saves have been completed.
std::vector<RecoveryStep> find_debris(const Job& job, const std::vector<Candidate>& completed,
                                      const std::vector<Reversal>& reversals,
                                      const Undecided& undecided) {
  using Kind = commit::ParsedName::Kind;
  auto& files = *job.files;
  std::map<std::int64_t, int> files_of_step;  // -1: an index that cannot be read; leave its data
  std::set<std::string> replaced;
  const auto names = files.list(job.directory);
  // Another program may be saving under this name, data first: orphans are ours only where we have
  // saved.
  bool ours = !completed.empty();
  for (const auto& name : names) {
    const auto parsed = commit::parse_name(name, job.naming);
    ours |= parsed.kind == Kind::temp_directory;
    if (parsed.kind == Kind::hdf5 && is_own_hdf5(files, job.directory / name)) {
      ours = true;
      files_of_step.emplace(parsed.step, 0);
      if (find_replaced(job, parsed.step) == Format::hdf5) replaced.insert(name);
    }
    if (parsed.kind != Kind::index) continue;
    const auto contents = try_contents(job, parsed.step, Format::bundle);
    files_of_step[parsed.step] = contents ? contents->num_files : -1;
    ours |= contents && contents->meta;
    if (find_replaced(job, parsed.step) != Format::bundle) continue;
    replaced.insert(name);
    files_of_step[parsed.step] = 0;
  }
  for (const auto& candidate : completed) {
    files_of_step[candidate.save.step] = candidate.save.hdf5 ? 0 : candidate.save.num_files;
  }
  for (const auto& [save, old] : reversals) {
    files_of_step.erase(save.step);
    if (old.bytes) files_of_step[save.step] = try_count_files(*old.bytes);
  }
  // Data of a checkpoint that has lost its index is all that is left of it.
  for (const auto& [step, lost] : find_lost_steps(files, job.directory, job.naming)) {
    files_of_step.emplace(step, lost.num_files);
  }
  for (const auto step : undecided.steps) files_of_step[step] = -1;
  std::vector<RecoveryStep> debris;
  for (const auto& name : names) {
    const auto parsed = commit::parse_name(name, job.naming);
    if (undecided.temps.count(name)) continue;
    if (parsed.kind == Kind::temp_directory) {
      debris.push_back({name, false, "a save that did not finish"});
    } else if (replaced.count(name)) {
      debris.push_back({name, false, "an older save of a step that is there in another format"});
    } else if (parsed.kind == Kind::state_temporary) {
      debris.push_back({name, false, "a state file that was not finished"});
    } else if (parsed.kind == Kind::data && ours) {
      const auto at = files_of_step.find(parsed.step);
      if (at != files_of_step.end() && (at->second == -1 || at->second == parsed.count)) continue;
      debris.push_back({name, false, "data that no index refers to"});
    }
  }
  for (const auto& mark : list_marks(files, job.directory, job.naming)) {
    const bool goes = mark.worthless || !files_of_step.count(mark.step);
    if (goes) debris.push_back({mark.entry, false, mark.why});
  }
  for (const auto& file : commit::list_recycled(files, job.directory, job.naming))
    debris.push_back({file.string(), false, "kept for a next save to overwrite"});
  // An index goes before its data. Temp directories last: they are the evidence that the rest is
  // ours.
  std::stable_partition(debris.begin(), debris.end(),
                        [&](const auto& step) { return replaced.count(step.entry) > 0; });
  std::stable_partition(debris.begin(), debris.end(), [&](const auto& step) {
    return commit::parse_name(step.entry, job.naming).kind != Kind::temp_directory;
  });
  return debris;
}

// What cannot be removed stays: a job must not fail for that.
void collect_debris(const Job& job, const Undecided& undecided) {
  auto& files = *job.files;
  const auto debris = find_debris(job, {}, {}, undecided);
  bool synced = false, replaced = false;
  for (const auto& step : debris) try {
      const auto path = job.directory / step.entry;
      const auto parsed = commit::parse_name(step.entry, job.naming);
      const bool is_replaced = parsed.kind == commit::ParsedName::Kind::index ||
                               parsed.kind == commit::ParsedName::Kind::hdf5;
      if (replaced && !is_replaced) files.sync_directory(job.directory);
      replaced = is_replaced;
      if (parsed.kind == commit::ParsedName::Kind::temp_directory) {
        // The evidence goes when the data is gone for good.
        if (!synced) files.sync_directory(job.directory);
        synced = true;
        commit::remove_temp(files, path);
      } else {
        files.remove(path);
      }
    } catch (const Error& error) {
      log(LogLevel::warning, cat("debris stays: ", error.what()));
    }
  if (!debris.empty()) files.sync_directory(job.directory);
}

}  // namespace

void leave_record(const Job& job, const commit::Transaction& save, const CheckpointMeta& meta,
                  const FileLayout& layout, const std::vector<StoredTensor>& entries) {
  if (layout.writer < 0) return;
  bundle::PartRecord record;
  record.uuid = save.uuid;
  record.fingerprint = fingerprint(save, meta, layout);
  record.part = layout.writer;
  record.parts = layout.writers;
  record.num_files = save.num_files;
  record.meta = meta;
  io::write_file(*job.files, save.record(layout.writer, layout.writers),
                 bundle::encode_part_record(record, entries));
  commit::seal(*job.files, save);
}

bool recover(const Job& job) {
  Group& group = *job.group;
  std::vector<Candidate> candidates;
  Undecided undecided;
  std::int64_t count = 0;
  together(group, [&] {
    if (!job.root()) return;
    // What the last process saw renamed may not be durable yet; nothing is built on it before.
    job.files->sync_directory(job.directory);
    candidates = find_candidates(job, undecided);
    count = static_cast<std::int64_t>(candidates.size());
  });
  group.all_reduce({&count, 1}, Group::Op::max);
  bool any = false;
  for (std::int64_t i = 0; i < count; ++i) {
    static const Candidate none;
    const auto& candidate = job.root() ? candidates[static_cast<std::size_t>(i)] : none;
    std::string why;
    const auto finding = examine(job, candidate, why);
    together(group, [&] {
      if (!job.root()) return;
      if (finding == Soundness::whole) {
        roll_forward(job, candidate);
        any = true;
        return;
      }
      log(LogLevel::info, cat("save of step ", candidate.save.step, " did not finish: ", why));
      if (finding == Soundness::unreadable) {
        undecided.temps.insert(candidate.save.temp().filename().string());
        undecided.steps.insert(candidate.save.step);
      }
    });
  }
  together(group, [&] {
    if (!job.root()) return;
    for (const auto& [save, old] : find_reversals(job, {}, undecided)) try {
        commit::put_back(*job.files, save);
        any |= old.bytes.has_value();
      } catch (const Error& error) {
        log(LogLevel::warning, cat("step ", save.step, " cannot be put back: ", error.what()));
        undecided.temps.insert(save.temp().filename().string());
        undecided.steps.insert(save.step);
      }
    collect_debris(job, undecided);
  });
  return any;
}

void put_back_undecided(const Job& job, std::int64_t step) {
  Undecided undecided;
  for (const auto& [save, old] : find_reversals(job, {}, undecided, step)) {
    commit::put_back(*job.files, save);
  }
  if (undecided.steps.empty()) return;
  throw Error(Code::io, cat("step ", step, " cannot be saved now"),
              "what an earlier save of it left behind cannot be read, and may be all that is left "
              "of the step",
              "Save another step, or try again.")
      .at(job.prefix(step).string());
}

std::vector<RecoveryStep> plan_recovery(const Job& job) {
  std::vector<RecoveryStep> steps;
  std::vector<Candidate> completed;
  Undecided undecided;
  for (auto& candidate : find_candidates(job, undecided)) {
    std::string why;
    if (examine(job, candidate, why) != Soundness::whole) continue;
    steps.push_back({candidate.save.temp().filename().string(), true,
                     cat("step ", candidate.save.step, ": all its bytes were durable")});
    completed.push_back(std::move(candidate));
  }
  const auto reversals = find_reversals(job, completed, undecided);
  for (const auto& [save, old] : reversals) {
    const auto index = save.index().filename().string();
    steps.push_back({index, old.bytes.has_value(),
                     old.bytes ? "it comes back: the save that was replacing it did not finish"
                               : "of a save that did not finish"});
  }
  for (auto& step : find_debris(job, completed, reversals, undecided)) {
    const bool becomes = std::any_of(steps.begin(), steps.end(), [&](const auto& done) {
      return done.completes && done.entry == step.entry;
    });
    if (!becomes) steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace cairn
