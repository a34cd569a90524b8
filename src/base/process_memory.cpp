#include "base/process_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>

namespace cairn {

// Not getrusage(): its peak includes that of the program that started this one.
std::int64_t peak_resident_bytes() {
  const int file = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char bytes[4096];
  ssize_t size = 0;
  do {
    size = ::read(file, bytes, sizeof bytes);
  } while (size < 0 && errno == EINTR);
  ::close(file);
  std::string_view text(bytes, size > 0 ? static_cast<std::size_t>(size) : 0);
  constexpr std::string_view word = "\nVmHWM:";
  const auto at = text.find(word);
  if (at == text.npos) return 0;
  text.remove_prefix(at + word.size());
  text.remove_prefix(std::min(text.find_first_not_of("\t "), text.size()));
  std::int64_t kibibytes = 0;
  std::from_chars(text.data(), text.data() + text.size(), kibibytes);
  return kibibytes * 1024;
}

}  // namespace cairn
