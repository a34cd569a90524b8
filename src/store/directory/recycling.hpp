#pragma once
/// While a manager lives, its directory may hold files for the next save to overwrite.
#include <unistd.h>

#include "store/commit/recycled.hpp"
#include "store/location.hpp"

namespace cairn {

/// Of rank 0, which owns the directory.
class Recycling {
 public:
  /// The ownership outlives this. Throws where nothing can be recycled.
  Recycling(const Location& place, const commit::Ownership& owner)
      : files_(place.files), directory_(place.directory), naming_(place.naming), owner_(owner) {
    commit::prepare_recycling(*files_, directory_);
  }
  Recycling(const Recycling&) = delete;
  Recycling& operator=(const Recycling&) = delete;
  ~Recycling() {
    // A forked child's copy does nothing.
    if (::getpid() != process_) return;
    try {
      for (const auto& one : left) {
        commit::remove_left(*files_, directory_, naming_, one, owner_, nullptr);
      }
    } catch (...) {  // the next owner removes it
    }
    commit::clear_recycled(*files_, directory_, naming_);
  }

  /// In the order in which saves take them. A save that begins before its predecessor has let one
  /// go finds none, and so one is in reserve from then on; more than these would only take room.
  static constexpr std::size_t most_left = 2;
  std::vector<commit::LeftData> left;

  void forget_left(std::int64_t step) {
    std::erase_if(left, [&](const auto& one) { return one.step == step; });
  }

 private:
  std::shared_ptr<io::FileSystem> files_;
  io::Path directory_;
  commit::Naming naming_;
  const commit::Ownership& owner_;
  pid_t process_ = ::getpid();
};

}  // namespace cairn
