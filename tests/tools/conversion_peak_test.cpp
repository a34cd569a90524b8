// The memory that conversions take, as the system counts it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/log.hpp"
#include "cairn/version.hpp"
#include "io/temporary_directory.hpp"
#include "store/contents/contents_reader.hpp"
#include "support/peak.hpp"
#include "tools/convert_checkpoint.hpp"
#include "tools/safetensors.hpp"
#include "tools/zarr_export.hpp"

namespace cairn {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

// Sanitizers keep memory that was freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif
#else
constexpr bool is_sanitized = false;
#endif

bool has_hdf5() {
  for (const auto& [name, value] : build_options()) {
    if (name == "hdf5") return value != "no";
  }
  return false;
}

// What a conversion holds does not grow with the stored slices.
TEST(ConversionPeak, OfALargeSlice) {
  if (is_sanitized) GTEST_SKIP() << "a sanitizer keeps memory that was freed";
  if (!test::forget_peak()) GTEST_SKIP() << "/proc/self/clear_refs cannot be written";
  const auto bytes = (std::getenv("CAIRN_LARGE_TESTS") ? 512 : 160) * mib;
  const test::TemporaryDirectory directory;
  const auto files = io::posix_file_system();
  set_log_sink({});
  {
    std::vector<double> values(static_cast<std::size_t>(bytes / 8), 1.5);
    State state;
    state.add("u", whole(values.data(), {bytes / 8192, 1024}));
    CheckpointManager(serial_group(), directory.path() / "run").save(1, state);
  }
  const auto source = open_checkpoint({files, directory.path() / "run/ckpt-1"});
  const auto hold = [&](const char* name, const auto& convert) {
    const auto beyond = test::peak_beyond(convert);
    if (std::getenv("CAIRN_SAY_PEAKS")) std::fprintf(stderr, "%s: %ld KiB\n", name, beyond / 1024);
    EXPECT_LE(beyond, 96 * mib) << name;
  };
  const auto to = [&](const char* name) { return Address{files, directory.path() / name}; };
  hold("to a bundle", [&] { convert_checkpoint(source, to("bundle-1")); });
  if (has_hdf5()) hold("to HDF5", [&] { convert_checkpoint(source, to("file-1.h5")); });
  hold("to Zarr", [&] { export_zarr(source, to("a.zarr"), "", {}, {}); });
  hold("to safetensors", [&] { export_safetensors(source, to("a.safetensors"), "", {}, {}); });
}

}  // namespace
}  // namespace cairn
