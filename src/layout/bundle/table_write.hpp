#pragma once
/// Writes a table file, as table.hpp reads it, in pieces. LevelDB's builder would not do: it wants
/// each key whole, compares it with the one before, and holds a block of 64 MiB. Here the keys of
/// slices come from planners in the form that the table has, and blocks are handed on as they grow.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::bundle {

/// Takes the bytes of a file, piece by piece, in order. A piece is good during the call.
using TakeBytes = std::function<void(std::string_view)>;

/// Entries one after the other, in which a key is told by what differs from the one before: number
/// of bytes that both begin with, number of bytes that follow, length of the value (varints), these
/// bytes, the value. The blocks of a table have them, too.
class EntryChain {
 public:
  /// Keys ascend. `least`: bytes that it surely shares with the last key.
  void add(std::string_view key, std::string_view value, std::size_t least = 0);
  /// Then it is empty.
  std::string take() {
    last_.clear();
    return std::exchange(bytes_, {});
  }
  /// Of the chain that is begun.
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }

 private:
  std::string bytes_, last_;
};

/// The bytes are those that LevelDB's builder makes with blocks of 64 MiB, a restart point every 16
/// entries, no compression and no filter. Blocks are not held: it takes some MiB at most.
class TableWriter {
 public:
  explicit TableWriter(TakeBytes take);
  /// Keys ascend over all calls; throws internal where they do not.
  void add(std::string_view key, std::string_view value);
  /// A value that lies in pieces: none of it is held longer than a piece of the file.
  void add(std::string_view key, std::span<const std::string_view> value);
  /// The first key of a chain is whole.
  void add_chain(std::string_view chain);
  void finish();

 private:
  struct Handle {
    std::uint64_t offset = 0, size = 0;
  };
  /// A key of which so many bytes are the last one's.
  void append(std::size_t shared, std::string_view rest, std::span<const std::string_view> value);
  void end_block();
  void emit_block(const std::string& entries, const std::vector<std::uint32_t>& restarts);
  void flush();

  const TakeBytes take_;
  std::string buffer_;  // of the block, what is not yet handed on
  std::string last_;    // key
  bool any_ = false;    // key so far
  std::uint64_t block_begin_ = 0, block_bytes_ = 0;
  std::uint32_t block_crc_ = 0;
  std::vector<std::uint32_t> restarts_;
  int since_restart_ = 0;
  bool ended_ = false;  // a block whose separator is still to be found
  Handle ended_block_;
  std::string index_;  // of the index block
  std::vector<std::uint32_t> index_restarts_;
};

}  // namespace cairn::bundle
