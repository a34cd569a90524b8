// Functions that need libhdf5, called through the module that the tool loads.
#include <gmock/gmock.h>

#include "cairn/error.hpp"
#include "layout/hdf5/foreign.hpp"
#include "layout/hdf5/lay_out.hpp"

namespace cairn::hdf5 {
namespace {

Skeleton layout() {
  NewFile file;
  file.datasets = {{"a/u", DType::float64, {2, 3}}};
  file.strings = {{"names", {2}, {"one", "two"}}};
  return lay_out(file);
}

std::unique_ptr<SparseImage> image_of(const Skeleton& skeleton) {
  auto image = std::make_unique<SparseImage>();
  image->truncate(skeleton.size);
  for (const auto& extent : skeleton.extents) {
    image->write(extent.offset, std::as_bytes(std::span(extent.bytes)));
  }
  return image;
}

template <class F>
Code code_of(F&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::internal;
}

TEST(Hdf5Module, LaysOutAndReads) {
  ASSERT_TRUE(available());
  const auto skeleton = layout();
  auto image = image_of(skeleton);
  const std::vector<double> values{1, 2, 3, 4, 5, 6};
  image->write(skeleton.offsets.at(0), std::as_bytes(std::span(values)));

  ForeignFile file(std::move(image));
  const ForeignDataset u{DType::float64, {2, 3}}, names{DType::string, {2}};
  EXPECT_EQ(file.find("a/u"), u);
  EXPECT_EQ(file.find("names"), names);
  EXPECT_EQ(file.find("a/v"), std::nullopt);
  std::vector<double> column(2);
  file.read("a/u", u, {{0, 1}, {2, 1}}, reinterpret_cast<std::byte*>(column.data()));
  EXPECT_EQ(column, (std::vector<double>{2, 5}));
  EXPECT_THAT(file.read_strings("names", names), testing::ElementsAre("one", "two"));
}

TEST(Hdf5Module, ItsErrorsAreErrors) {
  NewFile file;
  file.datasets = {{"a", DType::float64, {}}, {"a/b", DType::float64, {}}};
  EXPECT_EQ(code_of([&] { lay_out(file); }), Code::invalid_argument);
  auto garbage = std::make_unique<SparseImage>();
  garbage->truncate(5000);
  EXPECT_EQ(code_of([&] { ForeignFile other(std::move(garbage)); }), Code::data_loss);
  ForeignFile whole(image_of(layout()));
  const ForeignDataset expected{DType::float32, {2, 3}};
  EXPECT_EQ(code_of([&] { whole.read_strings("a/u", expected); }), Code::data_loss);
}

// An image that fails when the module reads it.
class Broken final : public SparseImage {
 public:
  void read(std::int64_t, std::span<std::byte>) const override {
    throw Error(Code::io, "the disk is gone");
  }
};

TEST(Hdf5Module, WhatAFileThrowsComesThrough) {
  auto broken = std::make_unique<Broken>();
  broken->truncate(5000);
  EXPECT_EQ(code_of([&] { ForeignFile file(std::move(broken)); }), Code::io);
}

}  // namespace
}  // namespace cairn::hdf5
