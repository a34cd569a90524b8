// The last step of a rank's writing: what a recovery needs to complete the save without it.
#include "base/checksum.hpp"
#include "base/text.hpp"
#include "format/bundle/part_record.hpp"
#include "save/save_steps.hpp"

namespace cairn {
namespace {

std::uint64_t fingerprint(const commit::Transaction& save, const CheckpointMeta& meta,
                          const FileLayout& layout) {
  const auto text = cat(save.name.name, '\n', save.step, '\n', save.num_files, '\n', meta.sequence,
                        '\n', meta.policy, '\n', layout.data_files, '\n', layout.writers);
  return std::uint64_t{crc32c(text)} << 32 | crc32c(save.uuid);
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

}  // namespace cairn
