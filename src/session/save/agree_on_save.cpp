// Whether format and writer can serve the options.
#include "session/save/agree_on_save.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "layout/codec.hpp"
#include "session/save/formats/save_format.hpp"
#include "session/save/frozen.hpp"
#include "session/save/writers/writer.hpp"
#include "store/contents/format.hpp"

namespace cairn {
namespace {

// Returns why rules by key cannot remove tensors from the checkpoints of this job; "": they can.
std::string why_not_by_key(const Job& job) {
  const auto& options = job.options;
  if (!format_of(options.store.format).has_data_files()) return "an HDF5 file is one file";
  if (!options.tier.directory.empty()) return "saves go to the nodes";
  if (!job.atomic_rename || !options.write.atomic_rename) return "saves rely on no rename";
  if (!job.naming.numbered) return "the directory has one checkpoint";
  return "";
}

void require_options(Job& job) {
  const auto& writer = writer_of(job);
  const auto& write = job.options.write;
  if (write.storage_limit_seconds > 0 && writer.writes_together()) {
    throw Error(Code::unsupported, "a limit on how long storage is waited for takes Writer::posix",
                cat(writer.name(), " waits for the storage by itself"),
                "Leave storage_limit_seconds at 0, or write with Writer::posix.");
  }
  if (job.options.read_only) return;
  if (job.part_bytes > 0 && writer.writes_together()) {
    throw Error(Code::unsupported, cat(writer.name(), " cannot write in ", job.directory.string()),
                "it is in a bucket, of which MPI libraries know nothing",
                "Use Writer::posix: there each rank sends parts of the same objects.")
        .at(job.directory.string());
  }
  const auto& rules = job.options.keep.keys;
  if (const auto why = why_not_by_key(job); !rules.empty() && !why.empty()) {
    throw Error(
        Code::unsupported, "Retention::keys cannot be served here", why,
        "Save bundles into a directory, without a tier and with renames, or leave the rules "
        "out.");
  }
  save_format_of(job).validate(job);
  if (const auto* encoding = encoding_of(job.options.store.format)) {
    const bool dealt = !format_of(job.options.store.format).has_data_files();
    if (dealt || writer.writes_together()) {
      throw Error(Code::unsupported,
                  cat(codec_text(encoding->codec), " takes files of one writer each"),
                  "where ranks write one file together, each must know before where its bytes lie",
                  "Save bundles, with Writer::posix.");
    }
  }
  const auto choice = write.io_ranks.choice;
  const bool asked = choice != IoRanks::Choice::everyone && choice != IoRanks::Choice::automatic;
  if (!asked || !writer.writes_together()) return;
  throw Error(Code::invalid_argument, cat(writer.name(), " does not go with io ranks"),
              "the MPI library chooses by itself which ranks touch a file",
              "Say how many of them with hints of the library, or use Writer::posix.");
}

}  // namespace

// The format or the writer decides which files there are, so a promise of the policy about file
// sizes does not hold.
void warn_of_policy(const Job& job, const Sharding& sharding) {
  const auto* policy = sharding.policy.get();
  if (!policy || dynamic_cast<const ShardByTaskPolicy*>(policy)) return;
  const auto why = save_format_of(job).limits_policy(job);
  if (why.empty()) return;
  log(LogLevel::warning, cat("the sharding policy '", sharding.description, "' ", why));
}

void agree_on_save(Job& job) {
  Group& group = *job.group;
  job.places.file_of.clear();
  job.may_recycle = false;
  const auto& options = job.options;
  const auto& writer = writer_of(job);
  require_same(group, "the writer", writer.description(options));
  run_and_agree(group, [&] { require_options(job); });
  // The MPI library chooses which ranks touch a file.
  if (writer.writes_together()) job.places.served_by.clear();  // io ranks chosen automatically
  if (options.read_only) return;
  if (job.root()) warn_of_policy(job, job.sharding);
  if (job.root() && wants_frozen(job) && !freezes(job)) {
    log(LogLevel::warning, cat("frozen tensors are written in full: ", why_not_frozen(job)));
  }
  if (job.root() && options.restore.finite && !options.tier.directory.empty()) {
    log(LogLevel::warning, "restore.finite does not look at saves on the nodes");
  }
  for (const auto& rule : options.keep.keys) {
    if (!job.root() || rule.last != 1) continue;
    log(LogLevel::warning, cat("the rule '", rule.keys,
                               "' keeps 2 and not 1: where the newest "
                               "checkpoint is damaged, another one has to be whole"));
  }
  writer.validate(job);
}

}  // namespace cairn
