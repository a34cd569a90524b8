// An export that replaces safetensors files, and a crash at any instant.
#include <gtest/gtest.h>

#include <map>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "store/contents/contents_reader.hpp"
#include "testing/memory.hpp"
#include "tools/safetensors.hpp"

namespace cairn {
namespace {

using Disk = std::shared_ptr<io::MemoryFileSystem>;
constexpr const char* index_file = "/out/m.safetensors.index.json";

// Exports two tensors of this step over what is there, `each` tensors to a file.
void put(const Disk& disk, int step, int each) {
  std::vector<double> u(40, step), v(40, 10 * step);
  State state;
  state.add("u", whole(u.data(), {40})).add("v", whole(v.data(), {40}));
  ManagerOptions options;
  options.write.file_system = disk;
  CheckpointManager(serial_group(), "/run", options).save(step, state);
  ConvertOptions how;
  how.overwrite = true;
  how.max_shard_bytes = 330 * each;
  export_safetensors(open_checkpoint({disk, cat("/run/ckpt-", step)}), {disk, "/out/m.safetensors"},
                     "", how, {});
}

// The step of the exported files.
int step_of(const Disk& disk) {
  disk->create_directory("/back");
  import_safetensors({disk, index_file}, {disk, "/back/ckpt-1"}, "", {}, {});
  const BundleReader back("/back/ckpt-1", disk);
  std::vector<double> all;
  for (const char* key : {"u", "v"}) {
    const auto bytes = back.read(key);
    const auto* values = reinterpret_cast<const double*>(bytes.data());
    all.insert(all.end(), values, values + 40);
  }
  const auto step = static_cast<int>(all.front());
  std::vector<double> right(40, step);
  right.resize(80, 10 * step);
  EXPECT_EQ(all, right);
  return step;
}

Disk disk_with_one() {
  set_log_sink({});
  auto disk = std::make_shared<io::MemoryFileSystem>();
  disk->create_directory("/out");
  put(disk, 1, 1);
  disk->mark();
  return disk;
}

TEST(SafetensorsExport, ACrashLeavesNoMixtureOfTwo) {
  for (const int each : {1, 2}) {  // into files of the same names, or of others
    const auto disk = disk_with_one();
    put(disk, 2, each);
    std::map<int, int> times;
    for (std::size_t k = 0; k <= disk->operation_count(); ++k) {
      for (const bool keep : {true, false}) {
        SCOPED_TRACE(cat("after ", k, " operations"));
        const auto left = disk->crash(k, {.keep = keep});
        if (!left->status(index_file)) {
          EXPECT_EQ(each, 1) << "nothing was in the way of the old one";
          continue;
        }
        ++times[step_of(left)];
      }
    }
    EXPECT_GT(times[1], 0);
    EXPECT_GT(times[2], 0);
  }
}

TEST(SafetensorsExport, OneThatFailsLeavesWhatWasThere) {
  const auto disk = disk_with_one();
  disk->inject({Code::no_space, "write", "m-00002"});
  EXPECT_THROW(put(disk, 2, 1), Error);
  EXPECT_EQ(disk->list("/out").size(), 3U);
  EXPECT_EQ(step_of(disk), 1);
}

}  // namespace
}  // namespace cairn
