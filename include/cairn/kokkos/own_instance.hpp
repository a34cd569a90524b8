#pragma once
/// The instances on which threads of the library copy, beside what the program computes.
#include <Kokkos_Core.hpp>

#include <map>
#include <mutex>

#include "cairn/error.hpp"
#include "cairn/kokkos/compat.hpp"

namespace cairn::kokkos {

/// One instance for each device, made when it is first needed: its work waits for no other's. They
/// go when Kokkos::finalize begins. Thread-safe.
template <class Exec>
class OwnInstances {
 public:
  static OwnInstances& instance() {
    static OwnInstances instances;
    return instances;
  }

  /// Makes the one for the device of `like`, in the caller's thread.
  void make(const Exec& like) {
    const std::scoped_lock lock(mutex_);
    if (made_.count(device_number(like))) return;
    if (!hooked_) {
      Kokkos::push_finalize_hook([] { instance().clear(); });
      hooked_ = true;
    }
    made_.emplace(device_number(like), another_instance(like));
  }

  /// Calls use(instance) in any thread, for one at a time. `use` fences the instance.
  template <class Use>
  void with(int device, const Use& use) {
    const std::scoped_lock lock(mutex_);
    const auto found = made_.find(device);
    if (found == made_.end()) {
      throw Error(Code::invalid_argument, "a View is read after Kokkos::finalize",
                  "a save with until = released was not released before",
                  "Call release() on its handle before Kokkos ends.");
    }
    use(found->second);
  }

 private:
  void clear() {
    const std::scoped_lock lock(mutex_);
    made_.clear();
  }

  std::mutex mutex_;
  std::map<int, Exec> made_;  // by device
  bool hooked_ = false;
};

}  // namespace cairn::kokkos
