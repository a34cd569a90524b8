// New HDF5 files, as libhdf5 itself reads them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "layout/hdf5/library.hpp"
#include "support/bundle_files.hpp"
#include "support/says.hpp"

namespace cairn::hdf5 {
namespace {

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

// The file as other programs find it.
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
  test::write_file(path_, whole(skeleton) + encode_seal({}));  // bytes after it do not matter
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
            (MetaExtent{skeleton.blob_offset, 20, 0x1234567}));
  for (const auto& [name, offset] : {std::pair("/_cairn/strings", skeleton.blob_offset),
                                     std::pair("/_cairn/slices", skeleton.slices_offset),
                                     std::pair("/_cairn/index", skeleton.table_offset)}) {
    const auto own = H5Dopen2(h5, name, H5P_DEFAULT);
    EXPECT_EQ(H5Dget_offset(own), static_cast<haddr_t>(offset));
    H5Dclose(own);
  }
  H5Fclose(h5);
}

// All that HDF5 writes, strings of variable length too, lies before the region, and behind it the
// table, where the file ends for libhdf5.
TEST_F(Hdf5Layout, PutsElementsIntoARegion) {
  auto file = sample();
  file.datasets = {{"big/u", DType::float64, {300, 1000}},
                   {"big/v", DType::float32, {600, 1000}},
                   {"small/a", DType::int32, {5}},
                   {"small/z", DType::complex64, {2, 2}},
                   {"nothing", DType::int16, {0, 3}}};
  file.region = {{0, 2'400'256, 5'000'000, 5'000'020}, 5'000'052};
  for (int i = 0; i < 400; ++i) file.strings.push_back({cat("more/", i), {}, {cat("text ", i)}});
  const auto skeleton = lay_out(file);
  EXPECT_EQ(skeleton.region_offset % 4096, 0);
  EXPECT_LT(skeleton.region_offset, 1 << 20);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(skeleton.offsets[i], skeleton.region_offset + file.region->places[i]);
  }
  EXPECT_EQ(skeleton.offsets[4], 0);
  EXPECT_EQ(skeleton.table_offset, skeleton.region_offset + file.region->bytes);
  EXPECT_EQ(skeleton.size, skeleton.table_offset + file.table_room);
  EXPECT_LE(skeleton.extents.back().end(), skeleton.region_offset);
  EXPECT_LE(skeleton.slices_offset + file.slices_bytes, skeleton.region_offset);
  for (const auto guess : {skeleton.region_offset, std::int64_t{4096}, std::int64_t{1} << 30}) {
    file.region->guess = guess;
    EXPECT_EQ(whole(skeleton), whole(lay_out(file))) << guess;
  }
  auto bytes = whole(skeleton);
  const std::int32_t values[] = {1, 2, 3, 4, 5};
  std::memcpy(bytes.data() + skeleton.offsets[2], values, sizeof values);
  test::write_file(path_, bytes);
  const auto h5 = H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(h5, 0);
  const auto dataset = H5Dopen2(h5, "small/a", H5P_DEFAULT);
  std::int32_t read[5] = {};
  EXPECT_GE(H5Dread(dataset, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, read), 0);
  EXPECT_THAT(read, testing::ElementsAreArray(values));
  H5Dclose(dataset);
  const auto last = H5Dopen2(h5, "more/399", H5P_DEFAULT);
  const auto type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  char* text = nullptr;
  EXPECT_GE(H5Dread(last, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &text), 0);
  EXPECT_STREQ(text, "text 399");
  H5free_memory(text);
  H5Tclose(type);
  H5Dclose(last);
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
  EXPECT_LT(packed.extents.size(), 200u);  // not very many small writes
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

