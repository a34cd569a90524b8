#include "session/schedule/signal_text.hpp"

#include <csignal>

#include "base/text.hpp"

namespace cairn {

std::string signal_text(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGUSR2:
      return "SIGUSR2";
    case SIGINT:
      return "SIGINT";
    case SIGHUP:
      return "SIGHUP";
    case SIGQUIT:
      return "SIGQUIT";
    case SIGALRM:
      return "SIGALRM";
    case SIGXCPU:
      return "SIGXCPU";
    case SIGCONT:
      return "SIGCONT";
    default:
      return cat("signal ", signal);
  }
}

}  // namespace cairn
