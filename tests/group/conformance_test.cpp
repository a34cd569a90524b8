// What every Group promises. The same source runs on serial, thread and MPI ranks.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "support/group_kit.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using test::expect_error;
using ::testing::HasSubstr;

class GroupConformance : public test::OnGroups {};
CAIRN_ON_GROUPS(GroupConformance);

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}
std::span<std::byte> bytes_of(std::string& text) { return std::as_writable_bytes(std::span(text)); }

/// Bytes that identify sender, receiver and index, with a length that both sides know.
std::string message(int from, int to, int index, std::size_t length) {
  std::minstd_rand random(static_cast<unsigned>(1 + from + 64 * to + 4096 * index));
  std::string text(length, '\0');
  for (auto& c : text) c = static_cast<char>(random());
  return text;
}

TEST_P(GroupConformance, RanksAreNumbered) {
  on_ranks([&](auto group) {
    EXPECT_EQ(group->size(), ranks());
    std::vector<std::int64_t> seen(static_cast<std::size_t>(group->size()), 0);
    seen[static_cast<std::size_t>(group->rank())] = 1;
    group->all_reduce(seen, Group::Op::sum);
    EXPECT_THAT(seen, ::testing::Each(1));
  });
}

TEST_P(GroupConformance, NodesAreNumberedByTheirLowestRank) {
  on_ranks([&](auto group) {
    EXPECT_GE(group->node(), 0);
    if (group->rank() == 0) {
      EXPECT_EQ(group->node(), 0);
    }
    std::vector<std::int64_t> nodes(static_cast<std::size_t>(group->size()), 0);
    nodes[static_cast<std::size_t>(group->rank())] = group->node();
    group->all_reduce(nodes, Group::Op::sum);
    std::int64_t next = 0;
    for (const auto node : nodes) {
      EXPECT_LE(node, next);
      if (node == next) ++next;
    }
    const std::vector<std::int64_t> known(group->nodes().begin(), group->nodes().end());
    if (group->size() > 1) {
      EXPECT_EQ(known, nodes);
    }
  });
}

TEST_P(GroupConformance, ExchangeAllToAllManyMessagesOfManyLengths) {
  on_ranks([&](auto group) {
    const int me = group->rank(), size = group->size();
    const auto length = [](int from, int to, int index) {
      return static_cast<std::size_t>((from * 7 + to * 3 + index * 1001) % 5000);
    };
    constexpr int each = 4;
    std::vector<std::string> out, in;
    for (int peer = 0; peer < size; ++peer) {
      for (int i = 0; i < each; ++i) {
        out.push_back(message(me, peer, i, length(me, peer, i)));
        in.emplace_back(length(peer, me, i), '?');
      }
    }
    std::vector<Group::Send> sends;
    std::vector<Group::Receive> receives;
    for (int k = 0; k < size * each; ++k) {
      sends.push_back({k / each, bytes_of(std::as_const(out[static_cast<std::size_t>(k)]))});
      receives.push_back({k / each, bytes_of(in[static_cast<std::size_t>(k)])});
    }
    // Only the order between two ranks matters, so the last rank's messages are received first.
    std::stable_sort(receives.begin(), receives.end(),
                     [](const auto& a, const auto& b) { return a.from > b.from; });
    group->exchange(sends, receives);
    for (int k = 0; k < size * each; ++k) {
      const int peer = k / each, i = k % each;
      EXPECT_EQ(in[static_cast<std::size_t>(k)], message(peer, me, i, length(peer, me, i)))
          << "message " << i << " from " << peer << " to " << me;
    }
  });
}

