#pragma once
/// The files of hdf5.cpp, by parallel HDF5: all ranks write into one dataset and read it again.
#include <hdf5.h>

#include <filesystem>
#include <string>

#include "plate.hpp"

inline void move_plate(hid_t set, Plate& plate, bool write) {
  const hsize_t start[] = {static_cast<hsize_t>(plate.first), 0};
  const hsize_t extent[] = {static_cast<hsize_t>(plate.rows), width};
  const hid_t file_space = H5Dget_space(set), memory_space = H5Screate_simple(2, extent, nullptr);
  const hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
  H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start, nullptr, extent, nullptr);
  H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
  if (write) H5Dwrite(set, H5T_NATIVE_DOUBLE, memory_space, file_space, transfer, plate.own());
  if (!write) H5Dread(set, H5T_NATIVE_DOUBLE, memory_space, file_space, transfer, plate.own());
  H5Pclose(transfer);
  H5Sclose(memory_space);
  H5Sclose(file_space);
}

inline void checkpoint(int step, Plate& plate) {
  const hsize_t shape[] = {height, width};
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS), space = H5Screate_simple(2, shape, nullptr);
  H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
  const hid_t file = H5Fcreate("plate.new", H5F_ACC_TRUNC, H5P_DEFAULT, access);
  const hid_t set =
      H5Dcreate2(file, "u", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t one = H5Screate(H5S_SCALAR);
  const hid_t note = H5Acreate2(set, "step", H5T_NATIVE_INT, one, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(note, H5T_NATIVE_INT, &step);
  move_plate(set, plate, true);
  H5Aclose(note);
  H5Sclose(one);
  H5Dclose(set);
  H5Fclose(file);
  H5Sclose(space);
  H5Pclose(access);
  if (plate.rank == 0) std::filesystem::rename("plate.new", "plate.h5");
}

// Returns the step, 0 without a checkpoint.
inline int restart(Plate& plate) {
  int step = 0;
  if (!std::filesystem::exists("plate.h5")) return step;
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
  const hid_t file = H5Fopen("plate.h5", H5F_ACC_RDONLY, access);
  const hid_t set = H5Dopen2(file, "u", H5P_DEFAULT);
  const hid_t note = H5Aopen(set, "step", H5P_DEFAULT);
  H5Aread(note, H5T_NATIVE_INT, &step);
  move_plate(set, plate, false);
  H5Aclose(note);
  H5Dclose(set);
  H5Fclose(file);
  H5Pclose(access);
  return step;
}
