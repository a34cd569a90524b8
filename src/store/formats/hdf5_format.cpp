// HDF5: one file, in which each tensor is a dataset, with a checksum table and a seal.
#include "store/formats/hdf5_format.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "store/contents/hdf5_reader.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/seal.hpp"

namespace cairn {

io::Path Hdf5Format::main_file(const io::Path& prefix) const { return commit::hdf5_path(prefix); }

io::Path Hdf5Format::data_file(const io::Path& prefix, int, int) const { return main_file(prefix); }

bool Hdf5Format::recognises(io::FileSystem& files, const io::Path& main_file) const {
  return is_own_hdf5(files, main_file);
}

IndexFile Hdf5Format::read_index(io::FileSystem& files, const io::Path& prefix) const {
  return read_hdf5_table(files, main_file(prefix));
}

void Hdf5Format::check(const CheckpointContents& contents) const {
  if (contents.num_files == 1) return;
  throw Error(Code::data_loss, "the checksum table of the HDF5 file is none that Cairn makes",
              cat("it speaks of ", contents.num_files, " data files"));
}

std::optional<io::Path> Hdf5Format::foreign(io::FileSystem& files, const io::Path& prefix) const {
  const auto path = main_file(prefix);
  if (!files.status(path) || was_own_hdf5(files, prefix)) return std::nullopt;
  return path;
}

bool Hdf5Format::began(io::FileSystem& files, const commit::Transaction& save) const {
  return io::exists(files, save.temp() / commit::hdf5_part_name);
}

std::int64_t Hdf5Format::seal_bytes() const { return hdf5::seal_bytes; }

std::string Hdf5Format::refuses(int data_files, int) const {
  return data_files > 1 ? "more data files than one" : "";
}

void Hdf5Format::shape(commit::Transaction& save, int) const {
  save.main = main_kind();
  save.num_files = 1;
}

std::optional<io::FileId> Hdf5Format::publish(io::FileSystem& files,
                                              const commit::Transaction& save,
                                              const CheckpointMeta& meta, int, JoinedEntries joined,
                                              const std::function<void()>& sealed,
                                              const commit::IsCommitted& is_committed) const {
  const auto patches = seal_hdf5(files, save, std::move(joined.tensors), &meta);
  sealed();
  return commit::publish_hdf5(files, save, patches, is_committed);
}

// The other job may still hold the file open.
void Hdf5Format::take_over(io::FileSystem& files, const commit::Transaction& save,
                           bool alone) const {
  if (!alone) commit::copy_hdf5_part(files, save);
}

}  // namespace cairn
