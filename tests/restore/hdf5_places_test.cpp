// Each HDF5 file is whole in itself: only its name says which checkpoint it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "testing/memory.hpp"
#include "tools/verify.hpp"

namespace cairn {
namespace {

TEST(Hdf5Places, FilesThatChangedPlacesAreDamagedAndNotRestored) {
  set_log_sink({});
  const auto files = std::make_shared<io::MemoryFileSystem>();
  ManagerOptions options;
  options.write.file_system = files;
  options.store.format = Format::hdf5;
  double u = 0;
  State state;
  state.add("u", u);
  {
    CheckpointManager manager(serial_group(), "/run", options);
    for (const auto step : {5, 6, 7}) u = step, manager.save(step, state);
  }
  files->rename("/run/ckpt-7.h5", "/run/else");
  files->rename("/run/ckpt-6.h5", "/run/ckpt-7.h5");
  files->rename("/run/else", "/run/ckpt-6.h5");
  for (const int step : {6, 7}) {
    const auto checked = verify_checkpoint(*files, cat("/run/ckpt-", step));
    EXPECT_EQ(checked.verdict(), Verdict::damaged);
    ASSERT_FALSE(checked.findings.empty());
    EXPECT_THAT(checked.findings[0].what, testing::HasSubstr(cat("holds ckpt-", 13 - step)));
  }
  CheckpointManager manager(serial_group(), "/run", options);
  const auto report = manager.restore_latest(state);
  EXPECT_EQ(report->step, 5);
  EXPECT_EQ(u, 5);
  EXPECT_EQ(report->skipped.size(), 2u);
  try {
    manager.restore(7, state);
    ADD_FAILURE() << "restored " << u;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::data_loss);
    EXPECT_THAT(error.what(), testing::HasSubstr("the file holds ckpt-6"));
  }
  // Under any other name it is what it was.
  for (const auto* name : {"final", "best-1"}) {
    files->rename("/run/ckpt-5.h5", cat("/run/", name, ".h5"));
    EXPECT_EQ(verify_checkpoint(*files, cat("/run/", name)).verdict(), Verdict::whole) << name;
    files->rename(cat("/run/", name, ".h5"), "/run/ckpt-5.h5");
  }
}

}  // namespace
}  // namespace cairn
