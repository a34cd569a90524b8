#pragma once
/// What a rank has written in a save.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/wire.hpp"
#include "cairn/contents.hpp"
#include "exchange/messages.hpp"

namespace cairn {

/// Entries of tensors, packed as they are added: so they take a third of the memory, and the thread
/// that writes a save leaves no small allocations behind, which its allocator would keep.
class EntryList {
 public:
  EntryList() = default;
  EntryList(std::vector<StoredTensor> entries) { add(std::move(entries)); }

  void add(const StoredTensor& entry) {
    ascends_ = ascends_ && (size_ == 0 || last_key_ <= entry.key);
    last_key_ = entry.key;
    ++size_;
    slices_ += static_cast<std::int64_t>(entry.slices.size());
    for (const auto& slice : entry.slices) bytes_ += slice.stored_bytes;
    packed_.add(entry);
  }
  /// Frees each entry as soon as it is added.
  void add(std::vector<StoredTensor> entries) {
    for (auto& entry : entries) add(std::exchange(entry, {}));
  }

  /// A list that grows needs up to three times its memory for a while.
  void reserve(std::size_t packed_bytes) { packed_.bytes.reserve(packed_bytes); }
  std::size_t packed_bytes() const { return packed_.bytes.size(); }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::int64_t slices() const { return slices_; }
  std::int64_t stored_bytes() const { return bytes_; }  ///< in data files
  bool ascends() const { return ascends_; }             ///< by key
  UnpackEach<StoredTensor> each() const& { return packed_.each(); }
  UnpackEach<StoredTensor> each() && = delete;
  std::vector<StoredTensor> unpacked() const { return unpack_all<StoredTensor>(packed_.bytes); }
  Packed<StoredTensor> take_packed() && { return std::move(packed_); }

 private:
  Packed<StoredTensor> packed_;
  std::size_t size_ = 0;
  std::int64_t slices_ = 0, bytes_ = 0;
  bool ascends_ = true;
  std::string last_key_;
};

}  // namespace cairn
