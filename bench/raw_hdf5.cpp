// What a program that writes one HDF5 file by itself would do: the fast way, and durable.
#include <fcntl.h>
#include <hdf5.h>
#include <unistd.h>

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

void Ranks::write_hdf5(const std::filesystem::path& directory, Bytes bytes) const {
  const auto path = directory / "bare.h5";
  const auto access = good(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate");
  good(H5Pset_fapl_mpio(access, communicator_, MPI_INFO_NULL), "H5Pset_fapl_mpio");
  good(H5Pset_alignment(access, 1 << 20, 1 << 20), "H5Pset_alignment");
  good(H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V110), "H5Pset_libver_bounds");
  good(H5Pset_coll_metadata_write(access, true), "H5Pset_coll_metadata_write");
  const auto file = good(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access), "H5Fcreate");
  const hsize_t row = bytes.size() / sizeof(double);
  const hsize_t shape[] = {static_cast<hsize_t>(size_), row};
  const hsize_t start[] = {static_cast<hsize_t>(rank_), 0}, mine[] = {1, row};
  const auto space = good(H5Screate_simple(2, shape, nullptr), "H5Screate_simple");
  const auto memory = good(H5Screate_simple(2, mine, nullptr), "H5Screate_simple");
  good(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, mine, nullptr),
       "H5Sselect_hyperslab");
  const auto create = good(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  good(H5Pset_fill_time(create, H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
  const auto dataset = good(
      H5Dcreate2(file, "u", H5T_IEEE_F64LE, space, H5P_DEFAULT, create, H5P_DEFAULT), "H5Dcreate2");
  const auto transfer = good(H5Pcreate(H5P_DATASET_XFER), "H5Pcreate");
  good(H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE), "H5Pset_dxpl_mpio");
  good(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, transfer, bytes.data()), "H5Dwrite");
  for (const auto list : {create, transfer, access}) good(H5Pclose(list), "H5Pclose");
  for (const auto one : {space, memory}) good(H5Sclose(one), "H5Sclose");
  good(H5Dclose(dataset), "H5Dclose");
  good(H5Fflush(file, H5F_SCOPE_GLOBAL), "H5Fflush");
  good(H5Fclose(file), "H5Fclose");
  sync(path, O_RDWR);  // closing writes more
  barrier();
  if (rank_ == 0) sync(directory, O_RDONLY | O_DIRECTORY);
}

}  // namespace cairn::bench
