#pragma once
/// Whole inputs for the fuzz targets to begin with, as the library's own encoders write them.
#include <string>
#include <vector>

namespace cairn::fuzz {

struct Seed {
  std::string target, name, bytes;
};
std::vector<Seed> seeds();

}  // namespace cairn::fuzz
