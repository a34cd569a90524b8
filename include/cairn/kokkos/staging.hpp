#pragma once
/// Reused memory for copies between a device and the host.
#include <Kokkos_Core.hpp>

#include <bit>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>

#include "cairn/kokkos/compat.hpp"

namespace cairn::kokkos {

/// One buffer of a memory space, kept between copies, because Kokkos fences everything when memory
/// is freed. The buffer is freed when Kokkos::finalize begins. Thread-safe: a thread that finds the
/// buffer taken gets one of its own.
template <class Space>
class StagingPool {
 public:
  using Buffer = Kokkos::View<char*, Kokkos::LayoutRight, Space>;

  static StagingPool& instance() {
    static StagingPool pool;
    return pool;
  }

  /// Returns a buffer of at least so many bytes, which work queued on exec may use.
  template <class Exec>
  Buffer take(const Exec& exec, std::size_t bytes) {
    {
      const std::scoped_lock lock(mutex_);
      if (kept_ && kept_->extent(0) >= bytes && device_ == device_number(exec)) {
        Buffer buffer = *kept_;
        kept_.reset();
        return buffer;
      }
      if (!hooked_) {
        Kokkos::push_finalize_hook([] { instance().clear(); });
        hooked_ = true;
      }
    }
    return Buffer(Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "cairn::staging"),
                  std::bit_ceil(bytes));
  }

  /// Gives back a buffer that take() returned. The caller has fenced exec before.
  template <class Exec>
  void give_back(const Exec& exec, Buffer buffer) {
    const std::scoped_lock lock(mutex_);
    if (kept_ && device_ == device_number(exec) && kept_->extent(0) >= buffer.extent(0)) return;
    kept_.emplace(std::move(buffer));
    device_ = device_number(exec);
  }

  void clear() {
    const std::scoped_lock lock(mutex_);
    kept_.reset();
  }

 private:
  std::mutex mutex_;
  std::optional<Buffer> kept_;
  int device_ = 0;
  bool hooked_ = false;
};

}  // namespace cairn::kokkos
