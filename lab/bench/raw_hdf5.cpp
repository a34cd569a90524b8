// What a program would do that writes one HDF5 file by itself: fast, and durably.
#include <fcntl.h>
#include <hdf5.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "raw_io.hpp"

namespace cairn::bench {
namespace {

template <class T>
T good(T result, const char* call) {
  if (result < 0) throw std::runtime_error(call);
  return result;
}

void sync(const std::filesystem::path& path, int flags) {
  const int descriptor = good(::open(path.c_str(), flags), "open");
  good(::fsync(descriptor), "fsync");
  good(::close(descriptor), "close");
}

}  // namespace

void Ranks::write_hdf5(const std::filesystem::path& directory,
                       const std::vector<BareDataset>& datasets, Files files) const {
  const auto path = directory / "bare.h5";
  const bool fresh = files == Files::fresh;
  const auto access = good(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate");
  good(H5Pset_fapl_mpio(access, communicator_, MPI_INFO_NULL), "H5Pset_fapl_mpio");
  good(H5Pset_alignment(access, 1 << 20, 1 << 20), "H5Pset_alignment");
  good(H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V110), "H5Pset_libver_bounds");
  good(H5Pset_coll_metadata_write(access, true), "H5Pset_coll_metadata_write");
  const auto file =
      fresh ? good(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access), "H5Fcreate")
            : good(H5Fopen(path.c_str(), H5F_ACC_RDWR, access), "H5Fopen");
  const auto create = good(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  good(H5Pset_fill_time(create, H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
  const auto transfer = good(H5Pcreate(H5P_DATASET_XFER), "H5Pcreate");
  good(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE), "H5Pset_dxpl_mpio");
  for (const auto& one : datasets) {
    const auto size = [](std::int64_t n) { return static_cast<hsize_t>(n); };
    const hsize_t shape[] = {size(one.all_rows), size(one.columns)};
    const hsize_t start[] = {size(one.start), 0}, mine[] = {size(one.rows), size(one.columns)};
    const auto space = good(H5Screate_simple(2, shape, nullptr), "H5Screate_simple");
    const auto memory = good(H5Screate_simple(2, mine, nullptr), "H5Screate_simple");
    if (one.rows == 0) {
      good(H5Sselect_none(space), "H5Sselect_none");
      good(H5Sselect_none(memory), "H5Sselect_none");
    } else {
      good(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, mine, nullptr),
           "H5Sselect_hyperslab");
    }
    const auto dataset = fresh ? good(H5Dcreate2(file, one.name.c_str(), H5T_IEEE_F64LE, space,
                                                 H5P_DEFAULT, create, H5P_DEFAULT),
                                      "H5Dcreate2")
                               : good(H5Dopen2(file, one.name.c_str(), H5P_DEFAULT), "H5Dopen2");
    good(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, transfer, one.data), "H5Dwrite");
    for (const auto each : {space, memory}) good(H5Sclose(each), "H5Sclose");
    good(H5Dclose(dataset), "H5Dclose");
  }
  for (const auto list : {create, transfer, access}) good(H5Pclose(list), "H5Pclose");
  good(H5Fflush(file, H5F_SCOPE_GLOBAL), "H5Fflush");
  good(H5Fclose(file), "H5Fclose");
  sync(path, O_RDWR);  // closing writes more
  barrier();
  if (rank_ == 0 && fresh) sync(directory, O_RDONLY | O_DIRECTORY);
}

}  // namespace cairn::bench
