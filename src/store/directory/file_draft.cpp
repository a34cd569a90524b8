#include "store/directory/file_draft.hpp"

#include <span>

#include "cairn/error.hpp"
#include "store/commit/protocol.hpp"

namespace cairn {
namespace {

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

void FileDraft::make_place() const {
  if (save_.staging.empty()) commit::join(*files_, save_);
}

commit::PartFile FileDraft::make(int number, std::int64_t most_bytes) const {
  auto part = commit::make_part(*files_, save_, number, most_bytes, known_);
  const auto mode = save_.files.direct_io == DirectIo::off ? DirectIo::off : DirectIo::on;
  part.read_back = [files = files_, path = part.path, mode](std::vector<io::Extent> blocks) {
    return files->read_ahead({path}, std::move(blocks), mode);
  };
  return part;
}

// A new one: a recycled one takes its name by a rename, which would take it from a rank that is
// writing already.
std::unique_ptr<io::File> FileDraft::make_or_open(int number) const {
  std::unique_ptr<io::File> file;
  try {
    file = files_->create(path(number));
  } catch (const Error& error) {
    if (error.code() != Code::already_exists) throw;
    file = files_->open_write(path(number));
  }
  file->stream(save_.files.direct_io);
  return file;
}

std::optional<io::Path> FileDraft::shared_path(int number) const {
  const auto& shares = save_.files.shares;
  // Of fewer ranks, or a smaller state.
  if (!shares || number >= shares->num_files) return std::nullopt;
  return save_.directory / commit::data_name(commit::prefix_name(save_.name, shares->step), number,
                                             shares->num_files);
}

void FileDraft::adopt(const io::Path& data, int number) const {
  io::link_or_copy(*files_, data, path(number));
}

int FileDraft::count_with(int data_files) const {
  auto grown = save_;
  grown.num_files = data_files + 1;
  commit::avoid_counts_in_use(*files_, grown);
  return grown.num_files;
}

void FileDraft::record(int writer, int writers, std::string_view bytes) const {
  const auto to = save_.record(writer, writers);
  if (save_.staging.empty()) {
    io::write_file(*files_, to, bytes);
  } else {
    write_over(*files_, to, bytes);
  }
  commit::seal(*files_, save_);
}

void FileDraft::name(const std::set<int>& data_files) const {
  if (!names_data()) return;
  commit::name_data(*files_, save_, data_files);
  if (!written_) return;
  for (auto& [number, file] : *written_) {
    if (!data_files.contains(number)) continue;
    try {
      file.status = files_->status(save_.data(number));
    } catch (const Error&) {  // its hashes are lost, and nothing else
    }
  }
}

void FileDraft::committed() const {
  if (!written_) return;
  std::int64_t compared = 0, equal = 0, looked = 0, alike = 0;
  for (auto& [number, file] : *written_) {
    compared += file.blocks.compared;
    equal += file.blocks.equal;
    looked += file.blocks.looked;
    alike += file.blocks.alike;
    if (!file.status) continue;
    known_->hold({save_.data(number), *file.status, number, save_.sequence},
                 std::move(file.blocks.hashes));
  }
  written_->clear();
  known_->compared(compared, equal);
  if (compared == 0) known_->looked(looked, alike);
}

}  // namespace cairn
