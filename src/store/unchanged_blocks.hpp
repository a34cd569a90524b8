#pragma once
/// Leaves out of a data file what it holds already.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/keyed_hash.hpp"
#include "io/file_system.hpp"
#include "store/commit/recycled.hpp"

namespace cairn {

/// Gets all bytes of a file, in order, and passes on those that have to be written. While a block
/// may still turn out to be there, its bytes are kept: those that stay where they are, others in
/// a copy of up to 256 KiB.
class UnchangedBlocks {
 public:
  using Write = std::function<void(std::span<const std::byte>, bool stay)>;
  using Skip = std::function<void(std::int64_t bytes)>;

  /// Null if no block is to be hashed. `bytes`: of the file, or more.
  static std::unique_ptr<UnchangedBlocks> make(commit::PartFile&, std::int64_t bytes, Write, Skip);
  UnchangedBlocks(commit::PartFile&, std::int64_t bytes, std::int64_t one_in, Write, Skip);

  /// `stay`: the bytes do not change until end(). `padding`: they are not counted.
  void put(std::span<const std::byte>, bool stay, bool padding = false);
  /// The same for one whole block at the beginning of these bytes, if it is to be hashed. Returns
  /// its CRC-32C, which need not be computed if the block is there; nothing, and does nothing, if
  /// the bytes are none.
  std::optional<std::uint32_t> put_block(std::span<const std::byte>, bool stay);
  std::int64_t block_bytes() const { return written_.hashes.block_bytes; }
  /// How many bytes the block lacks that has begun; 0: none has.
  std::int64_t lacking() const { return filled_ > 0 ? block_bytes() - filled_ : 0; }
  /// Hashes of all that the file holds when it is synced. Nothing may follow.
  commit::WrittenBlocks end();

 private:
  struct Piece {
    std::span<const std::byte> bytes;
    bool stays;
  };
  bool is_due(std::int64_t block) const;
  bool is_in_sample(std::int64_t block) const;
  void begin_block();
  void keep(std::span<const std::byte>, bool stay);
  void end_block();
  void end_block(const KeyedHash::Digest&, bool is_there);
  void pass_on(std::span<const std::byte>, bool stay);
  void flush();
  bool is_there(const KeyedHash::Digest&);
  bool holds(const KeyedHash::Digest&);
  void tell_damage();

  Write write_;
  Skip skip_;
  const KeyedHash::Key* key_;
  const std::int64_t one_in_;
  const commit::BlockHashes held_, before_;
  const int read_every_;
  const io::Path path_;
  std::unique_ptr<io::Reader> reader_;  // of the blocks that are due; null: none is
  std::vector<std::byte> read_;
  bool is_damaged_ = false;

  commit::WrittenBlocks written_;
  // Of the present block.
  std::int64_t number_ = 0, filled_ = 0, counted_ = 0;
  std::optional<KeyedHash> hash_;  // none: it is not hashed
  bool may_be_there_ = false;
  std::vector<Piece> kept_;
  std::uint32_t checksum_ = 0;
  // Bytes of one or several blocks that are to be written together.
  std::span<const std::byte> passing_;
  bool passing_stay_ = false;
  std::vector<std::byte> copies_;
};

}  // namespace cairn
