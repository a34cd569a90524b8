#pragma once
/// Memory for blocks of rows.
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cairn {

/// Lends memory, and may keep what comes back for the next save or restore: the operating system
/// takes about as long to clear new memory as the exchange of the rows takes. One thread takes
/// memory; it comes back on any thread, also after the end of this object.
class RowBlocks {
 public:
  explicit RowBlocks(bool keeps);
  ~RowBlocks();
  RowBlocks(const RowBlocks&) = delete;
  RowBlocks& operator=(const RowBlocks&) = delete;

  /// At least this many bytes, not initialised; null for none. Throws no_space.
  std::shared_ptr<std::byte> take(std::int64_t bytes);
  /// Gives the memory back to the system that was not taken since the last call.
  void let_go_unused();

 private:
  struct Spares;
  std::shared_ptr<Spares> spares_;
};

}  // namespace cairn
