#pragma once
/// Capture: what a save will write, copied into memory of its own.
#include <optional>
#include <span>
#include <vector>

#include "model/refreshed_state.hpp"
#include "session/save/dense.hpp"
#include "session/save/frames.hpp"
#include "session/save/shard_files.hpp"

namespace cairn {

/// Where the copy of a rank's part lies. Entries lie as in their files, from page to page, so that
/// files can be written without another copy.
struct CaptureLayout {
  std::vector<std::int64_t> at;  ///< of each entry
  std::int64_t shard_bytes = 0;
  std::int64_t bytes = 0;  ///< of shards, and behind them of the runs of dense tensors
};
CaptureLayout capture_layout(const std::vector<StoredTensor>& entries, std::int64_t dense_bytes);

/// Of an entry that another rank has sent: the checksum of its bytes there, and the one that the
/// entry has if it is of strings.
struct SentEntry {
  std::uint32_t bytes_crc32c = 0, entry_crc32c = 0;
  bool is_known = false;  ///< not if that rank has failed
};

/// How to copy a state, and every other one of the same structure. With io ranks the copy of a rank
/// that is served lies in the memory of its io rank, behind that rank's own.
class CaptureForm {
 public:
  CaptureForm() = default;
  /// `dense_bytes`: of the runs of dense tensors.
  CaptureForm(const RefreshedState&, const Outgoing&, std::int64_t dense_bytes);
  /// Collective: ranks tell their io ranks what they will send.
  void check_entry(const Job&);

  bool made() const { return made_; }
  /// Whose copies lie in the memory.
  std::int64_t ranks() const { return 1 + static_cast<std::int64_t>(served_.size()); }
  const CaptureLayout& layout() const { return layout_; }
  /// The caller's thread; collective for ranks that io ranks serve and for these. Allocates nothing
  /// for what is one run of bytes and stays on its rank. What fails is thrown when all messages
  /// have been exchanged. Gives what others have sent.
  std::vector<SentEntry> copy(const Job&, const RefreshedState&, const StringStore&,
                              std::span<std::byte> memory) const;
  /// Any thread. What to write of the copy; strings have the checksums of this store, or those that
  /// were sent.
  Outgoing outgoing(std::span<std::byte> memory, const StringStore&,
                    std::span<const SentEntry> sent) const;
  /// Any thread. Throws data_loss if the bytes that were written are not those that were sent.
  void check(const Outgoing& written, std::span<const SentEntry> sent) const;

 private:
  struct Piece {
    std::size_t tensor, slice;
    Box part;                         // of the slice
    std::optional<std::int64_t> run;  // its first byte in the slice, if it is one run
    std::int64_t bytes;
  };
  /// A rank that this one serves.
  struct Served {
    int rank;
    std::size_t entries;  // it has sent
    std::int64_t begin;   // of its copy, in memory
    Frames stream;
  };
  void copy_own(const RefreshedState&, const StringStore&, std::span<std::byte> memory) const;
  void send(const Job&, const RefreshedState&, const StringStore&,
            std::span<std::byte> memory) const;
  std::vector<SentEntry> receive(Group&, std::span<std::byte> memory) const;
  std::span<const std::byte> fetch(const RefreshedState&, const StringStore&, const Frames::Part&,
                                   std::byte* packing) const;

  bool made_ = false;
  CaptureLayout layout_;
  std::vector<Piece> pieces_;          // of each entry of this rank
  std::vector<StoredTensor> entries_;  // and of those that it serves, behind them
  std::optional<Frames> stream_;       // of a rank that is served: how its entries travel
  std::vector<Served> served_;
  int rank_ = -1;  // of an io rank
};

}  // namespace cairn
