// Record, the last step of a rank's writing: leaves what a recovery needs to complete the save
// without this rank.
#include <string>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/version.hpp"
#include "layout/bundle/part_record.hpp"
#include "session/save/save_steps.hpp"

namespace cairn {

namespace {

// The records of one save have the same fingerprint, so that a recovery takes no record of another.
std::uint64_t fingerprint(const std::string& name, const Draft& draft, const CheckpointMeta& meta,
                          const FileLayout& layout) {
  const auto text = cat(name, '\n', draft.step(), '\n', draft.num_files(), '\n', meta.sequence,
                        '\n', meta.policy, '\n', layout.data_files, '\n', layout.writers);
  return std::uint64_t{crc32c(text)} << 32 | crc32c(draft.uuid());
}

}  // namespace

CheckpointMeta meta_of_save(const Job& job, const DraftId& id, const Sharding& sharding) {
  CheckpointMeta meta;
  meta.step = id.step;
  if (job.naming.numbered) meta.name = job.naming.name;
  meta.sequence = id.sequence;
  meta.parent = id.parent;
  meta.wall_time_seconds = id.time;
  meta.version = version();
  meta.application = job.options.store.application;
  meta.ranks = job.group->size();
  meta.policy = sharding.description;
  meta.uuid = commit::uuid_text(id.uuid);
  return meta;
}

void leave_record(const Job& job, const Draft& draft, const CheckpointMeta& meta,
                  const FileLayout& layout, const EntryList& entries) {
  // A rank that wrote nothing leaves none: a recovery counts the writers.
  if (layout.writer < 0) return;
  bundle::PartRecord record;
  record.uuid = draft.uuid();
  record.fingerprint = fingerprint(job.naming.name, draft, meta, layout);
  record.part = layout.writer;
  record.parts = layout.writers;
  record.num_files = draft.num_files();
  record.meta = meta;
  const auto told = draft.files().tell_next_owner();
  record.uploads = unpack_all<bundle::PartUpload>(told);
  const auto each = [&](const auto& take) {
    for (const auto& entry : entries.each()) take(entry);
  };
  draft.record(layout.writer, layout.writers,
               bundle::encode_part_record(record, each, entries.packed_bytes()));
}

}  // namespace cairn
