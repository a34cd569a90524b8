// Collectives that go through nodes, which are pretended here.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "mpi/mpi_fakes.hpp"
#include "mpi/mpi_group.hpp"
#include "mpi/mpi_kit.hpp"
#include "support/group_kit.hpp"

namespace cairn {
namespace {

using test::error_of;
using test::FailingCall;

struct Layout {
  const char* name;
  int (*node_of)(int rank);
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

class NodeFirstTest : public ::testing::TestWithParam<Layout> {
 protected:
  static int rank_now(int (*of)(MPI_Comm, int*)) {
    int value = 0;
    of(MPI_COMM_WORLD, &value);
    return value;
  }
  bool shares_node(int rank) const {
    for (int other = 0; other < size; ++other) {
      if (other != rank && GetParam().node_of(other) == GetParam().node_of(rank)) return true;
    }
    return false;
  }
  bool is_first(int rank) const {
    for (int lower = 0; lower < rank; ++lower) {
      if (GetParam().node_of(lower) == GetParam().node_of(rank)) return false;
    }
    return true;
  }
  int nodes() const {
    int count = 0;
    for (int rank = 0; rank < size; ++rank) count += is_first(rank);
    return count;
  }
  const int size = rank_now(PMPI_Comm_size), me = rank_now(PMPI_Comm_rank);
  const test::PretendedNodes pretended{GetParam().node_of};
};
INSTANTIATE_TEST_SUITE_P(
    Layouts, NodeFirstTest,
    ::testing::Values(Layout{"one", [](int) { return 1; }}, Layout{"each", [](int r) { return r; }},
                      Layout{"pairs", [](int r) { return r / 2; }},
                      Layout{"turns", [](int r) { return r % 2; }},
                      Layout{"uneven", [](int r) { return r == 1 ? 5 : 3; }},
                      Layout{"mixed", [](int r) { return 9 - (r * r + 1) % 3; }}),
    [](const auto& info) { return info.param.name; });

constexpr auto sum = Group::Op::sum, least = Group::Op::min, most = Group::Op::max;

/// What ranks give to the reduction of this number, and its result, computed in plain C++.
std::vector<std::int64_t> brought(int number, int rank, std::size_t count) {
  std::mt19937_64 random(static_cast<unsigned>(1000 * number + rank));
  std::vector<std::int64_t> values(count);
  for (auto& value : values) value = static_cast<std::int64_t>(random());
  return values;
}
std::vector<std::int64_t> expected(int number, int size, std::size_t count, Group::Op op) {
  auto all = brought(number, 0, count);
  for (int rank = 1; rank < size; ++rank) {
    const auto more = brought(number, rank, count);
    for (std::size_t i = 0; i < count; ++i) {
      all[i] = op == least  ? std::min(all[i], more[i])
               : op == most ? std::max(all[i], more[i])
                            : static_cast<std::int64_t>(static_cast<std::uint64_t>(all[i]) +
                                                        static_cast<std::uint64_t>(more[i]));
    }
  }
  return all;
}

TEST_P(NodeFirstTest, GivesTheBitsOfThePlainWay) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, MpiGroup::default_piece}) {
    MpiGroup group(MPI_COMM_WORLD, piece);
    int number = 0;
    for (const std::size_t count : {0, 1, 6, 7, 8, 100}) {
      for (const auto op : {sum, least, most}) {
        auto values = brought(++number, me, count);
        group.all_reduce(values, op);
        EXPECT_EQ(values, expected(number, size, count, op));
      }
      for (int root = 0; root < size; ++root) {
        const std::string right(count, static_cast<char>('a' + root));
        std::string text = me == root ? right : "something else";
        group.broadcast(text, root);
        EXPECT_EQ(text, right);
      }
      group.barrier();
    }
  }
}

