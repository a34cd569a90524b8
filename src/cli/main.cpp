// The cairn tool. Exit status 0: done (verify: whole). 1: something is damaged. 2: an error, or
// wrong usage (verify: cannot tell).
#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "cli/command.hpp"

// Keeps closed standard streams closed: otherwise the next file that is opened would become
// standard output for the rest of the program. Writing to or reading from them still fails.
static void keep_closed_ones() {
  for (int number = 0; number < 3; ++number) {
    if (::fcntl(number, F_GETFD) >= 0) continue;
    if (::open("/dev/null", number == 0 ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

int main(int argc, char** argv) {
  keep_closed_ones();
  std::signal(SIGPIPE, SIG_DFL);  // `cairn … | head` ends without a message
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is reported as an error
  return cairn::cli::run_tool(argc, argv, {nullptr, {}});
}
