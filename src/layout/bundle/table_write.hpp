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

/// Takes the bytes of a file, piece by piece, in order. A piece is valid only during the call.
using TakeBytes = std::function<void(std::string_view)>;

/// Entries one after the other. An entry has only the bytes of its key that differ from the key
/// before: number of bytes with which both begin, number of bytes that follow, length of the value
/// (varints), these bytes, the value. Blocks of a table have entries of the same form.
class EntryChain {
 public:
  /// Keys must ascend. `least`: so many bytes the key surely shares with the last one.
  void add(std::string_view key, std::string_view value, std::size_t least = 0);
  /// Returns the chain and begins a new one.
  std::string take() {
    last_.clear();
    return std::exchange(bytes_, {});
  }
  /// Reserves memory for the chain.
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }

 private:
  std::string bytes_, last_;
};

/// The bytes are those that LevelDB's builder makes with blocks of 64 MiB, a restart point every 16
/// entries, no compression and no filter. It does not hold blocks: it takes some MiB at most.
class TableWriter {
 public:
  explicit TableWriter(TakeBytes take);
  /// Keys must ascend over all calls; throws internal if they do not.
  void add(std::string_view key, std::string_view value);
  /// The same for a value that lies in pieces. No more of it is held than a piece of the file.
  void add(std::string_view key, std::span<const std::string_view> value);
  /// Adds the entries of an EntryChain. Its first key is whole.
  void add_chain(std::string_view chain);
  void finish();

 private:
  struct Handle {
    std::uint64_t offset = 0, size = 0;
  };
  /// Adds an entry whose key shares so many bytes with the last one.
  void append(std::size_t shared, std::string_view rest, std::span<const std::string_view> value);
  void end_block();
  void flush();

  const TakeBytes take_;
  std::string buffer_;  // bytes of the block that are not handed on yet
  std::string last_;    // key
  bool any_ = false;    // whether there is a last key
  std::uint64_t block_begin_ = 0, block_bytes_ = 0;
  std::uint32_t block_crc_ = 0;
  std::vector<std::uint32_t> restarts_;
  int since_restart_ = 0;
  bool ended_ = false;  // a block has ended, and its separator is not known yet
  Handle ended_block_;
  std::string index_;  // entries of the index block
  std::vector<std::uint32_t> index_restarts_;
};

}  // namespace cairn::bundle
