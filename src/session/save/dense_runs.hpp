#pragma once
/// The runs of dense tensors on the rank that writes them.
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
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

/// The chunks that a rank writes in one save.
class EncodedChunks {
 public:
  /// The plan outlives it.
  explicit EncodedChunks(const DensePlan& plan)
      : plan_(plan), encodes_(!plan.choice || plan.choice->encodes()) {}

  /// Writes a chunk behind the last one: encoded, unless that makes it longer. `stored` has its
  /// box, size and checksum.
  void write(const plan::Chunk&, std::span<const std::byte> bytes, io::File&, Piece& stored);
  /// Makes the file durable and closes it. Notes how long all of that took.
  void close(io::File&);

 private:
  bool may_shrink(std::span<const std::byte> chunk, std::size_t item);

  const DensePlan& plan_;
  const bool encodes_;
  std::int64_t bytes_ = 0, raw_bytes_ = 0;      // of the range that are written; decoded
  std::vector<std::byte> whole_, encoded_;      // of a chunk: with what fills it up
  std::chrono::steady_clock::duration time_{};  // of write() and close()
};

/// A run whose bytes come in order, part by part. `not_finite`: see Draft. `encoded`: null if the
/// plan has no chunks.
class RunWrite {
 public:
  RunWrite(const DensePlan&, int chunk, int first_file, io::File*, NotFiniteKeys* not_finite,
           EncodedChunks* encoded = nullptr);
  /// Checksums the bytes, and writes them if there is a file. A chunk is written when it is whole.
  void add(std::span<const std::byte>);
  /// Adds the run to the entries.
  void end(std::vector<StoredTensor>& entries);

 private:
  const DensePlan& plan_;
  const plan::Chunk& run_;
  io::File* file_;
  NotFiniteKeys* not_finite_;
  EncodedChunks* encoded_;
  const bool in_chunks_;
  Piece stored_;
  std::int64_t at_;
  FiniteCheck look_;
  std::vector<std::byte> gathered_;  // of a chunk that comes in parts
};

/// The same for a run that is in one place.
void write_run(const DensePlan&, int chunk, const std::byte* bytes, int first_file, io::File*,
               std::vector<StoredTensor>& entries, NotFiniteKeys* not_finite,
               EncodedChunks* encoded = nullptr);

/// Opens a data file of dense tensors that has no place where several ranks write as they like:
/// this rank's parts of it, or all of it if it has one part.
std::unique_ptr<io::File> open_parts(const Draft&, const DensePlan&, int file, int first_file);

/// Called on one rank, before any other rank opens the file. Makes a data file of dense tensors,
/// new or recycled, of the right size, with zeros between the tensors. `file`: its index among
/// these files.
std::unique_ptr<io::File> make_dense_file(const Draft&, const DensePlan&, int file, int first_file);

}  // namespace cairn
