#include "cairn/state.hpp"

#include <gmock/gmock.h>

#include <numeric>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/ragged.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

TEST(State, TakesValuesSlicesAndStrings) {
  int step = 3;
  double dt = 0.5;
  std::string note = "hello";
  std::vector<std::string> names{"a", "b"};
  std::array<float, 3> small{1, 2, 3};
  std::vector<double> field(20);
  State state;
  state.add("step", step).add("dt", dt).add("note", note).add("names", names).add("small", small);
  state.add("u", slice(field.data(), {10, 20}, {5, 0}, {1, 20}));
  state.add("v", nothing(DType::float32, {7}));
  ASSERT_EQ(state.tensors().size(), 7u);
  EXPECT_EQ(state.find("step")->dtype, DType::int32);
  EXPECT_EQ(state.find("step")->shape, Dims{});
  EXPECT_EQ(state.find("names")->shape, Dims{2});
  EXPECT_EQ(state.find("note")->strings->get(), std::vector<std::string>{"hello"});
  EXPECT_EQ(state.find("u")->slices[0].box, (Box{{5, 0}, {1, 20}}));
  EXPECT_TRUE(state.find("v")->slices.empty());
  EXPECT_EQ(state.find("w"), nullptr);
}

TEST(State, RefusesBadInputWithTheReason) {
  double x = 0;
  const double constant = 0;
  State state;
  state.add("x", x);
  const auto adding = [&](std::string key, LocalTensor tensor) {
    return [&state, key, tensor] { state.add(key, tensor); };
  };
  EXPECT_THAT(adding("x", whole(&x, {})), ThrowsMessage<Error>(test::Says("in the state already")));
  EXPECT_THAT(adding("", whole(&x, {})), ThrowsMessage<Error>(test::Says("empty key")));
  EXPECT_THAT(adding("\xff", whole(&x, {})), ThrowsMessage<Error>(HasSubstr("not UTF-8")));
  EXPECT_THAT(adding(std::string(1, '\0'), whole(&x, {})),
              ThrowsMessage<Error>(test::Says("zero byte")));
  EXPECT_THAT(adding("_cairn/meta", whole(&x, {})), ThrowsMessage<Error>(HasSubstr("reserved")));
  EXPECT_THAT(adding("y", slice(&x, {4}, {3}, {2})),
              ThrowsMessage<Error>(test::Says("rows 3..4 is outside")));
  EXPECT_THAT(adding("y", slice(&x, {4}, {5}, {0})),
              ThrowsMessage<Error>(test::Says("is outside")));
  EXPECT_THAT(adding("y", slice(&x, {4}, {-1}, {1})),
              ThrowsMessage<Error>(test::Says("is outside")));
  EXPECT_THAT(adding("y", patches({slice(&x, {4}, {3}, {1}), slice(&x, {4}, {0}, {1}),
                                   slice(&x, {4}, {0}, {2}, {0})})),
              ThrowsMessage<Error>(test::Says("slices 1 and 2 overlap in rows 0..0")));
  // slice() itself does not know the key.
  EXPECT_THAT(adding("y", slice(&x, {4}, {0, 0}, {1})),
              ThrowsMessage<Error>(AllOf(StartsWith("tensor 'y': a slice with start [0 0]"),
                                         test::Says("same number of dimensions"))));
  EXPECT_THAT(
      adding("y", slice(std::span(&x, 1), {4}, {0}, {2})),
      ThrowsMessage<Error>(StartsWith("tensor 'y': a slice of extent [2] does not fit its span")));
  EXPECT_THAT(adding("y", slice(static_cast<double*>(nullptr), {4}, {0}, {2})),
              ThrowsMessage<Error>(test::Says("'y': a slice of extent [2] has a null pointer")));
  EXPECT_THAT(adding("y", patches({whole(&x, {1}), slice(&x, {4}, {0, 0}, {1})})),
              ThrowsMessage<Error>(test::Says("'y': a slice with start")));
  EXPECT_THAT(adding("y", rank_private(slice(&x, {4}, {0, 0}, {1}))),
              ThrowsMessage<Error>(test::Says("'y': a slice with start")));
  EXPECT_THAT(
      [&] {
        patches({whole(&x, {}), slice(&x, {4}, {0}, {1})});
      },
      ThrowsMessage<Error>(HasSubstr("disagree")));
  EXPECT_THAT([&] { patches({}); }, ThrowsMessage<Error>(test::Says("no slice")));
  std::byte bytes[8]{};
  EXPECT_THAT([&] { whole(&constant, {}).slices[0].memory->write(Box{}, bytes); },
              ThrowsMessage<Error>(HasSubstr("const")));
}

