// A save has failed for lack of room. Before it gives up, what retention lets go is removed. After
// a commit retention relies on bytes that this process has just written and synced. Here there is
// no such commit, and if keep.last has become smaller, the checkpoints that it lets go may be the
// only whole ones. So the io ranks first read every byte of a checkpoint that stays. Opening a
// directory removes nothing, so that a job that only reads, or has room, removes nothing.
#include "session/save_stages.hpp"

#include <set>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "session/pending_saves.hpp"
#include "session/restore/restore.hpp"
#include "session/restore_steps.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/directory/candidates.hpp"
#include "store/directory/retention.hpp"

namespace cairn {
bool lacks_room(const Job& job, const Error& error) {
  return error.code() == Code::no_space &&
         cat(error.path(), "/").starts_with(cat(job.directory.string(), "/"));
}

Error with_way_out(const Error& error, const std::string& more) {
  return Error(error.code(), error.problem(), error.reason(),
               cat(error.way_out(), error.way_out().empty() ? "" : " ", more))
      .at(error.path())
      .of_tensor(error.tensor())
      .on_rank(error.rank());
}

// The io ranks read every byte of a checkpoint. Returns what is wrong with it, or nothing.
std::optional<Error> RoomMaker::prove(std::int64_t step) {
  try {
    const auto contents = tell_contents(job, job.prefix(step));
    std::vector<std::string> paths;
    for (int file = 0; file < contents.num_files; ++file) {
      paths.push_back(data_path(contents, file).string());
    }
    auto problem = check_share(job, job.readers(), paths, contents.tensors);
    if (!problem) problem = check_share(job, job.readers(), paths, contents.own);
    agree(*job.group, problem);
  } catch (const Error& error) {
    if (error.code() == Code::communication) throw;
    return error;
  }
  return std::nullopt;
}

// Returns how many checkpoints were removed.
// Tries one checkpoint after the other until one proves whole, or none is left that could be
// proved.
std::size_t RoomMaker::remove_surplus(std::int64_t step) {
  Group& group = *job.group;
  std::vector<std::int64_t> saving{step};
  for (const auto other : pending_saves.steps_but(step)) saving.push_back(other);
  std::set<std::int64_t> tried;
  for (;;) {
    const auto mine = run_and_agree(group, [&] {
      if (!job.root()) return std::int64_t{-1};
      pending_saves.drain();  // a tidying may still be working
      store.history().apply_tidied();
      return store.step_to_prove(saving, tried).value_or(-1);
    });
    const auto proved = broadcast_value(group, mine);
    if (proved < 0) return 0;
    tried.insert(proved);
    if (job.root()) {
      log(LogLevel::info, cat("step ", step, " lacks room: step ", proved,
                              " is read whole before anything older goes"));
    }
    if (const auto problem = prove(proved)) {
      if (is_damage(*problem) && job.root()) store.remember_damage(proved, *problem);
      continue;
    }
    return broadcast_value(group, run_and_agree(group, [&] {
                             return job.root() ? store.remove_surplus(proved, saving)
                                               : std::size_t{0};
                           }));
  }
}

// An error while room is made is logged, and the first error is returned: it is the one that the
// application has to deal with.
std::optional<Error> RoomMaker::make_room(const Error& error, std::int64_t step) {
  if (!job.naming.numbered || !lacks_room(job, error)) return error;
  try {
    const auto gone = remove_surplus(step);
    if (gone > 0 && job.root()) {
      log(LogLevel::warning, cat("step ", step, " lacked room: ", gone,
                                 " checkpoints that retention lets go are removed"));
    }
    if (gone > 0) return std::nullopt;
  } catch (const Error& other) {
    if (other.code() == Code::communication || other.code() == Code::busy) throw;
    if (job.root()) log(LogLevel::warning, cat("while room is made: ", other.what()));
  }
  return with_way_out(error, from_root(*job.group, [&] {
                        return how_to_make_room(job.directory, store.history().catalog(),
                                                job.options.keep);
                      }));
}

Error RoomMaker::make_room_for_next(const Error& error, std::int64_t step) {
  if (error.code() != Code::no_space) return error;
  if (auto still = make_room(error, step)) return *std::move(still);
  return with_way_out(error, "What retention lets go has been removed since: save again.");
}

}  // namespace cairn
