// cairn: the tool. Exit status 0: done (verify: whole). 1: something is damaged. 2: an error, or
// wrong usage (verify: cannot tell).
#include <csignal>

#include "cli/command.hpp"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // `cairn … | head` ends without words
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error with words
  return cairn::cli::run_tool(argc, argv, cairn::io::posix_file_system());
}
