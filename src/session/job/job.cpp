// Makes jobs and their policies.
#include "session/job/job.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "exchange/id_sets.hpp"
#include "group/call_group.hpp"
#include "io/limited.hpp"
#include "io/local_path.hpp"
#include "session/job/prefix.hpp"
#include "session/save/encode_choice.hpp"
#include "store/store.hpp"

namespace cairn {

Job viewed(Job job) {
  job.files = io::view_of(std::move(job.files));
  return job;
}

Policy policy_of(const Job& job) {
  const auto& options = job.options;
  return {.format = options.store.format,
          .keep = options.keep,
          .read_only = options.read_only,
          .recycle = job.may_recycle,
          .keeps_state_file = job.keeps_state_file,
          .has_savers = !options.hooks.savers.empty(),
          .atomic_rename = options.write.atomic_rename,
          .direct_io = options.write.direct_io,
          .skip_unchanged = options.write.skip_unchanged,
          .read_every = options.frozen.read_every,
          .most_names = options.frozen.most_names,
          .owner_wait_seconds = options.write.owner_wait_seconds,
          .sole_writer = options.write.sole_writer,
          .stripes = options.write.stripes,
          .writers = job.places.served_by.empty() ? job.group->size()
                                                  : static_cast<int>(job.io_ranks().size()),
          .metrics = options.metrics,
          .part_records = options.write.part_records,
          .xdmf = options.store.xdmf,
          .options_name = job.options_name};
}

Job make_job(std::shared_ptr<Group> group, const io::Path& directory, commit::Naming naming,
             ManagerOptions options) {
  if (!group) throw Error(Code::invalid_argument, "the group of a CheckpointManager is null");
  auto files = files_for(options.write.file_system, directory);
  // Such files bring a store of their own.
  if (io::is_address(directory)) options.write.file_system = files;
  const auto limit = options.write.storage_limit_seconds;
  // From here on every file operation of this job has the limit.
  if (limit > 0) files = io::limited(std::move(files), limit);
  // From here on the check is never `automatic`.
  auto& check = options.store.replicas.check;
  if (check == ReplicaCheck::automatic) check = ReplicaCheck::sample;
  Job job{{std::move(files), checked_directory(directory), std::move(naming)},
          CallGroup::of(std::move(group)),
          std::move(options)};
  job.part_bytes = part_bytes(job.options.write.file_system.get());
  job.sharding.policy = job.options.store.policy;
  job.row_plans = std::make_shared<RowPlans>(job.options.store.keep_row_memory);
  job.encode_choice = std::make_shared<EncodeChoice>();
  return job;
}

}  // namespace cairn
