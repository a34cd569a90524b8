// Without libhdf5 no HDF5 file is made, and the error comes at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/checkpoint_manager.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"

namespace cairn {
namespace {

TEST(Hdf5Absent, IsSaidWhenTheManagerIsMade) {
  ManagerOptions options;
  options.write.file_system = std::make_shared<io::MemoryFileSystem>();
  options.store.format = Format::hdf5;
  try {
    CheckpointManager(serial_group(), "/run", options);
    FAIL() << "made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
    EXPECT_THAT(error.what(), test::Says("built without HDF5"));
  }
  options.read_only = true;
  options.write.file_system->create_directory("/run");
  CheckpointManager(serial_group(), "/run", options);  // reading needs none
}

}  // namespace
}  // namespace cairn
