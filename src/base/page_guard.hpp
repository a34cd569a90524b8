#pragma once
/// Finds out who writes to memory that should stay as it is, by the protection of its pages.
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

namespace cairn {

/// While it lives, whole pages of some memory are protected. The first write to one is noted; then
/// the page is as before, and the program goes on.
class PageGuard {
 public:
  struct Range {
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::size_t number = 0;  ///< the caller's
  };
  enum class Way {
    userfaultfd,  ///< sees the kernel's writes, too; needs a privilege
    /// The handler of SIGSEGV passes on what is no write to such memory. System calls into it fail
    /// with EFAULT.
    mprotect
  };
  /// Memory that cannot be protected is left as it is. Null if this is not possible in this way.
  static std::unique_ptr<PageGuard> make(std::span<const Range>, Way);
  virtual ~PageGuard() = default;
  /// Any thread: the number of the range to which somebody has written; nothing: nobody has.
  virtual std::optional<std::size_t> written() const = 0;
};

}  // namespace cairn
