#include "base/host_name.hpp"

#include <unistd.h>

namespace cairn {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace cairn
