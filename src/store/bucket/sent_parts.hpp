#pragma once
/// Parts of an upload on their way.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "store/bucket/bucket_files.hpp"

namespace cairn {

/// Several parts of one upload are under way at a time. Its end lets go of them. One thread uses
/// it.
class SentParts {
 public:
  /// The client outlives it.
  explicit SentParts(BucketFiles::Client& client) : client_(client) {}
  ~SentParts() { cancel(); }
  SentParts(const SentParts&) = delete;
  SentParts& operator=(const SentParts&) = delete;

  /// Waits until fewer than `most` are under way, and sends a part: from memory that stays until it
  /// is finished, or, if that is empty, these bytes. `bytes` is empty then, and may have room.
  void send(const bucket::Upload&, int number, std::span<const std::byte> stays,
            std::vector<std::byte>& bytes, std::uint32_t crc32c, std::size_t most);
  /// Waits until no more than so many are under way.
  void finish(std::size_t most);
  void cancel();
  /// Of the parts that are finished.
  const bucket::PartTags& tags() const { return tags_; }

 private:
  struct Sent {
    int number = 0;
    bucket::Requests::Pending id = 0;
    std::vector<std::byte> bytes = {};  // unless they are sent from where they are
  };

  BucketFiles::Client& client_;
  std::deque<Sent> sent_;
  std::vector<std::byte> spare_;
  bucket::PartTags tags_;
};

}  // namespace cairn
