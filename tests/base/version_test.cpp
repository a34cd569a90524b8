// The version: of the headers, for the preprocessor, and of the library at run time.
#include "cairn/version.hpp"

#include <gmock/gmock.h>

#include "base/text.hpp"

namespace cairn {
namespace {

TEST(Version, OfTheHeadersIsThatOfTheLibrary) {
  EXPECT_EQ(version(),
            cat(CAIRN_VERSION_MAJOR, ".", CAIRN_VERSION_MINOR, ".", CAIRN_VERSION_PATCH));
}

constexpr int major = CAIRN_VERSION_MAJOR, minor = CAIRN_VERSION_MINOR, patch = CAIRN_VERSION_PATCH;
static_assert(CAIRN_VERSION_GE(major, minor, patch));
static_assert(!CAIRN_VERSION_GE(major, minor, patch + 1));
static_assert(!CAIRN_VERSION_GE(major, minor + 1, 0));
static_assert(!CAIRN_VERSION_GE(major + 1, 0, 0));
static_assert(minor == 0 || CAIRN_VERSION_GE(major, minor - 1, patch + 1));

TEST(Version, TheBuildTellsWhatItWas) {
  std::vector<std::string> names;
  for (const auto& [name, value] : build_options()) {
    names.push_back(name);
    EXPECT_FALSE(value.empty() && name != "compiler_flags") << name;
    if (name == "commit" && value != "unknown") {
      EXPECT_THAT(value, testing::MatchesRegex("[0-9a-f]+[+]?"));
      EXPECT_GE(value.size(), 40U);
    }
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"compiler", "build_type", "compiler_flags", "commit",
                                            "mpi", "kokkos", "hdf5", "fortran", "python", "s3",
                                            "zlib", "zstd", "blosc", "protobuf", "snappy", "isal",
                                            "shared_libraries", "sanitizers"}));
}

}  // namespace
}  // namespace cairn
