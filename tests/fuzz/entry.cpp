// What libFuzzer calls: the one target of this program.
#include "fuzz/hostile.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  cairn::fuzz::targets().at(0).read({reinterpret_cast<const char*>(data), size});
  return 0;
}
