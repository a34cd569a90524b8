#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <vector>

namespace cairn {

/// While it lives, /dev/null is in the place of those of standard input, output and error that are
/// closed. Otherwise a file that MPI or HDF5 opens would get their number, and the program's output
/// would go into it.
class StandardNumbers {
 public:
  StandardNumbers() {
    for (int number = 0; number < 3; ++number) {
      if (::fcntl(number, F_GETFD) >= 0) continue;
      const int held = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      if (held >= 0) held_.push_back(held);
    }
  }
  ~StandardNumbers() {
    for (const int held : held_) ::close(held);
  }
  StandardNumbers(const StandardNumbers&) = delete;
  StandardNumbers& operator=(const StandardNumbers&) = delete;

 private:
  std::vector<int> held_;
};

}  // namespace cairn
