#pragma once
/// A save into one HDF5 file. Rank 0 lays it out and writes everything except the elements of
/// numeric tensors. Those are dense tensors (dense.hpp) at the places that HDF5 chose. At the end
/// rank 0 writes the checksum table and seals the file.
#include <string>
#include <vector>

#include "layout/hdf5/holders.hpp"
#include "model/refreshed_state.hpp"
#include "session/save/save_steps.hpp"

namespace cairn {

/// A tensor that rank 0 stores itself: strings, or a tensor without elements.
struct SmallTensor {
  std::string key;
  DType dtype{};
  Dims shape;
  bundle::EncodedStrings strings;
};

/// What all ranks tell rank 0; empty on the others.
struct Gathered {
  std::vector<SmallTensor> small;
  /// For each slice, the device task whose memory held it. If there are replicas, it is the one
  /// that was chosen to write. It is not the rank that wrote the bytes to the file.
  hdf5::Holders holders;
};

/// Collective. `mine`: also receives this rank's own strings.
Gathered gather_for_hdf5(const Job&, const RefreshedState&, const std::vector<Task>&,
                         const std::vector<DenseTensor>&, StringStore& mine);

/// Collective. There is one data file. Rank 0 and the writers of runs leave records.
FileLayout lay_out_hdf5(const Job&, const std::vector<SmallTensor>&, const DensePlan&);

/// Collective. Rank 0 makes the file, durable, or what encloses the plan's parts of it, and the
/// plan's tensors get their places in it.
/// Returns, on rank 0, the entries of everything that was written. `structure` receives what HDF5
/// wrote as the structure of the file, and the seal of the unfinished save. Throws invalid_argument
/// for keys and shapes that HDF5 does not support.
std::vector<StoredTensor> make_hdf5(const Job&, Draft&, const CheckpointMeta&, const Gathered&,
                                    DensePlan&, std::vector<commit::Patch>& structure);

}  // namespace cairn
