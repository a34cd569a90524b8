// New HDF5 files as libhdf5 itself sees them again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "format/hdf5/lay_out.hpp"
#include "format/hdf5/library.hpp"
#include "format/hdf5/seal.hpp"
#include "support/bundle_files.hpp"

namespace cairn::hdf5 {
namespace {

using testing::HasSubstr;

NewFile sample() {
  NewFile file;
  file.datasets = {{"big/u", DType::float64, {300, 1000}}, {"big/v", DType::float32, {600, 1000}},
                   {"flag", DType::boolean, {}},           {"nothing", DType::int16, {0, 3}},
                   {"small/a", DType::int32, {5}},         {"small/z", DType::complex64, {2, 2}}};
  file.strings = {{"words", {2}, {"one", "two words"}},
                  {"bytes", {2}, {std::string("a\0b", 3), ""}},
                  {"none", {0}, {}}};
  file.meta = R"({"step":7})";
  file.blob_bytes = 100;
  file.meta_bytes = 20;
  file.meta_crc32c = 0x1234567;
  file.slices_bytes = 30;
  file.table_room = 1000;
  return file;
}

// The file as others find it.
std::string whole(const Skeleton& skeleton) {
  std::string bytes(static_cast<std::size_t>(skeleton.size), '\0');
  for (const auto& extent : skeleton.extents) {
    bytes.replace(static_cast<std::size_t>(extent.offset), extent.bytes.size(), extent.bytes);
  }
  return bytes;
}

class Hdf5Layout : public testing::Test {
 protected:
  Hdf5Layout() : path_(testing::TempDir() + cat("layout-", getpid(), ".h5")) {}
  ~Hdf5Layout() override { std::filesystem::remove(path_); }
  std::string path_;
};

TEST_F(Hdf5Layout, IsWhereLibhdf5FindsIt) {
  const auto file = sample();
  const auto skeleton = lay_out(file);
  test::write_file(path_, whole(skeleton) + encode_seal({}));  // bytes behind it are no matter
  const auto h5 = H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(h5, 0);
  for (std::size_t i = 0; i < file.datasets.size(); ++i) {
    const auto& one = file.datasets[i];
    const auto dataset = H5Dopen2(h5, one.key.c_str(), H5P_DEFAULT);
    ASSERT_GE(dataset, 0) << one.key;
    if (element_count(one.shape) > 0) {
      EXPECT_EQ(H5Dget_offset(dataset), static_cast<haddr_t>(skeleton.offsets[i]));
    } else {
      EXPECT_EQ(skeleton.offsets[i], 0);
    }
    const auto space = H5Dget_space(dataset);
    EXPECT_EQ(H5Sget_simple_extent_npoints(space), element_count(one.shape));
    EXPECT_EQ(H5Sget_simple_extent_ndims(space), static_cast<int>(one.shape.size()));
    H5Sclose(space);
    H5Dclose(dataset);
  }
  const auto meta = H5Dopen2(h5, "/_cairn/meta", H5P_DEFAULT);
  const auto type = H5Dget_type(meta);
  std::string text(H5Tget_size(type), '?');
  EXPECT_GE(H5Dread(meta, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()), 0);
  EXPECT_EQ(text, file.meta);
  H5Tclose(type);
  H5Dclose(meta);
  EXPECT_EQ(find_meta_place(whole(skeleton).substr(0, marker_reach)),
            (MetaPlace{skeleton.blob_offset, 20, 0x1234567}));
  for (const auto& [name, offset] : {std::pair("/_cairn/strings", skeleton.blob_offset),
                                     std::pair("/_cairn/slices", skeleton.slices_offset),
                                     std::pair("/_cairn/index", skeleton.table_offset)}) {
    const auto own = H5Dopen2(h5, name, H5P_DEFAULT);
    EXPECT_EQ(H5Dget_offset(own), static_cast<haddr_t>(offset));
    H5Dclose(own);
  }
  H5Fclose(h5);
}

TEST_F(Hdf5Layout, AlignsWhatIsLargeAndPacksWhatIsSmall) {
  const auto file = sample();
  const auto skeleton = lay_out(file);
  EXPECT_EQ(skeleton.offsets[0] % (1 << 20), 0);
  EXPECT_EQ(skeleton.offsets[1] % (1 << 20), 0);
  EXPECT_LT(skeleton.size, 8 << 20);
  NewFile many;
  many.table_room = 1 << 20;
  for (int i = 0; i < 10000; ++i) many.datasets.push_back({cat("g/t", i), DType::float64, {10}});
  const auto packed = lay_out(many);
  EXPECT_LT(packed.size, 16 << 20);
  EXPECT_LT(packed.extents.size(), 200u);  // no storm of small writes
}

TEST_F(Hdf5Layout, IsTheSameTwiceAndLeavesNothingOpen) {
  const auto a = lay_out(sample()), b = lay_out(sample());
  EXPECT_EQ(a.offsets, b.offsets);
  EXPECT_EQ(whole(a), whole(b));
  auto bad = sample();
  bad.datasets.push_back({"flag/x", DType::int8, {1}});
  EXPECT_THROW(lay_out(bad), Error);
  bad = sample();
  bad.datasets.push_back({"deep", DType::int8, Dims(33, 1)});
  EXPECT_THROW(lay_out(bad), Error);
  EXPECT_EQ(Handle::open_count(), 0);
  EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0);
}

TEST_F(Hdf5Layout, MakesEachDType) {
  NewFile file;
  for (int number = 1; number <= 33; ++number) {
    const auto dtype = dtype_from_number(number);
    if (!dtype || dtype_size(*dtype) == 0) continue;
    file.datasets.push_back({std::string(dtype_name(*dtype)), *dtype, {3}});
  }
  file.table_room = 10;
  const auto skeleton = lay_out(file);
  test::write_file(path_, whole(skeleton));
  const auto h5 = H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  for (const auto& one : file.datasets) {
    const auto dataset = H5Dopen2(h5, one.key.c_str(), H5P_DEFAULT);
    const auto type = H5Dget_type(dataset);
    EXPECT_EQ(H5Tget_size(type), dtype_size(one.dtype)) << one.key;
    H5Tclose(type);
    H5Dclose(dataset);
  }
  H5Fclose(h5);
}

TEST_F(Hdf5Layout, RefusalsNameTheTensor) {
  auto file = sample();
  file.datasets.push_back({"deep", DType::int8, Dims(33, 1)});
  try {
    lay_out(file);
    FAIL() << "laid out";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_EQ(error.tensor(), "deep");
    EXPECT_THAT(error.what(), HasSubstr("33 dimensions, and HDF5 has at most 32"));
  }
}

}  // namespace
}  // namespace cairn::hdf5
