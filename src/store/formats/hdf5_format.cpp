// HDF5: one file, in which each tensor is a dataset, with a checksum table and a seal.
#include "store/formats/hdf5_format.hpp"

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

// Another program's HDF5 file is no checkpoint. A file that cannot be read now may be one of
// Cairn's.
bool Hdf5Format::may_be_one(io::FileSystem& files, const io::Path& main_file) const {
  return try_recognise(*this, {files, main_file}).value_or(true);
}

std::optional<Hdf5Format::Claim> Hdf5Format::claim(io::FileSystem& files,
                                                   const io::Path& prefix) const {
  const auto own = try_recognise(*this, {files, main_file(prefix)});
  if (!own.value_or(true)) return std::nullopt;
  // A file that cannot be read now may be a checkpoint. It does not prove that Cairn saved here.
  return Claim{own.has_value(), 0};
}

std::optional<bool> Hdf5Format::gives_way(io::FileSystem& files, const io::Path& prefix) const {
  if (!files.status(main_file(prefix))) return std::nullopt;
  return was_own_hdf5(files, prefix);
}

bool Hdf5Format::began(io::FileSystem& files, const commit::Transaction& save) const {
  return io::exists(files, save.temp() / commit::hdf5_part_name);
}

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
  const auto read = [&](std::int64_t offset, std::span<std::byte> bytes) {
    files.open_read(save.part(0))->read_at(offset, bytes);
  };
  const auto patches = seal_hdf5(read, std::move(joined.tensors), &meta);
  sealed();
  return commit::publish_hdf5(files, save, patches, is_committed);
}

}  // namespace cairn
