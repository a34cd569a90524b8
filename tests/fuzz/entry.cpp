// What libFuzzer calls: the one target of this program.
#include "fuzz/bounded.hpp"

namespace {

void tell() {
  const auto most = cairn::fuzz::most_taken();
  std::fprintf(stderr, "stat::most_live_bytes: %lld of an input of %lld\n",
               static_cast<long long>(most.live), static_cast<long long>(most.size));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static const bool told = std::atexit(tell) == 0;
  if (!told) cairn::fuzz::wrong("nothing can be said at the end");
  cairn::fuzz::read_bounded(cairn::fuzz::targets().at(0),
                            {reinterpret_cast<const char*>(data), size});
  return 0;
}
