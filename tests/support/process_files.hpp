#pragma once
/// The files of one process, on a disk that several processes share. The process can be killed or
/// stopped at any of its operations, have errors of its own, and have its own kind of locks.
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cairn/error.hpp"
#include "support/forwarding_files.hpp"
#include "testing/memory.hpp"

namespace cairn::test {

enum class Locks {
  kernel,   ///< the disk's own locks
  granted,  ///< everybody gets the lock, as where locks are local to a node
  none      ///< locks are unsupported
};

/// An error to come.
struct Mishap {
  std::string kind;            ///< as in io::Fault, or "status"; empty: any that changes something
  std::string path_part = {};  ///< paths that contain this; empty: all
  Code code = Code::io;
  std::size_t skip = 0;      ///< so many of this kind succeed first
  std::size_t times = 1;     ///< then so many fail
  bool carried_out = false;  ///< carried out and reported as failed; of a write, the first half
  std::size_t then_any = 0;  ///< then so many operations of any kind fail
};

/// Thread-safe. Operations that change something are counted, and each is a yield point of the
/// seeded scheduler.
class ProcessFiles : public ForwardingFiles, public std::enable_shared_from_this<ProcessFiles> {
 public:
  explicit ProcessFiles(std::shared_ptr<io::MemoryFileSystem> disk, Locks locks = Locks::kernel);

  /// Where a process stops: at the first operation after so many of this kind (kinds of io::Fault;
  /// empty: any that changes something).
  struct Place {
    std::size_t operations = 0;
    std::string kind = {};
  };
  /// The process dies at that place: from then on each operation throws Crashed.
  void kill_after(Place);
  /// The process stops at that place until resume(): each of its threads blocks in its next
  /// operation.
  void pause_after(Place);
  void resume();
  /// Tells wait_paused() that the process will make no more operations.
  void end();
  /// Waits until the process has stopped; returns false if it has ended instead.
  bool wait_paused();
  bool was_paused() const;

  /// Called before each operation that changes something, before anything else.
  void set_observer(std::function<void(const std::string& operation)> observer) {
    observer_ = std::move(observer);
  }
  /// From now on operations of this kind ("sync" or "sync_directory") do nothing and report no
  /// error.
  void neglect(std::string kind);
  void arm(Mishap);
  void disarm();
  std::size_t mishaps() const;  ///< that have happened

  std::unique_ptr<io::Lock> try_lock(const io::Path&) override;

 protected:
  void around(const char* kind, const io::Path&, bool changes,
              const std::function<void()>& operation) override;
  std::unique_ptr<io::File> opened(const io::Path&, std::unique_ptr<io::File>,
                                   bool writable) override;

 private:
  class ProcessFile;
  /// Returns whether the operation is to be carried out and reported as failed; throws for a plain
  /// mishap.
  bool before(const char* kind, const io::Path&, bool changes);
  bool neglects(const char* kind) const;
  void stand_still(std::unique_lock<std::mutex>&, const char* kind, bool changes);
  static bool is_reached(std::optional<Place>&, const char* kind);

  Locks locks_;
  std::function<void(const std::string&)> observer_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Place> kill_at_, pause_at_;
  bool dead_ = false, paused_ = false, was_paused_ = false, ended_ = false;
  std::vector<Mishap> armed_;
  std::string neglected_;
  std::size_t any_left_ = 0, mishaps_ = 0;
};

}  // namespace cairn::test
