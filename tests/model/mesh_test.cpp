#include "cairn/mesh.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Mesh grid({{"x", 2}, {"y", 3}});

TEST(Mesh, NumbersRanksAsDTensorNumbersDevices) {
  EXPECT_EQ(grid.size(), 6);
  EXPECT_EQ(grid.dimension_size("y"), 3);
  EXPECT_THAT(grid.coordinates(0), ElementsAre(0, 0));
  EXPECT_THAT(grid.coordinates(2), ElementsAre(0, 2));
  EXPECT_THAT(grid.coordinates(5), ElementsAre(1, 2));
  for (int rank = 0; rank < 6; ++rank) EXPECT_EQ(grid.rank_at(grid.coordinates(rank)), rank);
  EXPECT_EQ(to_string(grid), "x=2,y=3");
}

TEST(Mesh, MayHaveNoDimension) {
  const Mesh one(std::vector<MeshDimension>{});
  EXPECT_EQ(one.size(), 1);
  EXPECT_TRUE(one.coordinates(0).empty());
  EXPECT_EQ(Layout::replicated(one, 2).slice({3, 4}, 0), Box::whole({3, 4}));
}

TEST(Mesh, RefusesWhatIsNoMesh) {
  const auto made = [](std::vector<MeshDimension> dimensions) {
    return [dimensions] { Mesh mesh(dimensions); };
  };
  EXPECT_THAT(made({{"x", 2}, {"x", 2}}),
              ThrowsMessage<Error>(test::Says("two dimensions called")));
  EXPECT_THAT(made({{"", 2}}),
              ThrowsMessage<Error>(test::Says("dimension 0 of a mesh has no name")));
  EXPECT_THAT(made({{"unsharded", 2}}), ThrowsMessage<Error>(HasSubstr("called 'unsharded'")));
  EXPECT_THAT(made({{"x", 0}}), ThrowsMessage<Error>(test::Says("'x' has size 0")));
  EXPECT_THAT(made({{"x", 1 << 20}, {"y", 1 << 20}}),
              ThrowsMessage<Error>(test::Says("fit an int")));
  EXPECT_THAT([] { grid.dimension_size("z"); },
              ThrowsMessage<Error>(test::Says("no dimension 'z' (it has x, y)")));
  EXPECT_THAT([] { grid.coordinates(6); }, ThrowsMessage<Error>(test::Says("rank 6 is not in")));
  EXPECT_THAT([] { grid.rank_at({0, 3}); }, ThrowsMessage<Error>(HasSubstr("coordinate 3")));
  EXPECT_THAT([] { grid.rank_at({0}); }, ThrowsMessage<Error>(HasSubstr("1 coordinates")));
}

TEST(Layout, CutsAlongMeshDimensions) {
  const Layout both({"x", "y"}, grid);
  EXPECT_EQ(both.slice({4, 6}, 0), (Box{{0, 0}, {2, 2}}));
  EXPECT_EQ(both.slice({4, 6}, 4), (Box{{2, 2}, {2, 2}}));
  const Layout crossed({"y", "x"}, grid);
  EXPECT_EQ(crossed.slice({6, 4}, 4), (Box{{2, 2}, {2, 2}}));
  EXPECT_EQ(crossed.slice({6, 4}, 1), (Box{{2, 0}, {2, 2}}));
  EXPECT_THAT(both.replicas(4), ElementsAre(4));
  EXPECT_THAT(both.dash(), ElementsAre(false, false));
  EXPECT_FALSE(both.fully_replicated());
}