// Attributes of datasets, groups and the file; axes that exist, that are made, and that cannot be
// made.
TEST_F(Hdf5Layout, SaysWhatIsSaidOfTensors) {
  auto file = sample();
  file.datasets.push_back({"big/x", DType::float64, {1000}});
  file.datasets.push_back({"small/q", DType::int8, {6}});
  for (int i = 0; i < 5000; ++i) file.datasets.push_back({cat("many/t", i), DType::int8, {3}});
  auto& said = file.descriptions;
  said.attributes = {{"long", std::string(100000, 'x')},
                     {"zero", std::string("a\0b", 3)},
                     {"most", std::numeric_limits<std::uint64_t>::max()},
                     {"mixed", Json{"[1,\"a\"]"}},
                     {"words", Json{R"(["a","b"])"}},
                     {"whole", Json{"[1,-2]"}},
                     {"real", Json{"[1,2.5]"}},
                     {"json text", Json{"\"he said \\\"3\\\"\""}},
                     {"json 3", Json{"3"}},
                     {"json most", Json{"18446744073709551615"}},
                     {"json 0.5", Json{"0.5"}},
                     {"json true", Json{"true"}},
                     {"json null", Json{"null"}}};
  said.by_key["big"].attributes = {{"kind", "group"}};
  said.by_key["big/u"] = {"m/s", {"y", "x"}, {"lon", "lat"}, {}};
  said.by_key["big/v"] = {"", {"y", "small"}, {}, {}};  // y has 300 in big/u
  said.by_key["big/x"] = {"m", {"x"}, {}, {}};
  said.by_key["small/a"].dimensions = {"flag"};  // is made beside it
  said.by_key["small/q"].dimensions = {"z"};     // a tensor of another shape is there
  said.by_key["small/z"].dimensions = {"a", "a"};
  for (int i = 0; i < 5000; ++i) said.by_key[cat("many/t", i)].dimensions = {"item"};
  const auto skeleton = lay_out(file);
  EXPECT_EQ(whole(skeleton), whole(lay_out(file)));
  EXPECT_EQ(Handle::open_count(), 0);
  test::write_file(path_, whole(skeleton));
  const auto h5 = H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(h5, 0);
  // "CLASS TYPE SIZE×COUNT" of an attribute.
  const auto look = [&](const char* object, const char* name) -> std::string {
    if (H5Aexists_by_name(h5, object, name, H5P_DEFAULT) <= 0) return "none";
    const auto attribute = H5Aopen_by_name(h5, object, name, H5P_DEFAULT, H5P_DEFAULT);
    const auto type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    std::string text = cat("class ", static_cast<int>(H5Tget_class(type)), ", ",
                           H5Sget_simple_extent_npoints(space));
    if (H5Tis_variable_str(type) > 0 && H5Sget_simple_extent_ndims(space) == 0) {
      char* value = nullptr;
      EXPECT_GE(H5Aread(attribute, type, static_cast<void*>(&value)), 0);
      text = value;
      H5free_memory(value);
    } else if (H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0) {
      std::string value(H5Tget_size(type), '?');
      EXPECT_GE(H5Aread(attribute, type, value.data()), 0);
      text = value.c_str();
    }
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(attribute);
    return text;
  };
  EXPECT_EQ(look("/", "long"), std::string(100000, 'x'));
  EXPECT_EQ(look("/", "zero"), R"("a\u0000b")");
  EXPECT_EQ(look("/", "most"), cat("class ", int{H5T_INTEGER}, ", 1"));
  EXPECT_EQ(look("/", "mixed"), R"([1,"a"])");
  EXPECT_EQ(look("/", "words"), cat("class ", int{H5T_STRING}, ", 2"));
  EXPECT_EQ(look("/", "whole"), cat("class ", int{H5T_INTEGER}, ", 2"));
  EXPECT_EQ(look("/", "real"), cat("class ", int{H5T_FLOAT}, ", 2"));
  EXPECT_EQ(look("/", "json text"), "he said \"3\"");
  EXPECT_EQ(look("/", "json 3"), cat("class ", int{H5T_INTEGER}, ", 1"));
  EXPECT_EQ(look("/", "json most"), cat("class ", int{H5T_INTEGER}, ", 1"));
  EXPECT_EQ(look("/", "json 0.5"), cat("class ", int{H5T_FLOAT}, ", 1"));
  EXPECT_EQ(look("/", "json true"), cat("class ", int{H5T_ENUM}, ", 1"));
  EXPECT_EQ(look("/", "json null"), "null");
  EXPECT_EQ(look("/big", "kind"), "group");
  EXPECT_EQ(look("/big/u", "units"), "m/s");
  EXPECT_EQ(look("/big/u", "coordinates"), "lon lat");
  EXPECT_EQ(look("/big/u", "DIMENSION_LIST"), cat("class ", int{H5T_VLEN}, ", 2"));
  EXPECT_EQ(look("/big/x", "CLASS"), "DIMENSION_SCALE");
  EXPECT_EQ(look("/big/x", "NAME"), "x");
  EXPECT_EQ(look("/big/x", "REFERENCE_LIST"), cat("class ", int{H5T_COMPOUND}, ", 1"));
  EXPECT_EQ(look("/big/y", "NAME"),
            "This is a netCDF dimension but not a netCDF variable.       300");
  EXPECT_EQ(look("/big/y", "REFERENCE_LIST"), cat("class ", int{H5T_COMPOUND}, ", 1"));
  EXPECT_EQ(look("/big/v", "DIMENSION_LABELS"), cat("class ", int{H5T_STRING}, ", 2"));
  EXPECT_EQ(look("/big/small", "CLASS"), "DIMENSION_SCALE");
  EXPECT_EQ(look("/small/flag", "CLASS"), "DIMENSION_SCALE");
  EXPECT_EQ(look("/small/q", "DIMENSION_LIST"), "none");
  EXPECT_EQ(look("/small/z", "DIMENSION_LIST"), "none");
  EXPECT_EQ(look("/small/z", "DIMENSION_LABELS"), cat("class ", int{H5T_STRING}, ", 2"));
  EXPECT_EQ(look("/many/item", "REFERENCE_LIST"), cat("class ", int{H5T_COMPOUND}, ", 5000"));
  EXPECT_EQ(look("/words", "units"), "none");
  H5Fclose(h5);
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
    EXPECT_THAT(error.what(), test::Says("33 dimensions, and HDF5 has at most 32"));
  }
}

}  // namespace
}  // namespace cairn::hdf5