// Each rank ends its reductions in its own order, gives some of them up, and begins and reduces
// other things meanwhile; only the order in which reductions begin is the same on all.
TEST_P(NodeFirstTest, ReductionsOverlapInAnyOrder) {
  MpiGroup group(MPI_COMM_WORLD);
  std::mt19937 common(17), own(static_cast<unsigned>(me) + 1);
  struct One {
    int number;
    std::size_t count;
    Group::Op op;
    std::unique_ptr<Group::Reduction> reduction;
  };
  std::vector<One> under_way;
  const auto end_one = [&] {
    const auto which = own() % under_way.size();
    auto one = std::move(under_way[which]);
    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
    if (own() % 8 == 0) return;  // given up
    std::vector<std::int64_t> values(one.count);
    one.reduction->end(values);
    EXPECT_EQ(values, expected(one.number, size, one.count, one.op));
  };
  for (int number = 1; number <= 150; ++number) {
    const std::size_t count = 1 + common() % 9;
    const auto op = std::array{sum, least, most}[common() % 3];
    switch (common() % 6) {
      case 0: {
        auto values = brought(number, me, count);
        group.all_reduce(values, op);
        EXPECT_EQ(values, expected(number, size, count, op));
        break;
      }
      case 1: {
        const int root = static_cast<int>(common() % static_cast<unsigned>(size));
        std::string text = me == root ? cat("text ", number) : "";
        group.broadcast(text, root);
        EXPECT_EQ(text, cat("text ", number));
        break;
      }
      default:
        under_way.push_back({number, count, op, group.reduction(count, op)});
        under_way.back().reduction->begin(brought(number, me, count));
    }
    while (!under_way.empty() && own() % 3 == 0) end_one();
  }
  while (!under_way.empty()) end_one();
  group.barrier();
}

