// The file in memory in which new HDF5 files are laid out, compared with a plain array.
#include <gtest/gtest.h>

#include <random>

#include "base/text.hpp"
#include "layout/hdf5/byte_file.hpp"

namespace cairn::hdf5 {
namespace {

TEST(Hdf5Image, HoldsWhatAPlainArrayHolds) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    constexpr std::size_t room = 400;
    std::string model;
    std::vector<bool> written(room);
    SparseImage image;
    for (int turn = 0; turn < 60; ++turn) {
      const auto offset = random() % (room / 2);
      if (random() % 10 == 0) {
        model.resize(offset);
        for (auto i = offset; i < room; ++i) written[i] = false;
        image.truncate(static_cast<std::int64_t>(offset));
        continue;
      }
      std::string bytes(random() % 40, '\0');
      for (auto& byte : bytes) byte = static_cast<char>('a' + random() % 26);
      if (!bytes.empty() && model.size() < offset + bytes.size()) {
        model.resize(offset + bytes.size());
      }
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        model[offset + i] = bytes[i];
        written[offset + i] = true;
      }
      image.write(static_cast<std::int64_t>(offset), std::as_bytes(std::span(bytes)));
      ASSERT_EQ(image.size(), static_cast<std::int64_t>(model.size()));
      std::string read(model.size(), '?');
      image.read(0, std::as_writable_bytes(std::span(read)));
      ASSERT_EQ(read, model);
      const auto from = random() % (model.size() + 1);
      std::string part(model.size() - from, '?');
      image.read(static_cast<std::int64_t>(from), std::as_writable_bytes(std::span(part)));
      ASSERT_EQ(part, model.substr(from));
    }
    std::int64_t end = -1;
    std::vector<bool> kept(room);
    for (const auto& extent : image.take()) {
      ASSERT_GT(extent.offset, end) << "extents touch";
      end = extent.end();
      for (std::size_t i = 0; i < extent.bytes.size(); ++i) {
        const auto at = static_cast<std::size_t>(extent.offset) + i;
        kept[at] = true;
        ASSERT_EQ(extent.bytes[i], model[at]);
      }
    }
    EXPECT_EQ(kept, written);
  }
}

}  // namespace
}  // namespace cairn::hdf5
