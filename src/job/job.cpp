#include "job/job.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "group/call_group.hpp"
#include "io/limited.hpp"
#include "job/id_sets.hpp"
#include "job/prefix.hpp"

namespace cairn {

io::Path Job::prefix(std::int64_t step) const {
  if (step < 0) {
    throw Error(Code::not_found, cat("there is no step ", step, " in ", directory.string()), "",
                "Steps are numbered from 0.");
  }
  return directory / commit::prefix_name(naming, step);
}

int Job::stripes(int data_files) const {
  if (options.write.stripes != 0) return std::max(options.write.stripes, 0);
  constexpr std::int64_t for_each_writer = 4, most = 64;
  const std::int64_t writers =
      places.served_by.empty() ? group->size() : static_cast<std::int64_t>(io_ranks().size());
  const auto all = std::min(for_each_writer * writers, most);
  return static_cast<int>(std::max<std::int64_t>(all / std::max(data_files, 1), 1));
}

namespace {

// The files that these options ask for.
std::shared_ptr<io::FileSystem> files_of(const ManagerOptions& options) {
  auto files = options.write.file_system ? options.write.file_system : io::posix_file_system();
  if (!(options.write.storage_limit_seconds > 0)) return files;
  return io::limited(std::move(files), options.write.storage_limit_seconds);
}

}  // namespace

Job make_job(std::shared_ptr<Group> group, const io::Path& directory, commit::Naming naming,
             ManagerOptions options) {
  if (!group) throw Error(Code::invalid_argument, "the group of a CheckpointManager is null");
  auto files = files_of(options);
  auto& check = options.store.replicas.check;
  if (check == ReplicaCheck::automatic) check = ReplicaCheck::sample;
  Job job{CallGroup::of(std::move(group)), std::move(files), checked_directory(directory),
          std::move(naming), std::move(options)};
  job.row_plans = std::make_shared<RowPlans>(job.options.store.keep_row_memory);
  return job;
}

}  // namespace cairn
