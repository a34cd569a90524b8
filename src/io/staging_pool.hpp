#pragma once
/// Memory that is taken and touched once, then used by one save after the other.
#include <cstdint>
#include <memory>
#include <span>

#include "cairn/background.hpp"

namespace cairn::io {

/// For one thread at a time.
class StagingPool {
 public:
  explicit StagingPool(std::shared_ptr<StagingMemory> memory) : memory_(std::move(memory)) {}
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;
  ~StagingPool() { release(); }

  /// At least this many bytes: the present ones if they suffice. Otherwise their content is lost,
  /// and the new ones are touched here, so that no copy waits for the operating system. Empty if
  /// there is not so much memory; then the pool is empty, too.
  std::span<std::byte> reserve(std::int64_t bytes);
  void release();
  /// Takes memory from this source from now on. Gives back memory from another source.
  void take_from(std::shared_ptr<StagingMemory>);
  /// Whether the memory was not taken away meanwhile: see StagingMemory::has.
  bool intact() const { return !begin_ || memory_->has(begin_); }

  std::int64_t bytes() const { return intact() ? bytes_ : 0; }
  std::int64_t most_bytes() const { return most_bytes_; }  ///< the most that it ever had

  /// While it lives, the memory stays. It may be destroyed on another thread.
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
  // Null: the pool is empty. With a source that may take memory away, valid only while intact().
  std::byte* begin_ = nullptr;
  std::int64_t bytes_ = 0, most_bytes_ = 0;
};

/// The bytes that the operating system could give to new allocations at present; 0 if it does not
/// tell.
std::int64_t available_memory();

}  // namespace cairn::io
