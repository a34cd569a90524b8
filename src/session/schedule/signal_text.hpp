#pragma once
/// Names of signals for messages.
#include <string>

namespace cairn {

/// "SIGUSR1", "signal 63"
std::string signal_text(int signal);

}  // namespace cairn
