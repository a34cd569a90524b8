#pragma once
/// Memory of a Kokkos memory space for the copies of asynchronous saves. Programs use
/// pinned_memory() of cairn/kokkos.hpp.
#include <Kokkos_Core.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cairn/background.hpp"
#include "cairn/error.hpp"
#include "cairn/kokkos/compat.hpp"

namespace cairn::kokkos {

/// There is one object for each space of the process. It frees all memory when Kokkos::finalize
/// begins, which first waits until no save reads the memory (a pending save needs it only until its
/// bytes are written). After that, taking memory is an error. Thread-safe.
template <class Space>
class SpaceMemory : public StagingMemory {
  static_assert(Kokkos::SpaceAccessibility<Kokkos::HostSpace, Space>::accessible);

 public:
  static const std::shared_ptr<SpaceMemory>& instance() {
    static const std::shared_ptr<SpaceMemory> memory(new SpaceMemory);
    return memory;
  }

  std::byte* take(std::size_t bytes) override {
    const std::scoped_lock lock(mutex_);
    if (ended_ || !Kokkos::is_initialized()) {
      throw Error(Code::invalid_argument,
                  ended_ ? "an asynchronous save wants memory of Kokkos after Kokkos::finalize"
                         : "an asynchronous save wants memory of Kokkos, which does not run",
                  "its pool lies in memory that a device copies to, and that is Kokkos' to give",
                  "Save between Kokkos::initialize and Kokkos::finalize, or give "
                  "AsyncOptions::memory.");
    }
    if (!hooked_) {
      Kokkos::push_finalize_hook([] { instance()->end(); });
      hooked_ = true;
    }
    try {
      Block block(Kokkos::view_alloc(Kokkos::WithoutInitializing, "cairn::copy of the state"),
                  bytes + page_bytes);
      auto* begin = block.data();
      const auto beyond = reinterpret_cast<std::uintptr_t>(begin) % page_bytes;
      if (beyond) begin += page_bytes - beyond;
      blocks_.emplace_back(reinterpret_cast<std::byte*>(begin), std::move(block));
      return blocks_.back().first;
    } catch (const std::exception&) {  // its type depends on Kokkos' version
      return nullptr;
    }
  }

  void give_back(std::byte* memory, std::size_t) override {
    const std::scoped_lock lock(mutex_);
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
      if (block->first != memory) continue;
      blocks_.erase(block);
      return;
    }
  }

  bool has(const std::byte* memory) const override {
    const std::scoped_lock lock(mutex_);
    for (const auto& [begin, block] : blocks_) {
      if (begin == memory) return true;
    }
    return false;
  }

  void hold() override {
    const std::scoped_lock lock(mutex_);
    ++held_;
  }
  void let_go() override {
    const std::scoped_lock lock(mutex_);
    if (--held_ == 0) free_.notify_all();
  }

 private:
  using Block = Kokkos::View<char*, Kokkos::LayoutRight, Space>;
  static constexpr std::size_t page_bytes = 4096;

  SpaceMemory() = default;

  void end() {
    std::unique_lock lock(mutex_);
    free_.wait(lock, [this] { return held_ == 0; });
    blocks_.clear();
    ended_ = true;
  }

  mutable std::mutex mutex_;
  std::condition_variable free_;
  std::vector<std::pair<std::byte*, Block>> blocks_;
  int held_ = 0;
  bool hooked_ = false, ended_ = false;
};

}  // namespace cairn::kokkos
