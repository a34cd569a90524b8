// The last step of a rank's writing: what a recovery needs to complete the save without it.
#include <memory>
#include <span>
#include <string_view>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/version.hpp"
#include "layout/bundle/part_record.hpp"
#include "session/save/save_steps.hpp"

namespace cairn {

namespace {

std::uint64_t fingerprint(const commit::Transaction& save, const CheckpointMeta& meta,
                          const FileLayout& layout) {
  const auto text = cat(save.name.name, '\n', save.step, '\n', save.num_files, '\n', meta.sequence,
                        '\n', meta.policy, '\n', layout.data_files, '\n', layout.writers);
  return std::uint64_t{crc32c(text)} << 32 | crc32c(save.uuid);
}

// Over that of an earlier save, where there is one: then no name has to become durable. Torn, it is
// no record.
void write_over(io::FileSystem& files, const io::Path& path, std::string_view bytes) {
  std::unique_ptr<io::File> file;
  try {
    file = files.open_write(path);
  } catch (const Error& error) {
    if (error.code() != Code::not_found) throw;
    io::write_file(files, path, bytes);
    return;
  }
  file->write_at(0, std::as_bytes(std::span(bytes)));
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (file->size() > size) file->resize(size);
  file->sync();
  file->close();
}

}  // namespace

CheckpointMeta meta_of_save(const Job& job, std::int64_t step, std::int64_t sequence,
                            std::int64_t parent, double time, const std::string& uuid) {
  CheckpointMeta meta;
  meta.step = step;
  if (job.naming.numbered) meta.name = job.naming.name;
  meta.sequence = sequence;
  meta.parent = parent;
  meta.wall_time_seconds = time;
  meta.version = version();
  meta.ranks = job.group->size();
  meta.policy = job.policy;
  meta.uuid = uuid;
  return meta;
}

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
  const auto path = save.record(layout.writer, layout.writers);
  const auto bytes = bundle::encode_part_record(record, entries);
  if (save.staging.empty()) {
    io::write_file(*job.files, path, bytes);
  } else {
    write_over(*job.files, path, bytes);
  }
  commit::seal(*job.files, save);
}

}  // namespace cairn