// Strides may lead neither before memory of a known size nor beyond it, in whichever dimension, nor
// overflow 64 bits.
TEST(State, StridesStayInMemoryOfAKnownSize) {
  std::vector<double> memory(64);
  const std::span field(memory.data() + 16, 16);
  constexpr auto huge = std::int64_t{1} << 62;
  const auto refused = [&](const Dims& extent, const Dims& strides, const char* reason) {
    const auto text = AllOf(test::Says("does not fit its"), HasSubstr(reason));
    const Dims start(extent.size());
    EXPECT_THAT([&] { State().add("y", slice(field, extent, start, extent, strides)); },
                ThrowsMessage<Error>(text));
    std::vector<double> held(16);
    EXPECT_THAT([&] { State().add("y", slice(&held, extent, start, extent, strides)); },
                ThrowsMessage<Error>(text));
  };
  refused({3, 4}, {-4, 1}, "its first element would be number -8");
  refused({3, 4}, {4, -1}, "its first element would be number -3");
  refused({2, 2, 2}, {-1, 8, -1}, "its first element would be number -2");
  refused({3, 4}, {5, 2}, "its last element would be number 16");
  State().add("y", slice(field, {3, 4}, {0, 0}, {3, 4}, {4, 1}));
  State().add("y",
              slice(field, {1, 4}, {0, 0}, {1, 4}, {-huge, 1}));  // a stride that leads nowhere
  const auto too_far = [&](const Dims& extent, const Dims& strides) {
    const Dims start(extent.size());
    const auto text = HasSubstr(cat("a slice of extent ", shape_text(extent)));
    EXPECT_THAT([&] { State().add("y", slice(field, extent, start, extent, strides)); },
                ThrowsMessage<Error>(text));
    EXPECT_THAT([&] { State().add("y", slice(&memory, extent, start, extent, strides)); },
                ThrowsMessage<Error>(text));
    EXPECT_THAT([&] { State().add("y", whole(memory.data(), extent, strides)); },
                ThrowsMessage<Error>(AllOf(text, test::Says("further apart than memory reaches"))));
  };
  too_far({5}, {huge});
  too_far({5}, {-huge});
  too_far({3, 2}, {huge, 1});
  too_far({9, 2}, {huge / 4, 1});
  too_far({2, 2}, {huge, huge});
  too_far({2}, {huge / 4});
}

TEST(State, APartIsAddedWholeOrNotAtAll) {
  double a = 0, b = 0;
  State part;
  part.add("a", a).add("b", b).name("a", "first").alias("c", "a");
  const auto expect_only_its_own = [](const State& state) {
    ASSERT_EQ(state.tensors().size(), 1u);
    EXPECT_EQ(state.find("model/a"), nullptr);
    EXPECT_TRUE(state.objects().names.empty());
    EXPECT_TRUE(state.objects().aliases.empty());
  };
  State state;
  state.add("model/b", b);
  EXPECT_THAT([&] { state.add("model", part); },
              ThrowsMessage<Error>(test::Says("key 'model/b' is in the state already")));
  expect_only_its_own(state);
  State reserved;
  reserved.add("b", b);
  EXPECT_THAT([&] { reserved.add("_cairn", part); }, ThrowsMessage<Error>(HasSubstr("reserved")));
  EXPECT_EQ(reserved.tensors().size(), 1u);

  State list;
  list.add("layers/1/b", b);
  const std::vector<State> layers(3, part);
  EXPECT_THAT([&] { list.add("layers", layers); },
              ThrowsMessage<Error>(test::Says("key 'layers/1/b' is in the state already")));
  EXPECT_EQ(list.find("layers/0/a"), nullptr);
  ASSERT_EQ(list.tensors().size(), 1u);
  State carrying = part;
  carrying.carry(std::make_shared<const ObjectGraph>());
  EXPECT_THAT(
      [&] {
        list.add("others", std::vector<State>{part, carrying});
      },
      ThrowsMessage<Error>(test::Says("it carries an object graph")));
  EXPECT_EQ(list.tensors().size(), 1u);

  state.add("other", part);
  EXPECT_EQ(state.find("other/b")->dtype, DType::float64);
  EXPECT_EQ(state.objects().names.at("other/a"), "first");
  EXPECT_EQ(state.objects().aliases.size(), 1u);
  EXPECT_EQ(state.tensors()[1].first, "other/a");
}

TEST(HostMemory, HaloStaysOut) {
  // 4 × 5 with a halo of one around 2 × 3.
  std::vector<int> field(20);
  std::iota(field.begin(), field.end(), 0);
  auto tensor = slice(&field[6], {2, 3}, {0, 0}, {2, 3}, {5, 1});
  auto& memory = *tensor.slices[0].memory;
  EXPECT_EQ(memory.contiguous(), nullptr);
  std::vector<int> out(6);
  memory.read(Box::whole({2, 3}), reinterpret_cast<std::byte*>(out.data()));
  EXPECT_THAT(out, testing::ElementsAre(6, 7, 8, 11, 12, 13));
  std::vector<int> in{-1, -2};
  memory.write(Box{{0, 1}, {2, 1}}, reinterpret_cast<const std::byte*>(in.data()));
  EXPECT_EQ(field[7], -1);
  EXPECT_EQ(field[12], -2);
  field[7] = 7, field[12] = 12;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(field[static_cast<std::size_t>(i)], i);
}

TEST(HostMemory, AnEmptySliceMayBeRestoredInto) {
  std::vector<double> none;
  const auto tensor = slice(none.data(), {4, 3}, {4, 0}, {0, 3});
  EXPECT_TRUE(tensor.slices[0].memory->writable());
}

TEST(HostMemory, ColumnMajorAndContiguous) {
  std::vector<int> columns{1, 4, 2, 5, 3, 6};  // 2 × 3, first index fastest
  auto tensor = slice(columns.data(), {2, 3}, {0, 0}, {2, 3}, {1, 2});
  std::vector<int> out(6);
  tensor.slices[0].memory->read(Box::whole({2, 3}), reinterpret_cast<std::byte*>(out.data()));
  EXPECT_THAT(out, testing::ElementsAre(1, 2, 3, 4, 5, 6));
  auto rows = whole(out.data(), {2, 3});
  EXPECT_EQ(static_cast<const void*>(rows.slices[0].memory->contiguous()), out.data());
  // In a dimension with extent one the stride does not matter.
  EXPECT_NE(slice(out.data(), {2, 3}, {0, 0}, {1, 3}, {99, 1}).slices[0].memory->contiguous(),
            nullptr);
}

}  // namespace
}  // namespace cairn