// MPI alone completes a reduction that was begun: a rank that has begun its part may wait for a
// message that another rank sends when it has the sum.
TEST_P(NodeFirstTest, AReductionNeedsNobodyWhoHasBegunIt) {
  MpiGroup group(MPI_COMM_WORLD);
  for (int last = 0; last < size; ++last) {
    const auto all = group.reduction(1, sum);
    std::array<std::int64_t, 1> values{1};
    all->begin(values);
    if (me != last && size > 1) {
      char byte = 0;
      MPI_Recv(&byte, 1, MPI_CHAR, last, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    all->end(values);
    EXPECT_EQ(values[0], size);
    const char byte = 'x';
    for (int other = 0; me == last && other < size; ++other) {
      if (other != me) MPI_Send(&byte, 1, MPI_CHAR, other, 5, MPI_COMM_WORLD);
    }
  }
  group.barrier();
}

TEST_P(NodeFirstTest, OnlyFirstRanksMeetOtherNodes) {
  MpiGroup group(MPI_COMM_WORLD);
  const auto calls_in = [&](auto&& action) {
    const int before = test::collectives_between_nodes();
    action();
    return test::collectives_between_nodes() - before;
  };
  const int once = nodes() > 1 && (is_first(me) || nodes() == size);
  std::int64_t value = me;
  EXPECT_EQ(calls_in([&] { group.all_reduce({&value, 1}, sum); }), once);
  EXPECT_EQ(calls_in([&] { group.barrier(); }), once);
  for (int root = 0; root < size; ++root) {
    std::string text = "text";
    EXPECT_EQ(calls_in([&] { group.broadcast(text, root); }), 2 * once);  // its length, its bytes
  }
}

TEST_P(NodeFirstTest, FreesWhatItMakes) {
  const int before = test::communicators_alive();
  {
    const MpiGroup group(MPI_COMM_WORLD);
    const bool has_ways = nodes() > 1 && nodes() < size;
    bool in_order = true;
    for (int rank = 1; rank < size; ++rank) {
      in_order = in_order && group.nodes()[static_cast<std::size_t>(rank - 1)] <=
                                 group.nodes()[static_cast<std::size_t>(rank)];
    }
    EXPECT_EQ(test::communicators_alive() - before,
              1 + (has_ways ? shares_node(me) + is_first(me) + !in_order : 0));
  }
  EXPECT_EQ(test::communicators_alive(), before);
}

// All ranks fail at the same call, so that none waits in vain.
TEST_P(NodeFirstTest, EachCallIsChecked) {
  MpiGroup group(MPI_COMM_WORLD);
  const bool has_ways = nodes() > 1 && nodes() < size;
  std::int64_t value = 1;
  std::string text = "text";
  const auto fails = [&](const char* function, const std::function<void()>& action) {
    std::optional<Error> error;
    {
      const FailingCall failing(function);
      error = error_of(action);
    }
    ASSERT_TRUE(error) << function;
    EXPECT_EQ(error->code(), Code::communication);
    EXPECT_EQ(error->problem(), cat(function, " failed"));
    EXPECT_EQ(error->rank(), me);
  };
  const auto reduce = [&] { group.all_reduce({&value, 1}, sum); };
  if (!has_ways) return fails("MPI_Iallreduce", reduce);
  for (int rank = 0; rank < size; ++rank) {
    if (!shares_node(rank)) return;  // who has no node to fail on would wait for the others
  }
  fails("MPI_Ireduce", reduce);
  fails("MPI_Bcast", [&] { group.broadcast(text, size - 1); });
  fails("MPI_Barrier", [&] { group.barrier(); });
  reduce();
  EXPECT_EQ(value, size);
}

TEST_P(NodeFirstTest, WhoIsMissingIsKnownByItsRankOfAll) {
  if (size == 1) return;
  MpiGroup group(MPI_COMM_WORLD);
  const test::Directory directory(group);
  set_wait_limits({.log_seconds = 0.02, .end_seconds = 0});
  for (int missing = 0; missing < size; ++missing) {
    const auto told = directory.path() / cat("told", missing);
    const int observer = missing == 0 ? 1 : 0;
    std::thread looks;
    if (me == observer) {
      looks = std::thread([&] {
        while (group.awaited() != std::vector{missing}) std::this_thread::yield();
        std::ofstream(told) << "told";
      });
    }
    while (me == missing && !std::filesystem::exists(told)) std::this_thread::yield();
    std::int64_t value = 1;
    group.all_reduce({&value, 1}, sum);
    EXPECT_EQ(value, size);
    EXPECT_TRUE(group.awaited().empty());
    if (looks.joinable()) looks.join();
  }
  set_wait_limits({});
}

// MPI gives the context of a freed communicator to the next one. Here one communicator takes the
// place of both.
TEST(RollCallTest, ASignOfAnEarlierGroupIsNoneOfALaterOne) {
  int size = 0, me = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  if (size == 1) return;
  MPI_Comm both = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &both);
  set_wait_limits({.log_seconds = 0.02, .end_seconds = 0});
  {
    // The last rank waits until its sign has come to rank 0, where nobody receives it.
    RollCall earlier;
    earlier.open(both);
    const auto number = earlier.begin(both);
    if (me == 0) MPI_Probe(size - 1, MPI_ANY_TAG, both, MPI_STATUS_IGNORE);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    const auto all_are_there = [&] {
      int done = 0;
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      return done != 0;
    };
    if (me == size - 1) earlier.wait(both, number, all_are_there);
    if (me != size - 1) MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (me != 0) earlier.close(both);
  }
  RollCall later;
  later.open(both);
  const auto number = later.begin(both);
  std::vector<int> awaited;
  if (me == 0) {
    later.wait(both, number, [&] {
      int there = 0;
      MPI_Iprobe(size - 1, MPI_ANY_TAG, both, &there, MPI_STATUS_IGNORE);
      awaited = later.awaited();
      return !there;
    });
    std::vector<int> others(static_cast<std::size_t>(size) - 1);
    std::iota(others.begin(), others.end(), 1);
    EXPECT_EQ(awaited, others);
  }
  set_wait_limits({});
  MPI_Barrier(both);
  later.close(both);
  MPI_Comm_free(&both);
}

}  // namespace
}  // namespace cairn
