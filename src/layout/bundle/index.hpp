#pragma once
/// The index of a checkpoint: from contents to bytes and back. No I/O.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/wire.hpp"
#include "cairn/contents.hpp"
#include "layout/bundle/limits.hpp"
#include "layout/bundle/table_write.hpp"

namespace cairn::bundle {

/// The bytes of PREFIX.index for these tensors (in any order) in num_files data files. Sliced
/// tensors list their slices in ascending order; one whose only slice is the whole becomes plain.
/// There is one data block up to 64 MiB, because with several blocks TensorFlow silently loses the
/// keys of a damaged one. Throws invalid_argument for what no reader would accept: a key that is
/// empty, begins with a zero byte or occurs twice; a slice that occurs twice or lies outside its
/// tensor; a size that does not fit; a file that is not among num_files.
std::string build_index(int num_files, const std::vector<StoredTensor>& tensors);

/// A tensor, encoded for an index. An index is put together from such entries without a look into
/// them, so that many ranks can make them.
struct IndexEntry {
  std::string key, value;
  std::string slices;     ///< the entries of its slices, as an EntryChain; empty if it is plain
  int files = 0;          ///< it refers to data files below this
  int part = 0;           ///< number of this part, if several entries make up one tensor
  std::int32_t head = 0;  ///< bytes of `value` before its slices, the same in all parts
  bool encoded = false;   ///< a piece is encoded, which the header has to say
};
/// An entry whose texts lie elsewhere, for example in a packed list.
struct IndexEntryView {
  std::string_view key, value, slices;
  int files = 0, part = 0;
  std::int32_t head = 0;
  bool encoded = false;
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
  /// Encodes a part of a sliced tensor. The slices of a part stand together in the index, so a part
  /// with a higher number must have slices with higher keys.
  IndexEntry encode_part(const StoredTensor&, int part);

 private:
  struct Memory;
  IndexEntry sliced(const StoredTensor&);

  std::unique_ptr<Memory> memory_;
};
/// Encodes a single tensor.
IndexEntry encode_entry(const StoredTensor&);
/// An index of these entries (in any order). write() makes the bytes that build_index() would
/// return for their tensors.
class EncodedIndex {
 public:
  /// Throws as build_index(). `more`: entries of other keys, ascending, which outlive this object.
  /// `packed`: lists of entries of other keys, each ascending.
  EncodedIndex(int num_files, std::vector<IndexEntry> entries,
               const std::vector<IndexEntry>* more = nullptr,
               std::vector<Packed<IndexEntry>> packed = {});
  void write(const TakeBytes&) const;
  /// The size of the index in bytes, roughly.
  std::size_t about_bytes() const;

 private:
  template <class Visit>
  void each_entry(Visit) const;  // ascending

  int num_files_;
  std::vector<IndexEntry> entries_;  // ascending
  const std::vector<IndexEntry>* more_;
  std::vector<Packed<IndexEntry>> packed_;
};

/// Reads an index. `prefix` and `meta` stay empty, since an index does not hold them. Throws
/// data_loss if the index as a whole cannot be trusted. If one tensor is wrong, its `problem` says
/// so, and its slices are left out. A tensor without problem has slices inside its shape that
/// overlap nowhere, non-negative ranges whose ends fit 63 bits, files below num_files, and raw
/// sizes that fit its dtype. Over all such tensors the sum of sizes fits 63 bits, stored or raw.
/// Its slices may leave gaps. An entry of a slice that no tensor lists becomes a tensor with a
/// problem under the entry's own key, which begins with a zero byte. Thread-safe. Memory and time
/// are bounded by the size of `bytes`, whatever they are. Throws unsupported for an index that asks
/// for readers of another version, damaged or not.
CheckpointContents parse_index(std::string_view bytes, const Limits& limits = {});

/// The data files that tensors without problem refer to, ascending. They may be fewer than
/// num_files: files that no tensor refers to need not exist.
std::vector<std::int32_t> files_used(const CheckpointContents& contents);

/// Gives a problem to each tensor with bytes in a file that is missing or too short. size_of(file)
/// is called once for each file, and returns nothing for a missing one.
using FileSize = std::function<std::optional<std::int64_t>(std::int32_t file)>;
void check_files(CheckpointContents& contents, const FileSize& size_of);
/// The same; files beyond the end of the list are missing.
void check_files(CheckpointContents& contents,
                 const std::vector<std::optional<std::int64_t>>& file_sizes);

}  // namespace cairn::bundle
