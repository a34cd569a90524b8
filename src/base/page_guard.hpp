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
  /// How many bytes of a range lie before its first whole page, and how many behind its last; all
  /// before, if it has none.
  struct Edges {
    std::size_t front = 0, back = 0;
  };
  static Edges edges_of(const std::byte* begin, std::size_t bytes);
  /// Memory that cannot be protected is left as it is. Null if this is not possible in this way.
  static std::unique_ptr<PageGuard> make(std::span<const Range>, Way);
  virtual ~PageGuard() = default;
  /// Any thread: the number of the range to which somebody has written; nothing: nobody has.
  virtual std::optional<std::size_t> written() const = 0;
};

}  // namespace cairn
