#pragma once
/// The index of a checkpoint: from contents to bytes and back. No I/O.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/contents.hpp"
#include "layout/bundle/limits.hpp"
#include "layout/bundle/table_write.hpp"

namespace cairn::bundle {

/// The bytes of PREFIX.index for these tensors (in any order) in num_files data files. Sliced
/// tensors list their slices in ascending order; one whose only slice is the whole becomes plain.
/// One data block up to 64 MiB, because TensorFlow loses the keys of a damaged block without a word
/// when there are several. Throws invalid_argument for what no reader would accept: a key that is
/// empty, begins with a zero byte or comes twice; a slice that comes twice or lies outside; a size
/// that does not fit; a file that is not among num_files.
std::string build_index(int num_files, const std::vector<StoredTensor>& tensors);

/// A tensor as an index has it. An index can be put together of such entries without a look at
/// them, so that many ranks can make them.
struct IndexEntry {
  std::string key, value;
  std::string slices;     ///< the entries of its slices, as an EntryChain; "": it is plain
  int files = 0;          ///< it refers to data files below this
  int part = 0;           ///< of its tensor, if several entries are parts of one
  std::int32_t head = 0;  ///< of a part: bytes of its value that other parts have, too
  bool encoded = false;   ///< a piece of it is: the header has to tell
};
/// The order of entries in an index.
bool comes_before(const IndexEntry&, const IndexEntry&);
/// Makes one entry after the other in the same memory. Throws as build_index().
class EntryEncoder {
 public:
  EntryEncoder();
  ~EntryEncoder();
  EntryEncoder(const EntryEncoder&) = delete;
  EntryEncoder& operator=(const EntryEncoder&) = delete;

  IndexEntry encode(const StoredTensor&);
  /// Of a part of a sliced tensor, whose slices stand together in the index. The slices of another
  /// part with a higher number have higher keys.
  IndexEntry encode_part(const StoredTensor&, int part);

 private:
  struct Memory;
  IndexEntry sliced(const StoredTensor&);

  std::unique_ptr<Memory> memory_;
};
/// A single one.
IndexEntry encode_entry(const StoredTensor&);
/// The bytes that build_index() would give for these tensors (in any order), made when they are
/// asked for.
class EncodedIndex {
 public:
  /// Throws as build_index(). `more`: entries of other keys, ascending; they outlive it.
  EncodedIndex(int num_files, std::vector<IndexEntry> entries,
               const std::vector<IndexEntry>* more = nullptr);
  void write(const TakeBytes&) const;
  /// About as many bytes as it will have.
  std::size_t about_bytes() const;

 private:
  template <class Visit>
  void each_entry(Visit) const;  // ascending

  int num_files_;
  std::vector<IndexEntry> entries_;  // ascending
  const std::vector<IndexEntry>* more_;
};

/// What an index says; `prefix` and `meta` stay empty, for they are not in it. Throws data_loss
/// when the index as a whole cannot be trusted. What is wrong with one tensor goes to its
/// `problem`, and its slices are left out. A tensor without problem has slices inside its shape
/// that overlap nowhere, non-negative ranges whose ends fit 63 bits, files below num_files, and raw
/// sizes that fit its dtype. Over all such tensors the sum of sizes fits 63 bits, stored or raw.
/// Its slices may leave gaps. An entry of a slice that no tensor lists becomes a tensor with a
/// problem under the entry's own key, which begins with a zero byte. Thread-safe. Memory and time
/// are bounded by the size of `bytes`, whatever they are. Throws unsupported for an index that asks
/// for readers of another version, damaged or not.
CheckpointContents parse_index(std::string_view bytes, const Limits& limits = {});

/// Data files that tensors without problem refer to, ascending. num_files says nothing of how many:
/// files that nobody refers to need not exist.
std::vector<std::int32_t> files_used(const CheckpointContents& contents);

/// Gives a problem to each tensor with bytes in a file that is missing or too short. size_of(file)
/// is asked once a file and says nothing for a missing one.
using FileSize = std::function<std::optional<std::int64_t>(std::int32_t file)>;
void check_files(CheckpointContents& contents, const FileSize& size_of);
/// The same; files beyond the end of the list are missing.
void check_files(CheckpointContents& contents,
                 const std::vector<std::optional<std::int64_t>>& file_sizes);

}  // namespace cairn::bundle
