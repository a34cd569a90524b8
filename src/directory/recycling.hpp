#pragma once
/// While a manager lives, its directory may hold files for the next save to overwrite.
#include <unistd.h>

#include "commit/recycled.hpp"
#include "job/job.hpp"

namespace cairn {

/// Of rank 0, which owns the directory.
class Recycling {
 public:
  /// Throws where nothing can be recycled.
  explicit Recycling(const Job& job)
      : files_(job.files), directory_(job.directory), naming_(job.naming) {
    commit::prepare_recycling(*files_, directory_);
  }
  Recycling(const Recycling&) = delete;
  Recycling& operator=(const Recycling&) = delete;
  ~Recycling() {
    // A forked child's copy does nothing.
    if (::getpid() == process_) commit::clear_recycled(*files_, directory_, naming_);
  }

 private:
  std::shared_ptr<io::FileSystem> files_;
  io::Path directory_;
  commit::Naming naming_;
  pid_t process_ = ::getpid();
};

}  // namespace cairn
