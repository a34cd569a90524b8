#include "io/new_mode.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/xattr.h>
#endif

#include <charconv>
#include <optional>
#include <string_view>

#include "io/descriptor.hpp"

namespace cairn::io {
namespace {

// No call tells the umask without changing it, and all threads would see the change.
std::optional<mode_t> told_umask() {
  const Descriptor file(open_file("/proc/self/status", O_RDONLY));
  if (file.get() < 0) return std::nullopt;
  // The line is among the first of the file.
  char bytes[4096];
  const auto size = retried([&] { return ::read(file.get(), bytes, sizeof bytes); });
  const std::string_view text(bytes, size > 0 ? static_cast<std::size_t>(size) : 0);
  constexpr std::string_view word = "\nUmask:\t";
  const auto at = text.find(word);
  if (at == text.npos) return std::nullopt;
  mode_t mask = 0;
  const auto* digits = text.data() + at + word.size();
  const auto read = std::from_chars(digits, text.data() + text.size(), mask, 8);
  return read.ec == std::errc() ? std::optional(mask) : std::nullopt;
}

mode_t current_umask() {
  if (const auto told = told_umask()) return *told;
  const auto mask = ::umask(077);  // until the next line, files of other threads are too private
  ::umask(mask);
  return mask;
}

bool has_acl([[maybe_unused]] int descriptor) {
#ifdef __linux__
  return ::fgetxattr(descriptor, "system.posix_acl_access", nullptr, 0) > 0;
#else
  return false;
#endif
}

}  // namespace

bool close_as_new(int descriptor, mode_t mode) {
  // Permissions that a new file of this process would not have.
  const auto excess = mode & 0777 & ~(0666 & ~current_umask());
  if (excess == 0 || has_acl(descriptor)) return true;
  return ::fchmod(descriptor, mode & 07777 & ~excess) == 0;
}

}  // namespace cairn::io