TEST(Layout, KnowsItsReplicas) {
  const Layout rows({"x", unsharded}, grid);
  EXPECT_EQ(rows.slice({4, 6}, 5), (Box{{2, 0}, {2, 6}}));
  EXPECT_THAT(rows.replicas(4), ElementsAre(3, 4, 5));
  EXPECT_THAT(rows.dash(), ElementsAre(false, true));
  const Layout columns({unsharded, "y"}, grid);
  EXPECT_EQ(columns.slice({4, 6}, 5), (Box{{0, 4}, {4, 2}}));
  EXPECT_THAT(columns.replicas(4), ElementsAre(1, 4));
  const auto all = Layout::replicated(grid, 2);
  EXPECT_EQ(all.slice({4, 6}, 5), Box::whole({4, 6}));
  EXPECT_THAT(all.replicas(4), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_TRUE(all.fully_replicated());
  EXPECT_EQ(to_string(rows), "x,unsharded on x=2,y=3");
}

TEST(Layout, DealsRemaindersInBlocks) {
  const Layout line({"x"}, Mesh({{"x", 4}}));
  const auto extents = [&](std::int64_t n) {
    std::vector<std::int64_t> all;
    std::int64_t next = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const auto box = line.slice({n}, rank);
      EXPECT_EQ(box.start[0], next);
      next += box.extent[0];
      all.push_back(box.extent[0]);
    }
    EXPECT_EQ(next, n);
    return all;
  };
  EXPECT_THAT(extents(8), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(extents(7), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(extents(5), ElementsAre(2, 2, 1, 0));
  EXPECT_THAT(extents(2), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(extents(0), ElementsAre(0, 0, 0, 0));
  const auto huge = (std::int64_t{1} << 62) + 3;
  EXPECT_EQ(line.slice({huge}, 3).end(0), huge);
}

TEST(Layout, RefusesWhatCannotBe) {
  EXPECT_THAT([] { Layout({"z"}, grid); }, ThrowsMessage<Error>(test::Says("no dimension 'z'")));
  EXPECT_THAT(
      [] {
        Layout({"x", "x"}, grid);
      },
      ThrowsMessage<Error>(test::Says("cuts two dimensions of a tensor along mesh dim")));
  EXPECT_THAT(
      [] {
        Layout({"x"}, grid).slice({2, 3}, 0);
      },
      ThrowsMessage<Error>(test::Says("shape [2 3] (it is one of 1 dimensions)")));
}

TEST(Layout, MakesTensorsInDTensorsSpelling) {
  std::vector<float> values(12);
  const Layout rows({"x", unsharded}, grid);
  const auto tensor = slice(values.data(), {4, 6}, rows, 4);
  EXPECT_EQ(tensor.storage, Storage::sliced);
  ASSERT_EQ(tensor.slices.size(), 1u);
  EXPECT_EQ(tensor.slices[0].box, (Box{{2, 0}, {2, 6}}));
  EXPECT_THAT(tensor.slices[0].dash, ElementsAre(false, true));
  EXPECT_TRUE(tensor.slices[0].memory->writable());
  const float* constant = values.data();
  EXPECT_FALSE(slice(constant, {4, 6}, rows, 4).slices[0].memory->writable());
  State().add("u", tensor);

  const auto by_hand = laid_out(slice(values.data(), {4, 6}, {2, 0}, {2, 6}), rows, 3);
  EXPECT_THAT(by_hand.slices[0].dash, ElementsAre(false, true));
  EXPECT_THAT(
      [&] {
        State().add("u", laid_out(slice(values.data(), {4, 6}, {2, 0}, {2, 6}), rows, 0));
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("tensor 'u': rank 0 holds"),
                                 test::Says("the layout x,unsharded on x=2,y=3 gives it"))));
  EXPECT_THAT(
      [&] {
        State().add("u", slice(values.data(), {4, 6, 1}, rows, 0));
      },
      ThrowsMessage<Error>(HasSubstr("tensor 'u': ")));
}

TEST(State, RefusesDashesWhereASliceIsNotWhole) {
  std::vector<float> values(12);
  auto tensor = slice(values.data(), {4, 6}, {2, 0}, {2, 6});
  tensor.slices[0].dash = {true, false};
  EXPECT_THAT([&] { State().add("u", tensor); },
              ThrowsMessage<Error>(test::Says("is called whole in a dimension where it is not")));
  tensor.slices[0].dash = {true};
  EXPECT_THROW(State().add("u", tensor), Error);
}

}  // namespace
}  // namespace cairn
