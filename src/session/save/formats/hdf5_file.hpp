#pragma once
/// A save that makes one HDF5 file: rank 0 lays it out and writes all but the elements of numeric
/// tensors, which are dense ones (dense.hpp) at the places that HDF5 gave them; at the end it
/// writes the checksum table and seals the file.
#include <string>
#include <vector>

#include "layout/hdf5/holders.hpp"
#include "model/refreshed_state.hpp"
#include "session/save/save_steps.hpp"

namespace cairn {

/// What rank 0 stores itself: strings, and tensors without elements.
struct SmallTensor {
  std::string key;
  DType dtype{};
  Dims shape;
  bundle::EncodedStrings strings;
};

/// What rank 0 is told by all ranks; nothing on the others.
struct Gathered {
  std::vector<SmallTensor> small;
  /// Whose memory a slice came from: of replicas, that of the one which was chosen to write; not
  /// who wrote the bytes for it.
  hdf5::Holders holders;
};

/// Collective. Each rank's own strings go to `mine` too.
Gathered gather_for_hdf5(const Job&, const RefreshedState&, const std::vector<Task>&,
                         const std::vector<DenseTensor>&, StringStore& mine);

/// Collective. One data file; rank 0 and the writers of runs leave records.
FileLayout lay_out_hdf5(const Job&, const std::vector<SmallTensor>&, const DensePlan&);

/// Collective. Rank 0 makes the file, durable; the plan's tensors get their places in it. Returns,
/// on rank 0, the entries of all that was written; `structure` gets what HDF5 wrote of it, and the
/// seal of the unfinished save. Throws invalid_argument for keys and shapes that
/// HDF5 does not have.
std::vector<StoredTensor> make_hdf5(const Job&, const Draft&, const CheckpointMeta&,
                                    const Gathered&, DensePlan&,
                                    std::vector<commit::Patch>& structure);

}  // namespace cairn
