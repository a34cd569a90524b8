// The clocks of ranks that are fibres on a simulated machine. Processor time is real, so only the
// other parts of a time are known.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "cairn/error.hpp"
#include "testing/machine_files.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using Time = Machine::Time;

MachineOptions round_numbers() {
  MachineOptions options;
  options.ranks_per_node = 2;
  options.network = {.overhead = 0,
                     .in_node = 1,
                     .between_nodes = 10,
                     .hop = 0,
                     .nodes_a_leaf = 32,
                     .node_rate = 1,
                     .memory_rate = 100};
  options.files = {.operation = 100,
                   .sync = 1000,
                   .in_directory = 1.0 / 50,
                   .in_all = 1.0 / 10,
                   .node_rate = 1,
                   .rate = 1e9};
  return options;
}

void run(Machine& machine, const std::function<void(std::shared_ptr<Group>)>& body) {
  ThreadOptions options;
  options.machine = &machine;
  run_threads(machine.ranks(), body, options);
}

// The simulated part of a time: processor time is only thousandths.
double simulated(const Machine& machine, int rank) {
  const auto& time = machine.time(rank);
  return time.at - time.of[Time::work];
}

TEST(Machine, MessageTakesLatencyAndBytes) {
  Machine machine(4, round_numbers());
  run(machine, [](const auto& group) {
    const std::string five(5, 'x');
    if (group->rank() == 0) group->send(1, five);
    if (group->rank() == 0) group->send(2, five);
    if (group->rank() == 1 || group->rank() == 2) {
      EXPECT_EQ(group->receive(0), five);
    }
  });
  EXPECT_NEAR(simulated(machine, 1), 1 + 5.0 / 100, 0.1);
  EXPECT_NEAR(simulated(machine, 2), 10 + 5, 0.2);
  EXPECT_NEAR(simulated(machine, 3), 0, 1e-9);
  EXPECT_EQ(machine.time(0).of[Time::messages], 0) << "nobody waits for a short message's receipt";
}

TEST(Machine, MessagesForOneRankComeOneAfterTheOther) {
  Machine machine(6, round_numbers());
  run(machine, [](const auto& group) {
    const std::string bytes(100, 'x');
    if (group->rank() == 2 || group->rank() == 4) group->send(0, bytes);
    if (group->rank() == 0) {
      group->receive(2);
      group->receive(4);
    }
  });
  EXPECT_NEAR(simulated(machine, 0), 10 + 200, 0.5);
  EXPECT_EQ(machine.figures(0).messages_in, 2);
  EXPECT_EQ(machine.figures(0).bytes_in, 200);
}

TEST(Machine, CollectivesWaitForTheLastRank) {
  Machine machine(4, round_numbers());
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  run(machine, [&](const auto& group) {
    MachineFiles watch(machine, group->rank());
    io::CountingFiles files(disk, &watch);
    if (group->rank() == 3) files.create_directory("/d");
    group->barrier();
  });
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(machine.time(rank).of[Time::paths], 100) << "the way is the last one's";
    EXPECT_NEAR(simulated(machine, rank), 100 + 2 * 1 + 10, 1);
  }
}

TEST(Machine, OperationsOfOneDirectoryStandInLine) {
  Machine machine(4, round_numbers());
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  disk->create_directory("/a");
  disk->create_directory("/b");
  run(machine, [&](const auto& group) {
    MachineFiles watch(machine, group->rank());
    io::CountingFiles files(disk, &watch);
    files.create((group->rank() < 3 ? "/a/" : "/b/") + std::to_string(group->rank()));
  });
  // Processor time decides which rank is first.
  std::vector<double> times;
  for (int rank = 0; rank < 3; ++rank) times.push_back(simulated(machine, rank));
  std::sort(times.begin(), times.end());
  EXPECT_NEAR(times[0], 100, 31);
  EXPECT_NEAR(times[1] - times[0], 50, 31);
  EXPECT_NEAR(times[2], 200, 31);
  EXPECT_LT(simulated(machine, 3), 131) << "the server takes one from anywhere every 10 seconds";
}

TEST(Machine, WhatHappensBehindTheBackTakesNoTimeOfTheCaller) {
  Machine machine(1, round_numbers());
  const auto disk = std::make_shared<io::MemoryFileSystem>();
  run(machine, [&](const auto&) {
    MachineFiles watch(machine, 0);
    io::CountingFiles files(disk, &watch);
    MachineQueue queue(machine, 0);
    queue.behind_the_back = true;
    queue.run([&] { files.create_directory("/d"); });
    queue.run([&] { files.create_directory("/d/e"); });
    EXPECT_EQ(machine.figures(0).time.of[Time::paths], 0);
    EXPECT_EQ(machine.figures(0).paths.total(), 2);
    queue.wait();
    EXPECT_EQ(machine.figures(0).time.of[Time::paths], 200);
  });
}

TEST(Machine, ManyRanksPassAMessageRound) {
  static constexpr int ranks = 3000;
  Machine machine(ranks, {});
  run(machine, [](const auto& group) {
    const int rank = group->rank();
    if (rank > 0) group->receive(rank - 1);
    group->send((rank + 1) % ranks, "on");
    if (rank == 0) group->receive(ranks - 1);
    std::int64_t one = 1;
    group->all_reduce({&one, 1}, Group::Op::sum);
    EXPECT_EQ(one, ranks);
  });
  EXPECT_GT(machine.time(0).at, ranks * 0.5e-6);
}

TEST(Machine, ExceptionsThatAreHandledStayWithTheirRank) {
  Machine machine(3, {});
  run(machine, [](const auto& group) {
    try {
      throw std::runtime_error(std::to_string(group->rank()));
    } catch (...) {
      group->barrier();  // the others handle theirs at the same time
      try {
        throw;
      } catch (const std::exception& error) {
        EXPECT_EQ(error.what(), std::to_string(group->rank()));
      }
    }
    EXPECT_EQ(std::uncaught_exceptions(), 0);
  });
}

TEST(Machine, RanksThatWaitForEachOtherGetAnError) {
  Machine machine(2, {});
  try {
    run(machine, [](const auto& group) { group->receive(1 - group->rank()); });
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::communication);
    EXPECT_NE(std::string(error.what()).find("deadlock"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace cairn
