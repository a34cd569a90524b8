#pragma once
/// While a manager lives, its directory may hold files for the next save to overwrite.
#include <unistd.h>

#include "commit/recycled.hpp"
#include "job/job.hpp"

namespace cairn {

/// Of rank 0, which owns the directory.
class Recycling {
 public:
  /// The ownership outlives this. Throws where nothing can be recycled.
  Recycling(const Job& job, const commit::Ownership& owner)
      : files_(job.files), directory_(job.directory), naming_(job.naming), owner_(owner) {
    commit::prepare_recycling(*files_, directory_);
  }
  Recycling(const Recycling&) = delete;
  Recycling& operator=(const Recycling&) = delete;
  ~Recycling() {
    // A forked child's copy does nothing.
    if (::getpid() != process_) return;
    try {
      if (left) commit::remove_left(*files_, directory_, naming_, *left, owner_, nullptr);
    } catch (...) {  // the next owner removes it
    }
    commit::clear_recycled(*files_, directory_, naming_);
  }

  std::optional<commit::LeftData> left;

 private:
  std::shared_ptr<io::FileSystem> files_;
  io::Path directory_;
  commit::Naming naming_;
  const commit::Ownership& owner_;
  pid_t process_ = ::getpid();
};

}  // namespace cairn
