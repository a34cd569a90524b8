#include "base/host_name.hpp"

#include <unistd.h>

#include <fstream>
#include <locale>

namespace cairn {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

std::string boot_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  file.imbue(std::locale::classic());
  std::string text;
  std::getline(file, text);
  return text;
}

}  // namespace cairn
