// Files of safetensors in place of others, and a crash at any instant.
#include <gtest/gtest.h>

#include <numeric>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "contents/contents_reader.hpp"
#include "testing/memory.hpp"
#include "tools/safetensors.hpp"

namespace cairn {
namespace {

TEST(SafetensorsExport, ACrashLeavesNoMixtureOfTwo) {
  set_log_sink({});
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  disk->create_directory("/out");
  std::vector<double> u(40), v(40);
  State state;
  state.add("u", whole(u.data(), {40})).add("v", whole(v.data(), {40}));
  const auto add = [&](int step) {
    std::fill(u.begin(), u.end(), step);
    std::fill(v.begin(), v.end(), 10 * step);
    ManagerOptions options;
    options.write.file_system = disk;
    CheckpointManager(serial_group(), "/run", options).save(step, state);
    ConvertOptions how;
    how.overwrite = true;
    how.max_shard_bytes = 330;
    export_safetensors(disk, read_contents(*disk, cat("/run/ckpt-", step)), "/out/m.safetensors",
                       "", how, {});
  };
  add(1);
  disk->mark();
  add(2);
  int olds = 0, news = 0;
  for (std::size_t k = 0; k <= disk->operation_count(); ++k) {
    for (const bool keep : {true, false}) {
      const auto left = disk->crash(k, {.keep = keep});
      if (!left->status("/out/m.safetensors.index.json")) continue;
      left->create_directory("/back");
      import_safetensors(left, "/out/m.safetensors.index.json", "/back/ckpt-1", "", {}, {});
      const BundleReader back("/back/ckpt-1", left);
      std::vector<double> all;
      for (const char* key : {"u", "v"}) {
        const auto bytes = back.read(key);
        const auto* values = reinterpret_cast<const double*>(bytes.data());
        all.insert(all.end(), values, values + 40);
      }
      const auto step = all.front();
      std::vector<double> right(40, step);
      right.resize(80, 10 * step);
      EXPECT_EQ(all, right) << "after " << k << " operations";
      (step == 1 ? olds : news) += 1;
    }
  }
  EXPECT_GT(olds, 0);
  EXPECT_GT(news, 0);
}

}  // namespace
}  // namespace cairn
