#pragma once
/// The files of one rank on a disk that all ranks share; the k-th of all operations fails.
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/limited.hpp"
#include "support/forwarding_files.hpp"
#include "testing/memory.hpp"

namespace cairn::campaign {

/// What happens to an operation. Looks and reads are operations, too.
enum class FaultKind {
  io,              ///< EIO
  no_space,        ///< ENOSPC, for operations that change something
  quota,           ///< EDQUOT, likewise
  stale,           ///< ESTALE
  read_only,       ///< EROFS, for operations that change something
  short_write,     ///< the first half of the bytes arrives, then ENOSPC
  short_read,      ///< the first half of the bytes arrives, then EIO
  done_but_fails,  ///< it is carried out, and EIO reported
  slow,            ///< it is carried out, later than all others that are under way
  stuck,           ///< it is carried out long after its caller has given up waiting
  broken,          ///< EIO, and so do all that follow
  full             ///< ENOSPC, and so do all that follow and change something
};
const std::vector<FaultKind>& fault_kinds();
const char* name_of(FaultKind);
/// Throws invalid_argument for an unknown name.
FaultKind fault_kind(const std::string& name);

struct InjectedFault {
  FaultKind kind = FaultKind::io;
  std::size_t at = 0;  ///< which operation, from 0 on
};

struct FileOperation {
  std::string kind, path;
  bool changes = false;
};
/// Whether an operation can fail in this way.
bool applies(FaultKind, const FileOperation&);

/// The faults of all ranks' operations, which are numbered in the order in which they come.
/// Thread-safe.
class FaultScript {
 public:
  /// Operations of this kind ("sync" or "sync_directory"; empty: none) are never carried out, and
  /// report success.
  explicit FaultScript(std::string neglected = {}) : neglected_(std::move(neglected)) {}
  bool neglects(const char* kind) const { return neglected_ == kind; }
  /// Operations are numbered from here on.
  void begin(std::vector<InjectedFault>);
  /// Ends the faults; stuck operations go on.
  void end();
  std::vector<FileOperation> operations() const;  ///< since begin()
  std::vector<std::string> happened() const;      ///< faults, as "io of rename /run/a"

  /// For FaultyFiles. Returns the fault of this operation, if any; a stuck operation returns when
  /// it goes on.
  std::optional<FaultKind> next(FileOperation, io::LimitedFileSystem*);

 private:
  const std::string neglected_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<InjectedFault> faults_;
  std::vector<FileOperation> operations_;
  std::vector<std::string> happened_;
  bool active_ = false;
};

/// Thread-safe.
class FaultyFiles : public test::ForwardingFiles {
 public:
  FaultyFiles(std::shared_ptr<io::FileSystem> disk, std::shared_ptr<FaultScript> script);
  /// Sets the file system that stops waiting for stuck operations. Without it nothing is stuck, nor
  /// where data is read ahead, for which nobody stops waiting.
  void wait_through(std::weak_ptr<io::LimitedFileSystem> limited) { limited_ = std::move(limited); }

  const io::FileSystem* identity() const override { return files_->identity(); }
  std::unique_ptr<io::Reader> read_ahead(std::vector<io::Path> files, std::vector<io::Extent>,
                                         DirectIo) override;
  bool has_one_name(const io::Path&) override;

 protected:
  void around(const char* kind, const io::Path&, bool changes,
              const std::function<void()>& operation) override;
  std::unique_ptr<io::File> opened(const io::Path&, std::unique_ptr<io::File>,
                                   bool writable) override;

 private:
  class FaultyFile;

  std::shared_ptr<FaultScript> script_;
  std::weak_ptr<io::LimitedFileSystem> limited_;
  std::unique_ptr<FaultyFiles> patient_;  // the same, for readers that never stop waiting
};

}  // namespace cairn::campaign
