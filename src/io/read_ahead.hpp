#pragma once
/// The reader of POSIX files. Threads fetch what comes next, past the page cache. So the disk,
/// which is idle while it waits for the next request, works on while the caller checks, packs,
/// exchanges or waits for other ranks. MPI stays on the caller's thread.
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "io/descriptor.hpp"
#include "io/direct_io.hpp"
#include "io/file_system.hpp"
#include "io/reader.hpp"

namespace cairn::io {

/// Extents become blocks: bytes that one system call can fetch, into a slot of a ring or, where
/// pages of the file are pages of the memory, straight into place. The threads report no errors. A
/// plain read, when its turn comes, gets what is in the page cache, what the file system refuses,
/// and what failed or ended early. So one place decides what is reported.
class ReadAhead : public Reader {
 public:
  struct Opened {
    std::unique_ptr<File> file;
    int descriptor;
  };
  using Open = std::function<Opened(const Path&)>;  // any thread

  /// Null if a plain reader does as well, or if no thread can be started.
  static std::unique_ptr<Reader> make(Open, std::vector<Path> files, std::vector<Extent>, DirectIo);
  ~ReadAhead() override;

  std::uint32_t next() override;

 private:
  /// A file, open from the fetch of its first block until its last block is done. open() opens it
  /// with the mutex held; after open() no mutex is needed to read.
  struct Source {
    Mutex mutex;
    std::size_t blocks_left = 0;
    std::optional<Opened> opened;
    std::optional<Descriptor> direct;
    std::exception_ptr error CAIRN_GUARDED_BY(mutex);
  };
  struct Block {
    std::size_t file;
    std::int64_t begin, end;
    std::byte* place;  ///< null: it takes a slot
    // Used by the thread that fetches it, then by the caller; `done` changes with mutex_ held.
    int slot = -1;
    bool done = false;  ///< fetched, or left to a plain read
    bool fetched = false;
  };

  ReadAhead(Open, std::vector<Path>, std::vector<Extent>, DirectIo);
  void cut();
  void add(const Extent&, std::int64_t begin, std::int64_t end, std::byte* place);
  bool joins(const Extent&, std::int64_t begin) const;

  // Called by the threads.
  void work();
  bool may_begin() const CAIRN_REQUIRES(mutex_);
  void fetch_next(MutexLock&) CAIRN_REQUIRES(mutex_);
  bool fetch(const Block&, std::byte* slot);
  bool fetch_direct(Source&, const Block&, std::byte* slot);
  Source& open(std::size_t file);

  // Called by the caller.
  const Block& wait_for_block();
  void finish_blocks(std::size_t end);
  std::uint32_t take(const Block&, std::int64_t begin, std::int64_t end, std::byte* to,
                     std::uint32_t crc);

  const Open open_;
  const std::vector<Path> paths_;
  const std::vector<Extent> extents_;
  const DirectIo mode_;
  std::vector<std::size_t> first_block_;  // of each extent
  // One for each path.
  std::vector<Source> sources_;
  // Null: direct I/O is off, or there was no ring.
  Ring ring_;
  CheckedRead read_;
  std::size_t turn_ = 0;  // the next extent

  Mutex mutex_;
  std::condition_variable may_fetch_, fetched_;
  std::vector<Block> blocks_;
  std::size_t fetching_ CAIRN_GUARDED_BY(mutex_) = 0;  // the next block to be fetched
  std::size_t current_ = 0;  // the caller's block; only the caller changes it, with the mutex
  // Slots of the ring that no block has.
  std::vector<int> free_ CAIRN_GUARDED_BY(mutex_);
  bool stop_ CAIRN_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace cairn::io
