#pragma once
/// What the data files hold that this process has written: a hash of each block. A save that writes
/// over such a file can leave out the blocks that are there already.
///
/// A block that is left out must be as durable as one that is written. So hashes count only from
/// the commit of the save that wrote the file and synced it, and they are forgotten before the next
/// save changes anything in it: a failed save leaves none. The first save that leaves a block out
/// relies on the sync of the save that wrote it, each later one on its predecessor.
///
/// Nobody else may have changed the file meanwhile. That shows in its device, inode, size, time of
/// birth and time of change (ctime), which are noted once it has its final name, as a rename
/// changes the last one. So a file that another process has moved to .cairn/recycled, linked or
/// written to counts as unknown.
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/keyed_hash.hpp"
#include "base/mutex.hpp"
#include "cairn/write_options.hpp"
#include "io/file_system.hpp"

namespace cairn::commit {

/// Of one data file.
struct BlockHashes {
  std::int64_t block_bytes = 0;            ///< of each block but the last one
  std::int64_t file_bytes = 0;             ///< that the hashes are of
  std::vector<KeyedHash::Digest> digests;  ///< by block; zeros: not known
  std::vector<std::uint32_t> checksums;    ///< CRC-32C, by block; 0: not known
  io::FileId id = {};
  /// How many saves have left blocks out so far: that decides which blocks are read back.
  std::int64_t turn = 0;
  std::int64_t chain = 0;  ///< of files that share space, each a clone of another; 0: none

  bool knows(std::int64_t block) const {
    const auto at = static_cast<std::size_t>(block);
    return at < digests.size() && digests[at] != KeyedHash::Digest{};
  }
};

/// What the writing of a data file has found out.
struct WrittenBlocks {
  BlockHashes hashes;
  std::int64_t compared = 0, equal = 0;  ///< blocks whose hash was known; and was the same
  std::int64_t looked = 0, alike = 0;    ///< the same with those of the last file of this number
  std::int64_t unchanged_bytes = 0;      ///< that were there, and were not written
};

/// Of one rank, for all its saves. Thread-safe.
class KnownBlocks {
 public:
  /// Of a file of this many bytes. At most 4,096 blocks in files of up to 1 GiB.
  static std::int64_t block_bytes(std::int64_t file_bytes);
  /// Hashes and checksums take 20 bytes a block. All files together take this at most; what is more
  /// is not kept.
  static constexpr std::int64_t most_bytes = std::int64_t{16} << 20;

  /// Hashes by it are of this object.
  const KeyedHash::Key& key();

  /// The hashes of a file that is about to be written over; here they are forgotten. Nothing if
  /// none are known, or if somebody may have changed the file.
  std::optional<BlockHashes> take(io::FileSystem&, const io::Path&);
  /// Those of a file that a committed save has written, as it is on the disk.
  struct File {
    io::Path path;
    io::Status status;
    int number = 0;             ///< of the data file
    std::int64_t sequence = 0;  ///< of the commit
  };
  void hold(const File&, BlockHashes);

  /// The file of the last checkpoint with this number, from which a new one may begin as a clone.
  /// Nothing if there is none, or if `most` files share its space.
  struct Original {
    File file;
    BlockHashes hashes;
  };
  std::optional<Original> newest(int number, int most);
  /// Whether nobody has touched it since.
  static bool is_unchanged(io::FileSystem&, const File&);
  /// A clone could not be made; after three in a row none is tried any more.
  void cloned(bool could);

  /// Of a file that is written now, one block in so many is to be hashed; 0: none.
  std::int64_t one_in(SkipUnchanged, std::int64_t file_bytes) const;
  /// A save has written over a file of an earlier checkpoint, or some save soon will. Before that
  /// nothing is hashed automatically, unless files can share space: then all is.
  void writes_over();
  void will_write_over();
  void may_share_space();
  /// Of the hashed blocks of a committed save that were known, so many were equal.
  void compared(std::int64_t blocks, std::int64_t equal);
  /// While only a sample is hashed: the hashes of the last file with this number. Blocks that are
  /// as they were there may be worth more hashes, even if no file is written over yet.
  std::optional<BlockHashes> sample_before(int number) const;
  void looked(std::int64_t blocks, std::int64_t alike);

 private:
  using Files = std::map<std::pair<std::uint64_t, std::uint64_t>, Original>;  // by device and inode
  void erase(Files::iterator) CAIRN_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::optional<KeyedHash::Key> key_ CAIRN_GUARDED_BY(mutex_);
  Files files_ CAIRN_GUARDED_BY(mutex_);
  std::int64_t bytes_ CAIRN_GUARDED_BY(mutex_) = 0;              // of the digests
  std::map<std::int64_t, int> chains_ CAIRN_GUARDED_BY(mutex_);  // how many files each has had
  int refused_ CAIRN_GUARDED_BY(mutex_) = 0;                     // clones in a row
  // What was found out for SkipUnchanged::automatic. First a few blocks of each file are compared;
  // if many of them are equal, all are; if few, none in the next saves.
  bool writes_over_ CAIRN_GUARDED_BY(mutex_) = false, all_ CAIRN_GUARDED_BY(mutex_) = false;
  bool will_write_over_ CAIRN_GUARDED_BY(mutex_) = false;
  int rest_ CAIRN_GUARDED_BY(mutex_) = 0;  // so many saves hash nothing
};

}  // namespace cairn::commit
