#pragma once
/// Shards on their way into data files, on the rank that has them or on an io rank.
#include <atomic>
#include <map>
#include <span>
#include <vector>

#include "session/save/save_steps.hpp"
#include "store/commit/recycled.hpp"

namespace cairn {

/// What a rank has to write, in the order of the files.
struct Outgoing {
  /// Where an entry's bytes are: in one run, or in the part of a slice.
  struct Bytes {
    std::span<const std::byte> run;
    const LocalSlice* slice = nullptr;
    std::size_t tensor = 0, slice_index = 0;  ///< where in the state that is
    std::uint32_t crc32c = 0;                 ///< of what was written
  };
  /// One slice each, with box, file and size; the checksum is set for strings only.
  std::vector<StoredTensor> entries;
  std::vector<Bytes> bytes;  ///< of each entry
};

/// `state` and `local` outlive the result. All entries are of the first file if ranks share it.
Outgoing outgoing(const State& state, const LocalShards& local, int first_file,
                  bool one_file = false);

/// Large slices begin on a page, so that whole pages are copied on the way to the disk and back;
/// the gap before one reads as zeros.
std::int64_t next_page(std::int64_t offset);
std::int64_t entry_begin(std::int64_t end_of_last, std::int64_t bytes);

/// Writes data files into the temp directory, one after the other; each is synced when it is full.
class ShardFiles {
 public:
  /// Small slices go to the file so many bytes at a time: a system call for each costs more than
  /// a copy.
  static constexpr std::int64_t gathered_bytes = std::int64_t{256} << 10;

  /// With the entries that are to be written, no file takes more space than it needs.
  ShardFiles(io::FileSystem& files, const commit::Transaction& save,
             const std::vector<StoredTensor>& entries = {},
             std::int64_t gathered_bytes = ShardFiles::gathered_bytes);

  /// Opens the entry's file if it is not open, and sets the offset.
  void begin(StoredTensor& entry);
  /// If the bytes stay as they are until the file is finished, they are written behind the caller's
  /// back, and those on page boundaries from where they are.
  void append(std::span<const std::byte> bytes, bool stay = false);
  /// Sets the checksum, but of strings, which have one of another kind. Returns that of the bytes.
  std::uint32_t end(StoredTensor& entry) const;
  void finish();

 private:
  void put(std::span<const std::byte> bytes, bool stay);
  void write_gathered();

  io::FileSystem* files_;
  const commit::Transaction* save_;
  std::map<int, std::int64_t> sizes_;  // of the files, if they are known
  commit::PartFile file_;
  int number_ = -1;
  std::int64_t end_ = 0;             // of all that was put
  std::vector<std::byte> gathered_;  // the last of it, not yet written
  std::size_t most_gathered_;
  std::uint32_t crc_ = 0;
};

/// Local. Writes all of it, and completes the entries; or stops half-way when `cancelled` is set.
/// Memory that is written from where it lies is to stay as it is until the files are finished.
void write_entries(ShardFiles&, Outgoing&, const std::atomic<bool>* cancelled = nullptr);
/// The same into files of its own, which it finishes.
void write_files(io::FileSystem&, const commit::Transaction&, Outgoing&,
                 const std::atomic<bool>* cancelled = nullptr);

}  // namespace cairn
