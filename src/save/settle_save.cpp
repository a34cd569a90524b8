#include "save/settle_save.hpp"

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "save/formats/save_format.hpp"
#include "save/writers/writer.hpp"

namespace cairn {
namespace {

// Files are the writer's to choose: what a policy is promised of their sizes does not hold then.
void warn_of_policy(const Job& job) {
  const auto* policy = job.options.store.policy.get();
  if (!policy || dynamic_cast<const ShardByTaskPolicy*>(policy)) return;
  auto why = save_format_of(job).limits_policy();
  if (why.empty()) why = writer_of(job).limits_policy();
  if (why.empty()) return;
  log(LogLevel::warning, cat("the sharding policy '", policy->description(), "' ", why));
}

}  // namespace

void settle_save(Job& job) {
  Group& group = *job.group;
  job.file_of.clear();
  job.overwrites = false;
  const auto& options = job.options;
  const auto& writer = writer_of(job);
  require_same(group, "the writer", writer.description(options));
  if (options.read_only) return;
  const auto& format = save_format_of(job);
  together(group, [&] { format.require(options); });
  if (job.root()) warn_of_policy(job);
  writer.settle(job);
  job.overwrites = options.write.recycle && format.overwrites() && writer.overwrites();
}

}  // namespace cairn
