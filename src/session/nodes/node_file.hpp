#pragma once
/// A rank's part of a checkpoint on the nodes: one file, with a record before the data. It holds
/// slices with their boxes, as the rank had them, and not the bytes of a file in the directory.
/// Dense tensors and HDF5 files are put together over the network, which a save on the nodes should
/// avoid, and a restart on other ranks would have to undo the layout of the file. As they are, the
/// parts of all nodes form a state: `redistribute` fills another state from it, and a save copies
/// it to the directory.
///
///   head      64 bytes: magic, sizes, and a checksum of head, record and stripes
///   record    the rank's entries: key, dtype, shape, box, and where the bytes are (encoded as in
///             layout/bundle/part_record.hpp, with one data file: the data of this one)
///   stripes   a CRC-32C of each 256 KiB of data
///   data      begins at the next page
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cairn/log.hpp"
#include "layout/bundle/part_record.hpp"
#include "session/save/shard_files.hpp"
#include "store/address.hpp"

namespace cairn::tier {

inline constexpr std::int64_t stripe_bytes = std::int64_t{256} << 10;

/// Writes a new file. `record` has all but the entries, whose offsets in the data are set here.
/// With `sync` the file is durable on return, but its name is not. Returns the file's size.
std::int64_t write_part(const Address&, bundle::PartRecord record, Outgoing&, bool sync);

/// A part that can be read. Only one thread may use it.
class NodeFile {
 public:
  /// Throws data_loss if the file has no whole record of this save, not_found if there is no file.
  NodeFile(const Address&, const std::string& uuid);

  const bundle::PartRecord& record() const { return record_; }
  int rank() const { return record_.part; }
  /// Reads bytes of the data. The stripes that contain them are read whole and checked. Throws
  /// data_loss for a wrong checksum; the part counts as damaged from then on.
  void read(std::int64_t offset, std::span<std::byte> to) const;
  bool is_damaged() const { return damaged_; }
  /// Reads and checks the whole file.
  void verify() const;
  /// Reads the whole file. Returns the numbers of its blocks of `block_bytes` bytes that cannot be
  /// read, that overlap a stripe with a wrong checksum, or that have other bytes than zeros between
  /// record and data: blocks of other nodes are computed from these bytes, too. Logs what is wrong.
  std::set<std::int64_t> bad_blocks(std::int64_t block_bytes, LogLevel = LogLevel::warning) const;

 private:
  void verify_gap() const;
  void read_stripe(std::int64_t stripe, std::span<std::byte> to) const;
  [[noreturn]] void damaged(const std::string& why) const;

  io::Path path_;
  std::unique_ptr<io::File> file_;
  bundle::PartRecord record_;
  std::vector<std::uint32_t> stripes_;
  std::int64_t record_end_ = 0, data_begin_ = 0, data_bytes_ = 0;
  mutable std::vector<std::byte> stripe_;  // the last stripe of which a part was read
  mutable std::int64_t in_stripe_ = -1;
  mutable bool damaged_ = false;
};

/// The elements of a box, which lie row-major in the part.
std::shared_ptr<SliceMemory> part_memory(std::shared_ptr<const NodeFile>, std::int64_t offset,
                                         Dims extent, std::int64_t element_bytes);

}  // namespace cairn::tier
