#pragma once
/// Memory that is taken and touched once, and used by one save after the other.
#include <cstdint>
#include <memory>
#include <span>

#include "cairn/background.hpp"

namespace cairn::io {

/// One thread at a time.
class StagingPool {
 public:
  explicit StagingPool(std::shared_ptr<StagingMemory> memory) : memory_(std::move(memory)) {}
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;
  ~StagingPool() { release(); }

  /// At least so many bytes, the same ones as before where they suffice; else what was in them is
  /// lost, and the new ones are touched here, so that no copy waits for the operating system. Empty
  /// where there is not so much memory; then the pool is empty too.
  std::span<std::byte> reserve(std::int64_t bytes);
  void release();
  /// Takes memory from there from now on. What it has from elsewhere is given back.
  void take_from(std::shared_ptr<StagingMemory>);
  /// Whether what it has was not taken away since: see StagingMemory::has.
  bool intact() const { return !begin_ || memory_->has(begin_); }

  std::int64_t bytes() const { return intact() ? bytes_ : 0; }
  std::int64_t most_bytes() const { return most_bytes_; }  ///< that it ever had

  /// While it lives, the memory stays. It may end on another thread.
  class Hold {
   public:
    Hold() = default;
    explicit Hold(std::shared_ptr<StagingMemory> memory) : memory_(std::move(memory)) {
      memory_->hold();
    }
    Hold(Hold&&) = default;
    Hold& operator=(Hold&& other) noexcept {
      end();
      memory_ = std::move(other.memory_);
      return *this;
    }
    ~Hold() { end(); }

   private:
    void end() {
      if (memory_) memory_->let_go();
      memory_ = nullptr;
    }
    std::shared_ptr<StagingMemory> memory_;
  };
  Hold hold() const { return Hold(memory_); }

 private:
  std::shared_ptr<StagingMemory> memory_;
  std::byte* begin_ = nullptr;
  std::int64_t bytes_ = 0, most_bytes_ = 0;
};

/// What the operating system could give to new allocations now, as far as it tells; else 0.
std::int64_t available_memory();

}  // namespace cairn::io
