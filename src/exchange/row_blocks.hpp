#pragma once
/// Memory for blocks of rows.
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cairn {

/// Lends memory, and may keep what comes back for the next save or restore: to have the operating
/// system clear as much anew takes about as long as to exchange the rows. One thread takes; what
/// was taken comes back on any thread, also after the end of this object.
class RowBlocks {
 public:
  explicit RowBlocks(bool keeps);
  ~RowBlocks();
  RowBlocks(const RowBlocks&) = delete;
  RowBlocks& operator=(const RowBlocks&) = delete;

  /// At least so many bytes, with anything in them; null for none. Throws no_space.
  std::shared_ptr<std::byte> take(std::int64_t bytes);
  /// Gives back to the system what was not taken since the last call.
  void let_go_unused();

 private:
  struct Spares;
  std::shared_ptr<Spares> spares_;
};

}  // namespace cairn
