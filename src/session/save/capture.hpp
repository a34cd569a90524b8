#pragma once
/// Capture: copies what a save will write into memory of its own.
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/wire.hpp"
#include "model/refreshed_state.hpp"
#include "session/save/dense.hpp"
#include "session/save/frames.hpp"
#include "session/save/shard_files.hpp"
#include "session/save/staying.hpp"
#include "session/save/window.hpp"
#include "store/sink.hpp"

namespace cairn {

/// Where the copy of a rank's data lies. Entries have the same positions as in their files, and
/// each file begins on a page, so that files can be written without another copy.
struct CaptureLayout {
  std::vector<std::int64_t> at;  ///< of each entry
  std::int64_t shard_bytes = 0;
  std::int64_t bytes = 0;  ///< shards, followed by the runs of dense tensors
};
/// Makes the layout of entries that are given one by one, file by file.
class CaptureLayouter {
 public:
  explicit CaptureLayouter(std::size_t entries) { layout_.at.reserve(entries); }
  void add(const StoredTensor&);
  CaptureLayout end(std::int64_t dense_bytes);

 private:
  CaptureLayout layout_;
  int file_ = -1;
  std::int64_t begin_ = 0, end_ = 0;  // the file's, in memory; of its entries, within the file
};

/// For an entry that another rank has sent: the checksum of the bytes that were sent, and, for a
/// string tensor, the checksum that its index entry will have.
struct SentEntry {
  std::uint32_t bytes_crc32c = 0, entry_crc32c = 0;
  bool is_known = false;  ///< false if that rank has failed
};

/// Where one save's copy lies, if a part of the state stays in the application's memory.
struct CapturePlaces {
  static constexpr std::int64_t stays = -1;
  std::vector<std::int64_t> at;  ///< of this rank's entries; empty: the layout says it
  std::int64_t left_out = 0;     ///< what follows these entries begins so many bytes earlier
};

/// Says how to copy a state, and every other state of the same structure. With io ranks, the copy
/// of a served rank's data lies in the memory of its io rank, after the io rank's own.
class CaptureForm {
 public:
  CaptureForm() = default;
  /// `dense_bytes`: the size of the runs of dense tensors.
  CaptureForm(const RefreshedState&, const LocalShards&, int first_file, bool one_file,
              std::int64_t dense_bytes);
  /// Collective. Ranks tell their io ranks what they will send.
  void tell_io_ranks(const Job&);

  bool made() const { return made_; }
  /// Of the entries, as an EntryList has them.
  std::size_t packed_bytes() const { return packed_.bytes.size(); }
  /// The number of ranks whose copies lie in this rank's memory.
  std::int64_t ranks() const { return 1 + static_cast<std::int64_t>(served_.size()); }
  const CaptureLayout& layout() const { return layout_; }
  /// By how much the copy is smaller than its layout, since a part of the state stays where it is.
  std::int64_t left_out(const RefreshedState&, Until) const;
  /// Local. Chooses what stays in the application's memory until release(), and adds it to the
  /// window, which is not open yet. Tells which tensors are copied as a whole.
  void leave(const RefreshedState&, std::vector<std::int64_t>& places, Window&, CopiedWhole&) const;
  /// Whether another rank writes what this rank has.
  bool is_served() const { return stream_.has_value(); }
  /// Collective among io ranks and the ranks that they serve; called by the caller's thread. Does
  /// not allocate for contiguous data that stays on its rank. Errors are thrown after all messages
  /// have been exchanged. Returns the checksums of the entries that other ranks have sent.
  std::vector<SentEntry> copy(const Job&, const RefreshedState&, const StringStore&,
                              std::span<std::byte> memory, const CapturePlaces&) const;
  /// What write() takes from one save.
  struct Copy {
    std::span<std::byte> memory;
    const CapturePlaces& places;
    Window& window;
    std::span<const SentEntry> sent;
  };
  /// Any thread. Writes the copy, and what stayed where it was, into data files, and gives each
  /// entry to `take` when it is written; stops half-way if `cancelled` becomes true. Strings get
  /// their checksums from the StringStore or from `sent`. Throws data_loss if bytes differ from
  /// those that a rank has sent, invalid_argument if the application has changed some too early.
  void write(const Draft&, const Copy&, const StringStore&, const std::atomic<bool>& cancelled,
             const std::function<void(const StoredTensor&)>& take) const;

 private:
  // For a piece that is not contiguous in the application's memory.
  static constexpr std::int64_t no_run = -1;
  struct Piece {
    std::size_t tensor, slice;
    std::int64_t bytes = 0;
    std::int64_t run = no_run;  // offset of its first byte in the slice, if it is contiguous there
  };
  /// A rank that this one serves.
  struct Served {
    int rank;
    std::size_t entries;  // that it has sent
    std::int64_t begin;   // of its copy, in this rank's memory
    Frames stream;
  };
  Box part_of(std::size_t piece, const LocalTensor&) const;
  std::int64_t own_bytes() const;
  template <class Take>
  std::int64_t place(const RefreshedState&, const Take&) const;
  void copy_own(const RefreshedState&, const StringStore&, std::span<std::byte> memory,
                const CapturePlaces&) const;
  void send(const Job&, const RefreshedState&, const StringStore&,
            std::span<std::byte> memory) const;
  std::vector<SentEntry> receive(Group&, std::span<std::byte> memory) const;
  void write_own(std::size_t, StoredTensor&, const Copy&, Sink&) const;
  void check_sent(std::size_t number, const std::string& key, std::uint32_t crc,
                  std::span<const SentEntry> sent) const;
  std::span<const std::byte> fetch(const RefreshedState&, const StringStore&, const Frames::Part&,
                                   std::byte* packing) const;

  bool made_ = false;
  CaptureLayout layout_;
  // With io ranks, entries_, packed_ and layout_.at list this rank's entries first, then those of
  // the ranks that it serves, in the order of served_.
  std::vector<Piece> pieces_;         // one per entry of this rank
  std::map<std::size_t, Box> parts_;  // piece → its box in the slice, if it is not the whole slice
  std::size_t entries_ = 0;           // of this rank, then of the ranks that it serves
  Packed<StoredTensor> packed_;       // these entries
  FileSizes file_sizes_;              // with them
  std::optional<Frames> stream_;      // on a served rank: how its entries travel
  std::vector<Served> served_;
  int rank_ = -1;  // of an io rank: its own number
};

}  // namespace cairn
