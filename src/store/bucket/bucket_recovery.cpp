#include "store/bucket/bucket_recovery.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "store/bucket/bucket_records.hpp"
#include "store/bucket/put_new.hpp"
#include "store/bucket/shared_objects.hpp"
#include "store/contents/seal.hpp"
#include "store/directory/catalog.hpp"

namespace cairn {

// The last put of a former owner may come between the two; of another owner, the lease tells.
// Returns whether there is a log.
bool BucketRecovery::take_log() {
  if (read_only) {
    if (log.read()) return true;
    log.tell_if_damaged();
    return false;
  }
  constexpr int most_tries = 3;
  for (int tries = 1;; ++tries) try {
      if (log.read()) return log.take_numbers({}), true;
      log.tell_if_damaged();
      // Owners put a list before anything else. So what is there was brought from elsewhere, or
      // somebody has removed the list: what is not whole is of a save that has failed, perhaps. If
      // nothing is whole, a restart must not begin anew as if nothing were there.
      BucketLog::Contents brought, damaged;
      for (const auto& one : look_at_steps(place, at.steps_there())) {
        auto& into = !one.damage.empty() && !one.unreadable ? damaged : brought;
        into.uuid[one.step] = one.save.identity.empty() ? "-" : one.save.identity;
        into.given = std::max(into.given, one.save.sequence);
      }
      if (brought.uuid.empty()) brought = std::move(damaged);
      return log.take_numbers(brought), true;
    } catch (const Error& error) {
      check_owner();
      if (error.code() != Code::busy || tries == most_tries) throw;
    }
}

Recovered BucketRecovery::run(const Readers& readers) {
  Recovered found;
  bool has_log = false;
  BucketPlace::Debris debris;
  std::vector<Candidate> written;
  std::set<std::int64_t> undecided;  // steps of which nothing is removed
  run_and_agree(readers.group, [&] {
    if (!readers.root()) return;
    has_log = take_log();
    if (!has_log) return;
    debris = at.debris();
    written = find_written(place, files, log, undecided);
  });
  complete_written(readers, written, undecided, found);
  run_and_agree(readers.group, [&] {
    if (!readers.root() || !has_log) return;
    const bool has_parts =
        std::ranges::any_of(written, [](const auto& one) { return !one.uploads.empty(); });
    if (found.any || has_parts) debris = at.debris();
    remove_debris(std::move(debris), undecided, !written.empty(), found);
  });
  return found;
}

// Rank 0. Bytes that lie in uploads cannot be read, so these are completed first. Nothing: all can
// be examined.
std::optional<Soundness> BucketRecovery::complete_parts(const Candidate& candidate,
                                                        std::string& why) const {
  if (candidate.uploads.empty()) return std::nullopt;
  if (read_only) return Soundness::whole;  // as far as is known
  try {
    if (candidate.is_one_object()) {
      complete_object(candidate);
    } else {
      SharedObjects::complete_left(files, candidate.uploads, candidate.paths);
    }
    return std::nullopt;
  } catch (const Error& error) {
    // A restart must not go on from an older step because a server is silent.
    if (error.code() == Code::unavailable || error.code() == Code::busy) throw;
    why = error.what();
    return error.code() == Code::data_loss ? Soundness::damaged : Soundness::unreadable;
  }
}

// Rank 0. Makes the object of a checkpoint that is one. It does not count yet. The former owner may
// still do the same, so what is there may be this save's; of its parts only the tail may differ.
void BucketRecovery::complete_object(const Candidate& candidate) const {
  if (candidate.paths.size() != 1) throw Error(Code::data_loss, "its records name no object");
  const auto& path = candidate.paths.front();
  const auto key = BucketFiles::key_of(path);
  SharedObjects left(files);
  left.take_left(candidate.uploads, path);
  const auto read = [&](std::int64_t at, auto bytes) { left.read_tail(at, bytes); };
  left.write_tail(seal_hdf5(read, candidate.tensors, &candidate.meta));
  auto client = files.client();
  std::optional<Error> failed;
  constexpr int most_tries = 3;
  for (int tries = 0;; ++tries) {
    check_owner();
    if (const auto there = client->look(key)) {
      if (there->mark == candidate.save.uuid) return;
      log.require_own();
      if (!log.is_dead(there->mark)) throw in_the_way(place, candidate.save.step, Format::hdf5);
      client->remove(key, there->tag);
    }
    if (tries == most_tries) break;
    try {
      left.send_tail();
      if (left.complete_enclosed(bucket::Condition::absent(), candidate.save.uuid)) return;
    } catch (const Error& error) {
      if (error.code() == Code::unavailable) throw;
      failed = error;
    }
  }
  if (failed && failed->code() != Code::data_loss && failed->code() != Code::internal) {
    throw Error(*failed);
  }
  throw Error(Code::data_loss, cat("the upload of ", key, " is gone"), failed ? failed->what() : "")
      .at(key);
}

// Rank 0. The object is there, and whole.
void BucketRecovery::commit_object(const Candidate& candidate) const {
  const auto& [step, uuid] = std::tie(candidate.save.step, candidate.save.uuid);
  const auto there = files.client()->look(BucketFiles::key_of(candidate.paths.front()));
  if (!there || there->mark != uuid) throw in_the_way(place, step, Format::hdf5);
  log.commit(step, uuid);
  at.has_index(step, BucketFiles::number_of(there->tag));
}

// The ranks share the reading.
void BucketRecovery::complete_written(const Readers& readers, const std::vector<Candidate>& written,
                                      std::set<std::int64_t>& undecided, Recovered& found) {
  std::int64_t count = std::ssize(written);
  readers.group.all_reduce({&count, 1}, Group::Op::max);
  for (std::int64_t i = 0; i < count; ++i) {
    static const Candidate none;  // examine() sends the others rank 0's
    const auto& candidate = readers.root() ? written[static_cast<std::size_t>(i)] : none;
    std::string why;
    std::optional<Soundness> early;
    run_and_agree(readers.group, [&] {
      if (readers.root()) early = complete_parts(candidate, why);
    });
    std::int64_t is_early = early.has_value();
    readers.group.all_reduce({&is_early, 1}, Group::Op::max);
    const auto finding =
        is_early != 0 ? early.value_or(Soundness::whole) : examine(place, readers, candidate, why);
    run_and_agree(readers.group, [&] {
      if (!readers.root()) return;
      const auto step = candidate.save.step;
      const auto leave = [&](const std::string& reason) {
        cairn::log(LogLevel::warning, cat("a save of step ", step,
                                          ", which was written but not committed, is not "
                                          "completed: ",
                                          reason));
      };
      if (finding == Soundness::unreadable) undecided.insert(step);
      if (finding != Soundness::whole) return leave(why);
      const RecoveryStep done{candidate.save.prefix().filename().string(), true,
                              cat("step ", step,
                                  candidate.uploads.empty() ? ": all its bytes are there"
                                                            : ": all its bytes were sent")};
      if (read_only) return found.completed.push_back(done);
      try {
        candidate.is_one_object() ? commit_object(candidate) : complete(candidate);
      } catch (const Error& error) {  // somebody has brought an index of this step
        if (error.code() != Code::already_exists) throw;
        undecided.insert(step);
        return leave(error.what());
      }
      found.any = true;
      found.completed.push_back(done);
      cairn::log(LogLevel::info,
                 cat("completed the save of step ", step, ", whose job died before its commit"));
    });
  }
}

// Removes what belongs to no step that counts. Of a step that counts everything stays, since its
// index may be lost or damaged, and a former owner may still put one over it, of a save whose data
// are complete.
void BucketRecovery::remove_debris(BucketPlace::Debris debris,
                                   const std::set<std::int64_t>& undecided, bool has_records,
                                   Recovered& found) const {
  const auto key = BucketFiles::key_of(place.directory) + '/';
  const auto stays = [&](const auto& object) {
    return undecided.contains(at.step_of(object.key).value()) ||
           std::ranges::any_of(found.completed, [&](const auto& one) {
             return object.key.starts_with(cat(key, one.entry, '.'));
           });
  };
  std::erase_if(debris.dead, stays);
  std::erase_if(debris.uploads, stays);
  const auto tell = [&](const std::string& of, const char* why) {
    found.removed.push_back({of.substr(key.size()), false, why, {}, true});
  };
  for (const auto& upload : debris.uploads) tell(upload.key, "an upload that was not completed");
  for (const auto& one : debris.dead) tell(one.key, "its checkpoint does not count");
  const bool changes = !read_only && (!found.removed.empty() || has_records);
  if (!read_only && (changes || !debris.kept.empty())) log.require_own();
  if (!debris.kept.empty()) {
    cairn::log(
        LogLevel::warning,
        cat("objects in ", place.directory.string(), " (", debris.kept.size(), ", such as ",
            debris.kept.front().key.substr(key.size()),
            ") belong to no checkpoint that counts, and no save of Cairn's has left them: they "
            "stay. cairn ls names the checkpoints among them"));
  }
  if (!changes) return;
  for (const auto& upload : debris.uploads) files.client()->abort(upload);
  at.remove(debris.dead);
  if (undecided.empty()) remove_records(place, files);
}

}  // namespace cairn
