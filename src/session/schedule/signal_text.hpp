#pragma once
/// Signals as people read them.
#include <string>

namespace cairn {

/// "SIGUSR1", "signal 63"
std::string signal_text(int signal);

}  // namespace cairn
