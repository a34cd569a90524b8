#include <gtest/gtest.h>

#include "cairn/device.hpp"
#include "cairn/dtype.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

TEST(DeviceTask, ParsesAndPrintsTensorFlowsForm) {
  const std::string text = "/job:worker/replica:0/task:12/device:CUDA:3";
  const auto task = parse_device_task(text);
  EXPECT_EQ(task, (DeviceTask{"worker", 0, 12, "CUDA", 3}));
  EXPECT_EQ(to_string(task), text);
  EXPECT_EQ(parse_device_task("/job:a/replica:1/task:2/cpu:0"), (DeviceTask{"a", 1, 2, "CPU", 0}));
}

TEST(DeviceTask, RefusesMalformedText) {
  for (const char* text :
       {"", "job:a", "/job:a", "/job:a/replica:0/task:0", "/job:a/replica:0/task:x/cpu:0",
        "/job:a/job:b/replica:0/task:0/cpu:0", "/job:/replica:0/task:0/cpu:0",
        "/job:a/replica:0/task:0/device:CPU", "/job:a/replica:0/task:-1/cpu:0",
        "/job:a/replica:0/task:0/cpu:0/", "/job:a/replica:0/task:0/cpu:0/rack:1"}) {
    EXPECT_THROW(parse_device_task(text), Error) << text;
  }
}

TEST(DType, NamesNumbersAndSizes) {
  int known = 0;
  for (int number = -1; number < 140; ++number) {
    const auto dtype = dtype_from_number(number);
    if (!dtype) continue;
    ++known;
    EXPECT_EQ(static_cast<int>(*dtype), number);
    EXPECT_EQ(dtype_from_name(dtype_name(*dtype)), *dtype);
  }
  EXPECT_EQ(known, 32);
  EXPECT_FALSE(dtype_from_number(20)) << "resources are never stored";
  EXPECT_FALSE(dtype_from_number(101)) << "nor references";
  EXPECT_EQ(dtype_size(DType::complex128), 16u);
  EXPECT_EQ(dtype_swap_unit(DType::complex128), 8u);
  EXPECT_EQ(dtype_size(DType::int4), 1u);
  EXPECT_FALSE(dtype_assembles_in_tensorflow(DType::float16));
  EXPECT_TRUE(dtype_assembles_in_tensorflow(DType::bfloat16));
}

enum class Phase : std::uint16_t {};
static_assert(dtype_of<long>::value == DType::int64);
static_assert(dtype_of<char>::value == (std::is_signed_v<char> ? DType::int8 : DType::uint8));
static_assert(dtype_of<bool>::value == DType::boolean);
static_assert(dtype_of<Phase>::value == DType::uint16);
static_assert(!Element<void*>);

}  // namespace
}  // namespace cairn
