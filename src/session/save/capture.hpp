#pragma once
/// Capture: what a save will write, copied into memory of its own.
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/wire.hpp"
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
/// Of entries that come one by one, file by file.
class CaptureLayouter {
 public:
  explicit CaptureLayouter(std::size_t entries) { layout_.at.reserve(entries); }
  void add(const StoredTensor&);
  CaptureLayout end(std::int64_t dense_bytes);

 private:
  CaptureLayout layout_;
  int file_ = -1;
  std::int64_t begin_ = 0, end_ = 0;  // of the file, in memory; of its entries, in the file
};

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
  CaptureForm(const RefreshedState&, const LocalShards&, int first_file, bool one_file,
              std::int64_t dense_bytes);
  /// Collective: ranks tell their io ranks what they will send.
  void tell_io_ranks(const Job&);

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
  static constexpr std::int64_t no_run = -1;
  struct Piece {
    std::size_t tensor, slice;
    std::int64_t bytes = 0;
    std::int64_t run = no_run;  // its first byte in the slice
  };
  /// A rank that this one serves.
  struct Served {
    int rank;
    std::size_t entries;  // it has sent
    std::int64_t begin;   // of its copy, in memory
    Frames stream;
  };
  Box part_of(std::size_t piece, const LocalTensor&) const;
  void copy_own(const RefreshedState&, const StringStore&, std::span<std::byte> memory) const;
  void send(const Job&, const RefreshedState&, const StringStore&,
            std::span<std::byte> memory) const;
  std::vector<SentEntry> receive(Group&, std::span<std::byte> memory) const;
  std::span<const std::byte> fetch(const RefreshedState&, const StringStore&, const Frames::Part&,
                                   std::byte* packing) const;

  bool made_ = false;
  CaptureLayout layout_;
  std::vector<Piece> pieces_;         // of each entry of this rank
  std::map<std::size_t, Box> parts_;  // by piece, of its slice: where that is not all of it
  std::size_t entries_ = 0;           // of this rank, and behind them of those that it serves
  Packed<StoredTensor> packed_;       // these
  std::optional<Frames> stream_;      // of a rank that is served: how its entries travel
  std::vector<Served> served_;
  int rank_ = -1;  // of an io rank
};

}  // namespace cairn