TEST_P(GroupConformance, ExchangeConcernsOnlyWhoHasSomething) {
  on_ranks([&](auto group) {
    const int me = group->rank(), last = group->size() - 1;
    if (last == 0) return;
    const std::string out = message(0, last, 0, 100'000);
    std::string in(out.size(), '?');
    if (me == 0) group->exchange(std::vector<Group::Send>{{last, bytes_of(out)}}, {});
    if (me == last) group->exchange({}, std::vector<Group::Receive>{{0, bytes_of(in)}});
    if (me == last) {
      EXPECT_EQ(in, out);
    }
  });
}

TEST_P(GroupConformance, ExchangeOfNothingAtAll) {
  on_ranks([&](auto group) {
    group->exchange({}, {});
    const int size = group->size(), me = group->rank();
    const std::string empty;
    group->exchange(std::vector<Group::Send>{{(me + 1) % size, bytes_of(empty)}},
                    std::vector<Group::Receive>{{(me + size - 1) % size, {}}});
  });
}

TEST_P(GroupConformance, ExchangeInARingOfLargeMessages) {
  on_ranks([&](auto group) {
    const int me = group->rank(), size = group->size();
    const int right = (me + 1) % size, left = (me + size - 1) % size;
    const std::string out = message(me, right, 0, 1'000'003);
    std::string in(out.size(), '?');
    group->exchange(std::vector<Group::Send>{{right, bytes_of(out)}},
                    std::vector<Group::Receive>{{left, bytes_of(in)}});
    EXPECT_EQ(in, message(left, me, 0, in.size()));
  });
}

TEST_P(GroupConformance, ExchangeWithItself) {
  on_ranks([&](auto group) {
    const int me = group->rank();
    const std::string a = "first", b = "second one";
    std::string in_a(a.size(), '?'), in_b(b.size(), '?');
    group->exchange(std::vector<Group::Send>{{me, bytes_of(a)}, {me, bytes_of(b)}},
                    std::vector<Group::Receive>{{me, bytes_of(in_a)}, {me, bytes_of(in_b)}});
    EXPECT_EQ(in_a, a);
    EXPECT_EQ(in_b, b);
  });
}

TEST_P(GroupConformance, ExchangeWithItselfMustBeWhole) {
  on_ranks([&](auto group) {
    const int me = group->rank();
    const std::string text = "text";
    std::string in(3, '?');
    expect_error(
        [&] {
          group->exchange(std::vector<Group::Send>{{me, bytes_of(text)}}, {});
        },
        Code::invalid_argument, test::Says("sends itself 1 messages and receives 0"));
    expect_error(
        [&] {
          group->exchange(std::vector<Group::Send>{{me, bytes_of(text)}},
                          std::vector<Group::Receive>{{me, bytes_of(in)}});
        },
        Code::invalid_argument, test::Says("of other lengths"));
  });
}

TEST_P(GroupConformance, RanksOutsideAreRefused) {
  on_ranks([&](auto group) {
    const auto refused = [&](auto function, int rank) {
      expect_error(function, Code::invalid_argument,
                   HasSubstr("rank " + std::to_string(rank) + " is outside the group of " +
                             std::to_string(group->size()) + " ranks"));
    };
    const int size = group->size();
    std::string text = "x";
    refused([&] { group->send(size, text); }, size);
    refused([&] { group->receive(-1); }, -1);
    refused([&] { group->broadcast(text, size); }, size);
    refused([&] { group->exchange(std::vector<Group::Send>{{size, {}}}, {}); }, size);
    refused([&] { group->exchange({}, std::vector<Group::Receive>{{-1, {}}}); }, -1);
  });
}

TEST_P(GroupConformance, SendAndReceiveLengthsUnknownToTheReceiver) {
  on_ranks([&](auto group) {
    const int me = group->rank(), size = group->size();
    for (const std::size_t length : {0, 1, 4096, 300'000}) {
      if (me == 0) {
        for (int to = 1; to < size; ++to) group->send(to, message(0, to, 1, length + to));
        for (int from = size - 1; from > 0; --from) {
          EXPECT_EQ(group->receive(from), message(from, 0, 2, length));
        }
      } else {
        EXPECT_EQ(group->receive(0), message(0, me, 1, length + me));
        group->send(0, message(me, 0, 2, length));
      }
    }
  });
}

TEST_P(GroupConformance, SendToItselfIsKept) {
  on_ranks([&](auto group) {
    const int me = group->rank();
    group->send(me, "one");
    group->send(me, message(me, me, 0, 1'000'000));
    EXPECT_EQ(group->receive(me), "one");
    EXPECT_EQ(group->receive(me), message(me, me, 0, 1'000'000));
    expect_error([&] { group->receive(me); }, Code::communication,
                 test::Says("waits for a message from itself that it has not sent"));
  });
}

TEST_P(GroupConformance, KindsOfMessagesInTurn) {
  on_ranks([&](auto group) {
    const int me = group->rank(), last = group->size() - 1;
    for (int round = 0; round < 3 && last > 0; ++round) {
      const std::string exchanged = message(0, last, round, 9), sent = message(0, last, round, 14);
      if (me == last) {
        std::string in(exchanged.size(), '?');
        EXPECT_EQ(group->receive(0), sent);
        group->exchange({}, std::vector<Group::Receive>{{0, bytes_of(in)}});
        EXPECT_EQ(in, exchanged);
      } else if (me == 0) {
        group->send(last, sent);
        group->exchange(std::vector<Group::Send>{{last, bytes_of(exchanged)}}, {});
      }
      std::string text = me == 0 ? "to all" : "";
      group->broadcast(text, 0);
      EXPECT_EQ(text, "to all");
    }
  });
}

TEST_P(GroupConformance, BroadcastFromEachRank) {
  on_ranks([&](auto group) {
    for (int root = 0; root < group->size(); ++root) {
      for (const std::size_t length : {0, 1, 70'000}) {
        const std::string expected = message(root, 0, 5, length);
        std::string text = group->rank() == root ? expected : "something else";
        group->broadcast(text, root);
        EXPECT_EQ(text, expected);
      }
    }
  });
}

TEST_P(GroupConformance, AllReduceElementwise) {
  on_ranks([&](auto group) {
    const std::int64_t me = group->rank(), size = group->size();
    const auto least = std::numeric_limits<std::int64_t>::min();
    const auto greatest = std::numeric_limits<std::int64_t>::max();
    std::vector<std::int64_t> low{me, -me, greatest, me == size - 1 ? least : 0};
    group->all_reduce(low, Group::Op::min);
    EXPECT_THAT(low, ::testing::ElementsAre(0, 1 - size, greatest, least));
    std::vector<std::int64_t> high{me, -me, least, me == size - 1 ? greatest : 0};
    group->all_reduce(high, Group::Op::max);
    EXPECT_THAT(high, ::testing::ElementsAre(size - 1, 0, least, greatest));
    std::vector<std::int64_t> sum(1000);
    std::iota(sum.begin(), sum.end(), me << 33);
    group->all_reduce(sum, Group::Op::sum);
    for (std::int64_t i = 0; i < 1000; ++i) {
      EXPECT_EQ(sum[static_cast<std::size_t>(i)], i * size + ((size * (size - 1) / 2) << 33));
    }
    group->all_reduce({}, Group::Op::sum);
  });
}

TEST_P(GroupConformance, BarriersInARow) {
  on_ranks([&](auto group) {
    for (int round = 0; round < 20; ++round) {
      group->barrier();
      const std::int64_t me = group->rank();
      std::int64_t value = me == round % group->size() ? round : 0;
      group->all_reduce(std::span(&value, 1), Group::Op::sum);
      EXPECT_EQ(value, round);
    }
  });
}

TEST_P(GroupConformance, RandomTrafficArrives) {
  on_ranks([&](auto group) {
    const int me = group->rank(), size = group->size();
    std::mt19937 common(4711);
    for (int round = 0; round < 30; ++round) {
      struct PlannedSave {
        int from, to;
        std::size_t length;
      };
      std::vector<PlannedSave> plan;
      for (unsigned i = 0, n = common() % 20; i < n; ++i) {
        const int from = static_cast<int>(common() % static_cast<unsigned>(size));
        const int to = static_cast<int>(common() % static_cast<unsigned>(size));
        plan.push_back({from, to, common() % 3 == 0 ? 0 : common() % 20'000});
      }
      std::vector<std::string> out(plan.size()), in(plan.size());
      std::vector<Group::Send> sends;
      std::vector<Group::Receive> receives;
      for (std::size_t i = 0; i < plan.size(); ++i) {
        const auto& [from, to, length] = plan[i];
        if (from == me) {
          out[i] = message(from, to, static_cast<int>(i), length);
          sends.push_back({to, bytes_of(std::as_const(out[i]))});
        }
        if (to == me) {
          in[i].resize(length);
          receives.push_back({from, bytes_of(in[i])});
        }
      }
      group->exchange(sends, receives);
      for (std::size_t i = 0; i < plan.size(); ++i) {
        if (plan[i].to == me) {
          EXPECT_EQ(in[i], message(plan[i].from, me, static_cast<int>(i), plan[i].length));
        }
      }
    }
  });
}

TEST_P(GroupConformance, ReductionsGoOnBesideOtherCalls) {
  on_ranks([&](auto group) {
    const auto sum = group->reduction(2, Group::Op::sum);
    const auto most = group->reduction(1, Group::Op::max);
    const std::int64_t me = group->rank(), size = group->size();
    for (std::int64_t turn = 0; turn < 20; ++turn) {
      EXPECT_FALSE(sum->under_way());
      std::array<std::int64_t, 2> values{me + turn, std::numeric_limits<std::int64_t>::max()};
      sum->begin(values);
      values = {-1, -1};  // they were taken
      EXPECT_TRUE(sum->under_way());
      most->begin(std::array{me == turn % size ? 100 + turn : me});
      std::int64_t other = 1;
      group->all_reduce({&other, 1}, Group::Op::sum);
      EXPECT_EQ(other, size);
      if (turn % 3 == 0) group->barrier();
      std::array<std::int64_t, 1> largest;
      most->end(largest);  // in another order than they were begun
      EXPECT_EQ(largest[0], 100 + turn);
      sum->end(values);
      EXPECT_EQ(values[0], size * (size - 1) / 2 + size * turn);
      EXPECT_EQ(static_cast<std::uint64_t>(values[1]),
                static_cast<std::uint64_t>(size) *
                    static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    }
  });
}

TEST_P(GroupConformance, AReductionMayBeGivenUpByAnyRank) {
  on_ranks([&](auto group) {
    for (int turn = 0; turn < group->size() + 1; ++turn) {
      auto least = group->reduction(1, Group::Op::min);
      least->begin(std::array{std::int64_t{7} + group->rank()});
      if (turn == group->rank() || turn == group->size()) {
        least.reset();  // dropped by one rank, and at last by all
      } else {
        std::array<std::int64_t, 1> value;
        least->end(value);
        EXPECT_EQ(value[0], 7);
      }
    }
    group->barrier();
  });
}

TEST_P(GroupConformance, ReductionsRefuseWhatIsNoReduction) {
  on_ranks([&](auto group) {
    const auto sum = group->reduction(2, Group::Op::sum);
    std::array<std::int64_t, 2> values{1, 1};
    expect_error([&] { sum->end(values); }, Code::invalid_argument,
                 test::Says("a reduction is ended that was not begun"));
    expect_error([&] { sum->begin(std::span(values).first(1)); }, Code::invalid_argument,
                 test::Says("a reduction of 2 values is given 1"));
    sum->begin(values);
    expect_error([&] { sum->begin(values); }, Code::invalid_argument,
                 test::Says("a reduction is begun twice"));
    sum->end(values);
    EXPECT_THAT(values, ::testing::Each(group->size()));
  });
}

}  // namespace
}  // namespace cairn
