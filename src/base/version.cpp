#include "cairn/version.hpp"

#include "build_facts.hpp"

namespace cairn {

const char* version() { return CAIRN_VERSION; }

std::vector<std::pair<std::string, std::string>> build_options() { return {CAIRN_BUILD_FACTS}; }

}  // namespace cairn
