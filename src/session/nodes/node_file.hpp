#pragma once
/// A rank's part of a checkpoint on the nodes: one file, the record in front of the bytes. It holds
/// slices with their boxes, as the rank had them, and not the bytes of a future file. Dense tensors
/// and HDF5 files are put together over the network, which a save on the nodes is to avoid, and a
/// restart on other ranks would have to invert a file's layout. So the parts of all nodes are a
/// state: `redistribute` fills another one from it, and a save makes a checkpoint of it at home.
///
///   head      64 bytes: what it is, sizes, and a checksum of head, record and stripes
///   record    entries of the rank: key, dtype, shape, box, and where the bytes are (the encoding
///   of
///             layout/bundle/part_record.hpp, with one data file: this one's data)
///   stripes   a CRC-32C of each 256 KiB of data
///   data      from the next page on
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

/// Writes a new file. `record` has all but the entries, whose offsets in the data are set. `sync`:
/// durable on return, its name not. Returns the file's size.
std::int64_t write_part(const Address&, bundle::PartRecord record, Outgoing&, bool sync);

/// A part that can be read. One thread.
class NodeFile {
 public:
  /// Throws data_loss for what is no whole record of this save, not_found.
  NodeFile(const Address&, const std::string& uuid);

  const bundle::PartRecord& record() const { return record_; }
  int rank() const { return record_.part; }
  /// Bytes of the data, whose stripes are read whole and checked. Throws data_loss, and is then
  /// damaged.
  void read(std::int64_t offset, std::span<std::byte> to) const;
  bool is_damaged() const { return damaged_; }
  /// Reads and checks all of it.
  void verify() const;
  /// Reads all of it: which blocks of so many bytes of the file cannot be read, or have a stripe
  /// whose checksum is wrong, or hold other bytes than zeros between record and data: others'
  /// blocks are computed from these, too. The log is told what is wrong.
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
  mutable std::vector<std::byte> stripe_;  // the last one that was read in part
  mutable std::int64_t in_stripe_ = -1;
  mutable bool damaged_ = false;
};

/// The elements of a box, row-major in a part.
std::shared_ptr<SliceMemory> part_memory(std::shared_ptr<const NodeFile>, std::int64_t offset,
                                         Dims extent, std::int64_t element_bytes);

}  // namespace cairn::tier
