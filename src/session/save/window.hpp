#pragma once
/// The application's memory from save_async to SaveHandle::release (Until::released): the writing
/// thread takes pieces from it one after the other, and release() copies what it has not taken yet.
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "base/page_guard.hpp"
#include "cairn/slice_memory.hpp"
#include "exchange/chunks.hpp"
#include "io/staging_pool.hpp"

namespace cairn {

/// The application's memory is read only with the mutex held, and only while the window is open. So
/// it is nobody else's when release() or close() has returned. Each chunk is copied once, and what
/// is checksummed and written is that copy.
///
/// A window is opened by the caller's thread and closed by the writing thread, or by the caller's
/// if nothing is written. release() may be called by any thread, at any time.
class Window {
 public:
  /// A piece of the state, as it is in its file.
  struct Piece {
    std::string key = {};  ///< the tensor's
    /// Keeps what belongs to the library, such as a View, until close().
    std::shared_ptr<const SliceMemory> owner;
    const std::byte* run = nullptr;  ///< the bytes, if they are contiguous
    /// If they are not: any thread may read this part of the slice.
    std::shared_ptr<const SliceMemory> memory = nullptr;
    Box part = {};
    std::int64_t bytes = 0, element_bytes = 1;
    std::int64_t chunk_bytes = 0;  ///< set by add()
  };
  /// Memory for a copy; empty if there is not so much.
  struct Room {
    std::span<std::byte> bytes;
    io::StagingPool::Hold held = {};
  };
  using TakeRoom = std::function<Room(std::int64_t bytes)>;

  // The caller's thread, while no task works on the save:
  /// In the order in which they will be written.
  void add(Piece);
  /// The size of a chunk's copy, which open() needs.
  std::int64_t buffer_bytes() const { return buffer_bytes_; }
  /// Takes checksums of a part of each chunk, another part with each `round`; of all bytes if they
  /// are few, and of fewer chunks of memory that must be gathered. `buffer`: for copies of one
  /// chunk until the window is closed. `take_room` is called by release(), and no more after the
  /// window was closed. `protects`: write-protects whole pages, and takes the checksums of the rest
  /// of the contiguous pieces.
  void open(std::uint64_t round, Room buffer, TakeRoom take_room, bool protects);
  /// Forgets the pieces.
  void clear();

  // The writing thread:
  /// Gives the bytes of the next piece to `take`, in order; `stay`: they do not change until
  /// close(). Throws invalid_argument if the piece has changed since the window was opened, as far
  /// as the checksums tell, or if somebody has written to protected memory.
  using Take = std::function<void(std::span<const std::byte>, bool stay)>;
  void write_next(const Take&);

  // Any thread:
  /// Copies what was not written yet, and returns: the memory is the application's again. If there
  /// is no memory for the copy, waits until the rest is written. Does nothing if the window is not
  /// open.
  void release();
  /// The save's bytes are written, or never will be: neither the pieces nor the copy of the rest is
  /// read any more.
  void close();
  /// How long release() has held its caller, in seconds.
  double held_seconds() const;

  /// Closes the window of a save when it ends, however it ends.
  class Open {
   public:
    Open() = default;
    explicit Open(Window& window) : window_(&window) {}
    Open(Open&& other) noexcept : window_(std::exchange(other.window_, nullptr)) {}
    Open& operator=(Open&& other) noexcept {
      end();
      window_ = std::exchange(other.window_, nullptr);
      return *this;
    }
    ~Open() { end(); }
    void end() {
      if (window_) std::exchange(window_, nullptr)->close();
    }

   private:
    Window* window_ = nullptr;
  };

 private:
  struct Chunk {
    Box box;  // of a piece that is not contiguous
    std::int64_t offset = 0, bytes = 0;
  };
  /// The chunks of one piece, one after the other.
  class Chunks {
   public:
    explicit Chunks(const Piece&);
    std::optional<Chunk> next();
    std::uint64_t count() const;

   private:
    const Piece* piece_;
    plan::ChunkCut cut_;  // of a piece that is not contiguous
    std::int64_t number_ = 0, offset_ = 0;
  };
  /// The part of a chunk whose checksum is taken.
  struct Sample {
    Box box;  // of a piece that is not contiguous
    std::size_t begin = 0, size = 0;
  };
  struct Taken {
    Chunk chunk;
    std::span<const std::byte> bytes;
    bool stays = false;  // it lies in the copy of the rest
  };

  void take_sums(const Piece&, std::uint64_t& number);
  std::optional<Sample> sample_of(const Piece&, const Chunk&, std::uint64_t number) const;
  std::uint32_t sum_of(const Piece&, const Chunk&, const Sample&,
                       std::span<const std::byte> bytes_of_chunk) const;
  bool copy_rest() CAIRN_REQUIRES(mutex_);
  std::optional<Taken> take_chunk();
  void check(const Piece&, const Taken&);
  void check_guard() const;
  void protect();
  void end_guard() CAIRN_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::condition_variable closed_;
  bool is_open_ CAIRN_GUARDED_BY(mutex_) = false, is_copied_ CAIRN_GUARDED_BY(mutex_) = false;
  TakeRoom take_room_ CAIRN_GUARDED_BY(mutex_);
  // How far the writing thread is: the piece, its next chunks, its bytes that were taken, and, once
  // the rest was copied, where the next bytes lie in the copy.
  std::size_t next_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::optional<Chunks> chunks_ CAIRN_GUARDED_BY(mutex_);
  std::int64_t taken_ CAIRN_GUARDED_BY(mutex_) = 0;
  Room rest_ CAIRN_GUARDED_BY(mutex_);
  std::int64_t rest_at_ CAIRN_GUARDED_BY(mutex_) = 0;
  double held_seconds_ CAIRN_GUARDED_BY(mutex_) = 0;
  // While memory is protected; and the piece to which somebody has written, when it no longer is.
  std::unique_ptr<PageGuard> guard_ CAIRN_GUARDED_BY(mutex_);
  bool refuses_calls_ CAIRN_GUARDED_BY(mutex_) = false;  // of the system: mprotect does that
  std::optional<std::size_t> broken_ CAIRN_GUARDED_BY(mutex_);

  // They change only while the window is not open.
  std::vector<Piece> pieces_;
  std::int64_t bytes_ = 0, buffer_bytes_ = 0;
  std::uint64_t round_ = 0, chunks_in_all_ = 0;
  bool protects_ = false;
  std::vector<std::uint32_t> sums_;  // of the samples, in their order
  // While it is open, used by the writing thread only: its buffer; the numbers of its next piece,
  // chunk and sample.
  Room buffer_;
  std::size_t written_ = 0;
  std::uint64_t chunk_ = 0;
  std::size_t sum_ = 0;
};

}  // namespace cairn
