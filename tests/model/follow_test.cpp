// Tensors that are given by reference, and by functions.
#include <gmock/gmock.h>

#include "cairn/error.hpp"
#include "cairn/mesh.hpp"
#include "cairn/ragged.hpp"
#include "model/refreshed_state.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::StartsWith;
using testing::ThrowsMessage;

RefreshedState refresh(const State& state) {
  RefreshedState seen(state);
  if (seen.error()) throw Error(*seen.error());
  return seen;
}

const void* address(const RefreshedState& state, const std::string& key, std::size_t slice = 0) {
  return state.find(key)->slices.at(slice).memory->contiguous();
}

TEST(Followed, AVectorIsWhatItIsAtEachLook) {
  std::vector<double> u{1, 2, 3}, w{4, 5};
  const std::vector<float> constant(2);
  State state;
  state.add("u", u).add("constant", whole(&constant));
  const auto first = refresh(state);
  EXPECT_EQ(first.find("u")->shape, Dims{3});
  EXPECT_EQ(address(first, "u"), u.data());
  EXPECT_EQ(first.find("u")->slices[0].memory, refresh(state).find("u")->slices[0].memory)
      << "nothing is made anew";
  const auto* before = u.data();
  std::swap(u, w);
  const auto swapped = refresh(state);
  EXPECT_EQ(swapped.find("u")->shape, Dims{2});
  EXPECT_EQ(swapped.find("u")->slices[0].box, Box::whole({2}));
  EXPECT_EQ(address(swapped, "u"), u.data());
  const auto& memory = swapped.find("u")->slices[0].memory;
  EXPECT_TRUE(memory->writable());
  EXPECT_EQ(memory->contiguous_writable(), reinterpret_cast<std::byte*>(u.data()));
  EXPECT_FALSE(swapped.find("constant")->slices[0].memory->writable());
  u.assign(10'000, 7);
  const auto grown = refresh(state);
  EXPECT_EQ(grown.find("u")->shape, Dims{10'000});
  EXPECT_EQ(address(grown, "u"), u.data());
  u.clear();
  EXPECT_EQ(refresh(state).find("u")->shape, Dims{0});
  EXPECT_EQ(first.find("u")->shape, Dims{3}) << "a look finds nothing for another one";
  EXPECT_EQ(address(first, "u"), before);
  EXPECT_EQ(state.find("u")->shape, Dims{3}) << "nor for the state";
}

TEST(Followed, WhatIsGivenAsAPointerStays) {
  std::vector<double> u{1, 2, 3};
  const auto* before = u.data();
  State state;
  state.add("u", whole(u.data(), {3}));
  u = std::vector<double>(5);
  const auto seen = refresh(state);
  EXPECT_EQ(seen.find("u")->shape, Dims{3});
  EXPECT_EQ(address(seen, "u"), before);
}

TEST(Followed, WhatStaysIsTheStatesOwn) {
  double a = 1, b = 2;
  std::vector<double> u{3}, w{4};
  State state;
  state.add("a", a).add("u", u).add("b", b).add("w", w);
  u.push_back(5), w = {};
  const auto seen = refresh(state);
  ASSERT_EQ(seen.tensors().size(), 4u);
  std::vector<std::string> keys;
  for (const auto& [key, tensor] : seen.tensors()) {
    EXPECT_EQ(&tensor, seen.find(key));
    EXPECT_EQ(&tensor == state.find(key), key == "a" || key == "b") << key;
    EXPECT_EQ(seen.follows(key), key == "u" || key == "w") << key;
    EXPECT_EQ(tensor.source, nullptr);
    keys.push_back(key);
  }
  EXPECT_THAT(keys, ElementsAre("a", "u", "b", "w"));
  EXPECT_EQ(seen.tensors()[1].second.shape, Dims{2});
  EXPECT_EQ(seen.tensors()[3].second.shape, Dims{0});
  EXPECT_EQ(seen.find("none"), nullptr);
}

TEST(Followed, AVectorOfStringsMayGrow) {
  std::vector<std::string> words{"a"};
  State state;
  state.add("words", words);
  words.insert(words.end(), 4, "b");
  EXPECT_EQ(refresh(state).find("words")->shape, Dims{5});
  words.push_back("c");
  auto table = strings(words);
  table.shape = {2, 3};
  state.add("table", table);
  EXPECT_EQ(refresh(state).find("table")->shape, (Dims{2, 3}));
}

TEST(Followed, ASliceOfAVectorFitsAtEachLook) {
  std::vector<double> u(12), w(12);
  State state;
  state.add("u", slice(&u, {8, 5}, {2, 1}, {3, 2}, {4, 1}));
  EXPECT_EQ(address(refresh(state), "u"), nullptr) << "it has gaps";
  double row[2] = {};
  const auto read_first = [&] {
    const auto seen = refresh(state);
    const auto& one = seen.find("u")->slices.at(0);
    EXPECT_EQ(one.box, (Box{{2, 1}, {3, 2}}));
    one.memory->read({{0, 0}, {1, 2}}, reinterpret_cast<std::byte*>(row));
  };
  std::swap(u, w);
  u[1] = 5;
  read_first();
  EXPECT_EQ(row[1], 5);
  u.resize(9);
  EXPECT_THAT([&] { refresh(state); },
              ThrowsMessage<Error>(StartsWith(
                  "tensor 'u': a slice of extent [3 2] does not fit its vector of 9 elements")));
  EXPECT_THAT(
      [&] {
        State().add("other", slice(&u, {8, 5}, {2, 1}, {3, 4}));
      },
      ThrowsMessage<Error>(StartsWith("tensor 'other': a slice of extent [3 4]")));
  u.resize(10);
  u[1] = 6;
  read_first();
  EXPECT_EQ(row[1], 6);
}

TEST(Followed, AFunctionIsAskedAtEachLook) {
  double a[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  int now = 0, calls = 0;
  auto cuts = std::make_shared<std::vector<std::int64_t>>(std::vector<std::int64_t>{0, 4});
  State state;
  state.add("u", [&, kept = std::shared_ptr<int>()] {
    ++calls;
    std::vector<LocalTensor> all;
    for (std::size_t i = 0; i + 1 < cuts->size(); ++i) {
      const auto start = (*cuts)[i];
      all.push_back(slice(a[now] + start, {4}, {start}, {(*cuts)[i + 1] - start}));
    }
    return stored(Storage::dense, patches(std::move(all)));
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(state.find("u")->dtype, DType::float64);
  EXPECT_EQ(state.find("u")->storage, Storage::dense);
  const auto first = refresh(state);
  EXPECT_EQ(address(first, "u"), a[0]);
  now = 1;
  *cuts = {0, 1, 4};
  const auto second = refresh(state);
  EXPECT_EQ(calls, 3);
  ASSERT_EQ(second.find("u")->slices.size(), 2u);
  EXPECT_EQ(address(second, "u", 1), a[1] + 1);
  EXPECT_EQ(address(first, "u"), a[0]);
  EXPECT_TRUE(state.find("u")->slices.empty()) << "the state holds nothing of it";
  *cuts = {1, 6};
  EXPECT_THAT([&] { refresh(state); },
              ThrowsMessage<Error>(test::Says("tensor 'u' [4]: rows 1..5 is outside")));
}

TEST(Followed, WhatAFunctionMayNotGive) {
  std::vector<double> rows(3);
  EXPECT_THAT([&] { State().add("u", [&] { return ragged(rows); }); },
              ThrowsMessage<Error>(test::Says("tensor 'u': a function gives ragged")));
  EXPECT_THAT([&] { State().add("u", each_time(nullptr)); },
              ThrowsMessage<Error>(test::Says("tensor 'u': each_time was given no function")));
  bool fails = false;
  State state;
  state.add("u", [&] {
    if (fails) throw std::runtime_error("no such level");
    return whole(&rows);
  });
  fails = true;
  EXPECT_THAT([&] { refresh(state); },
              ThrowsMessage<Error>(AllOf(test::Says("what tensor 'u' is now cannot be told"),
                                         test::Says("no such level"))));
}

TEST(Followed, PatchesLayoutsAndPrivateItemsFollow) {
  std::vector<double> a(3), b(1), c(2), d{1};
  const Mesh line({{"x", 2}});
  State state;
  state.add("u", patches({slice(&a, {4}, {0}, {3}), slice(b.data(), {4}, {3}, {1})}));
  state.add("v", stored(Storage::sliced, laid_out(slice(&c, {4}, {2}, {2}), {{"x"}, line}, 1)));
  state.add("w", rank_private(whole(&d)));
  State outer;
  outer.add("part", state);
  a = std::vector<double>(7);
  c = std::vector<double>(9);
  d = {1, 2, 3};
  for (const auto* one : {&state, &outer}) {
    const auto seen = refresh(*one);
    const std::string part = one == &outer ? "part/" : "";
    EXPECT_EQ(address(seen, part + "u"), a.data());
    EXPECT_EQ(address(seen, part + "u", 1), b.data());
    EXPECT_EQ(address(seen, part + "v"), c.data());
    EXPECT_EQ(seen.find(part + "v")->storage, Storage::sliced);
    EXPECT_THAT(seen.find(part + "v")->slices[0].dash, ElementsAre(false));
    EXPECT_EQ(seen.find(part + "w")->shape, Dims{3});
    EXPECT_NE(seen.find(part + "w")->unresolved, nullptr);
    EXPECT_EQ(address(seen, part + "w"), d.data());
  }
}

}  // namespace
}  // namespace cairn
