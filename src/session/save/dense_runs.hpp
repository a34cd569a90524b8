#pragma once
/// The runs of dense tensors on the rank that writes them.
#include <cstdint>
#include <memory>
#include <vector>

#include "exchange/pass_pieces.hpp"
#include "io/file_system.hpp"
#include "session/save/dense.hpp"

namespace cairn {

/// The memory that a rank needs during the rounds: for its runs (of one round, or of all rounds if
/// it keeps them), and for pieces that it sends or receives.
struct DenseMemory {
  std::int64_t hand = 0;
  PassingRoom pass = {};
  std::int64_t bytes() const { return hand + pass.bytes(); }
};
DenseMemory dense_memory(const DensePlan&, bool keeps_all);

/// Checksums a run, writes it if there is a file, and adds it to the entries. `not_finite`: see
/// Draft.
void write_run(const DensePlan&, int chunk, const std::byte* bytes, int first_file, io::File*,
               std::vector<StoredTensor>& entries, NotFiniteKeys* not_finite);

/// Called on one rank, before any other rank opens the file. Makes a data file of dense tensors,
/// new or recycled, of the right size, with zeros between the tensors. `file`: its index among
/// these files.
std::unique_ptr<io::File> make_dense_file(const Draft&, const DensePlan&, int file, int first_file);

}  // namespace cairn
