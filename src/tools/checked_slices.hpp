#pragma once
/// Parts of stored slices, each byte checked, in memory that does not grow with the slices.
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/contents/open_checkpoint.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// A stored checksum is that of a whole slice, but a slice may be larger than memory. So the first
/// read of a slice goes through all of it, in blocks: it compares the stored checksum, and notes
/// that of each block, by which later reads of the block are checked. The last used blocks are
/// kept. An encoded slice is one block, since it can only be decoded as a whole. Not thread-safe.
class CheckedSlices {
 public:
  /// Both must outlive this object. `progress` hears of the first reads.
  CheckedSlices(const OpenCheckpoint& source, const Progress& progress);

  /// Fills `out` with a part of a slice of numbers, given relative to the slice, in row-major order
  /// and in the byte order of this machine. Tensor and slice must outlive this object. Throws
  /// data_loss for damage.
  void read(const StoredTensor&, const Piece&, const Box& part, std::byte* out);
  /// The same for a box of the tensor, from all slices that have a part of it. Reserves memory for
  /// some more bytes behind it.
  std::string read_box(const StoredTensor&, const Box&, std::size_t room_behind = 0);

 private:
  using Place = std::pair<const Piece*, std::int64_t>;  // a slice, and the number of a block
  struct Block {
    std::string bytes;
    std::list<Place>::iterator order;
  };
  void copy(const StoredTensor&, const Piece&, std::int64_t offset, std::int64_t count,
            std::byte* out);
  std::string_view block(const StoredTensor&, const Piece&, std::int64_t number);
  std::string read_bytes_of(const Piece&, std::int64_t offset, std::int64_t most);
  void check_all(const StoredTensor&, const Piece&);
  std::string_view keep(const StoredTensor&, Place, std::string bytes);
  void tell(std::int64_t more);

  const OpenCheckpoint& source_;
  const Progress& progress_;
  std::int64_t done_ = 0, total_;
  std::map<const Piece*, std::vector<std::uint32_t>> checksums_;  // by block, of checked slices
  std::map<Place, Block> kept_;
  std::list<Place> order_;  // of the kept blocks, the last used one first
  std::size_t kept_bytes_ = 0;
  int open_number_ = -1;  // of the data file that is open
  std::unique_ptr<io::File> open_;
};

}  // namespace cairn
