// A server of objects in memory for bucket_bench and scripts/campaign soak: prints its port, and
// ends with its standard input.
//
//   s3_server [MIB THAT ARE TOUCHED AT ONCE]
#include "support/s3_server.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>

int main(int argc, char** argv) {
  try {
    const cairn::test::S3Server server({.reserve_bytes = argc > 1 ? std::atoll(argv[1]) << 20 : 0});
    std::printf("%d\n", server.port());
    std::fflush(stdout);
    while (std::getchar() != EOF) continue;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "s3_server: %s\n", error.what());
    return 1;
  }
}
