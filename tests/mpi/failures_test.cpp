// MPI calls that fail: which error is thrown, and what is left behind.
#include <memory>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "cairn/mpi.hpp"
#include "group/collectives.hpp"
#include "mpi/mpi_fakes.hpp"
#include "mpi/mpi_group.hpp"
#include "support/group_kit.hpp"

namespace cairn {
namespace {

using test::error_of;
using test::FailingCall;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Sends each kind of message, to this rank or around the ring, and calls the collectives.
void use_everything(Group& group) {
  const int me = group.rank(), size = group.size();
  const int right = (me + 1) % size, left = (me + size - 1) % size;
  const std::string out(10, 'x');
  std::string in(10, '?');
  group.exchange(std::vector<Group::Send>{{right, std::as_bytes(std::span(out))}},
                 std::vector<Group::Receive>{{left, std::as_writable_bytes(std::span(in))}});
  if (me % 2 == 0 && right != me) group.send(right, "text");
  if (left != me) group.receive(left);
  if (me % 2 == 1) group.send(right, "text");
  group.barrier();
  broadcast_text(group, "text", 0);
  all_reduce(group, 1, Group::Op::sum);
}

std::string mpi_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, static_cast<std::size_t>(length));
}

/// All ranks fail alike in these tests, so that none waits for another in vain.
void expect_failure(const std::string& function, const std::function<void()>& action,
                    int rank_named) {
  SCOPED_TRACE(function);
  for (const int code : {MPI_ERR_OTHER, MPI_ERR_NO_MEM}) {
    std::optional<Error> error;
    {
      const FailingCall failing(function, code);
      error = error_of(action);
    }
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::communication);
    EXPECT_EQ(error->problem(), function + " failed");
    EXPECT_EQ(error->reason(), mpi_text(code));
    EXPECT_EQ(std::string(error->what()), cat(function, " failed (", mpi_text(code), ")"));
    EXPECT_EQ(error->rank(), rank_named);
  }
}

TEST(Failures, EachCallOfAnOperationIsChecked) {
  const auto group = mpi(MPI_COMM_WORLD);
  const int me = group->rank(), other = (me + 1) % group->size();
  const std::string out(10, 'x');
  std::string in(10, '?');
  const std::vector<Group::Send> sends{{me, std::as_bytes(std::span(out))}};
  const std::vector<Group::Receive> receives{{me, std::as_writable_bytes(std::span(in))}};
  const auto exchange = [&] { group->exchange(sends, receives); };
  expect_failure("MPI_Irecv", exchange, me);
  expect_failure(
      "MPI_Barrier", [&] { group->barrier(); }, me);
  expect_failure(
      "MPI_Bcast", [&] { broadcast_text(*group, "x", 0); }, me);
  expect_failure(
      "MPI_Iallreduce", [&] { all_reduce(*group, 1, Group::Op::sum); }, me);
  expect_failure(
      "MPI_Iallreduce", [&] { agree(*group, std::nullopt); }, me);
  const auto sum = group->reduction(1, Group::Op::sum);
  std::int64_t one = 1;
  expect_failure(
      "MPI_Iallreduce",
      [&] {
        sum->begin({&one, 1});
      },
      me);
  EXPECT_FALSE(sum->under_way());
  sum->begin({&one, 1});
  expect_failure(
      "MPI_Test",
      [&] {
        sum->end({&one, 1});
      },
      me);
  EXPECT_NO_THROW(sum->end({&one, 1}));  // the fake has not touched it
  expect_failure(
      "MPI_Iallreduce", [&] { require_same(*group, "x", "y"); }, me);
  if (other != me) {
    expect_failure(
        "MPI_Send", [&] { group->send(other, "text"); }, me);
    expect_failure(
        "MPI_Mprobe", [&] { group->receive(other); }, me);
  }
  // The group still works, since nothing was half done.
  group->barrier();
  EXPECT_NO_THROW(use_everything(*group));
}

TEST(Failures, WhatAnExchangeHasStartedIsCalledBack) {
  for (const char* function : {"MPI_Isend", "MPI_Wait"}) {
    SCOPED_TRACE(function);
    const auto group = mpi(MPI_COMM_WORLD);  // its own: stray messages end with it
    const int me = group->rank();
    const std::string out(10, 'x');
    std::string in(10, '?'), in_too(10, '?');
    const int before = test::cancelled_or_freed_requests();
    std::optional<Error> error;
    {
      const FailingCall failing(function, MPI_ERR_OTHER, 0);
      error = error_of([&] {
        group->exchange(
            std::vector<Group::Send>{{me, std::as_bytes(std::span(out))},
                                     {me, std::as_bytes(std::span(out))}},
            std::vector<Group::Receive>{{me, std::as_writable_bytes(std::span(in))},
                                        {me, std::as_writable_bytes(std::span(in_too))}});
      });
    }
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), StartsWith(cat(function, " failed")));
    EXPECT_GE(test::cancelled_or_freed_requests(), before + 2);
  }
}

TEST(Failures, ALaterPieceMayFailToo) {
  const auto group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, 4);
  const auto fails_at = [&](int call, const std::string& function, auto action) {
    const FailingCall failing(function, MPI_ERR_OTHER, call);
    const auto error = error_of(action);
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), StartsWith(function + " failed"));
  };
  // The length, then three pieces.
  for (int call = 0; call < 4; ++call) {
    fails_at(call, "MPI_Bcast", [&] { broadcast_text(*group, "0123456789", 0); });
    group->barrier();
  }
  fails_at(4, "MPI_Iallreduce", [&] {
    std::vector<std::int64_t> values(17, 1);
    group->all_reduce(values, Group::Op::sum);
  });
}

TEST(Failures, MakingAGroupChecksEachCallAndLeaksNothing) {
  const int before = test::communicators_alive();
  const auto make = [] { mpi(MPI_COMM_WORLD); };
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  expect_failure("MPI_Comm_test_inter", make, -1);
  expect_failure("MPI_Comm_dup", make, -1);
  expect_failure("MPI_Comm_set_errhandler", make, -1);
  expect_failure("MPI_Allreduce", make, -1);
  expect_failure("MPI_Comm_rank", make, -1);
  expect_failure("MPI_Comm_size", make, rank);
  expect_failure("MPI_Comm_split_type", make, rank);
  expect_failure("MPI_Bcast", make, rank);
  expect_failure("MPI_Allgather", make, rank);
  const test::PretendedNodes nodes([](int r) { return r % 2; });
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 2) expect_failure("MPI_Comm_split", make, rank);
  EXPECT_EQ(test::communicators_alive(), before);
}

TEST(Failures, GroupsFreeTheirCommunicators) {
  const int before = test::communicators_alive();
  {
    const auto group = mpi(MPI_COMM_WORLD);
    const std::shared_ptr<Group> another_owner = group;
    EXPECT_EQ(test::communicators_alive(), before + 1);
  }
  EXPECT_EQ(test::communicators_alive(), before);
}

TEST(Failures, AFailingFreeIsLogged) {
  std::string logged;
  set_log_sink([&](LogLevel level, std::string_view message) {
    if (level == LogLevel::error) logged += message;
  });
  {
    auto group = mpi(MPI_COMM_WORLD);
    const FailingCall failing("MPI_Comm_free", MPI_ERR_COMM);
    group.reset();
  }
  set_log_sink([](LogLevel, std::string_view) {});
  EXPECT_THAT(logged, HasSubstr("MPI_Comm_free failed (" + mpi_text(MPI_ERR_COMM)));
}

TEST(Failures, AMessageOfAnotherLengthIsAnError) {
  const auto group = mpi(MPI_COMM_WORLD);
  const int last = group->size() - 1;
  if (last == 0) return;  // to itself it is refused before
  std::string text(10, '?');
  const auto bytes = std::as_writable_bytes(std::span(text));
  if (group->rank() == 0) {
    group->exchange(std::vector<Group::Send>{{last, bytes.first(3)}}, {});
    group->exchange(std::vector<Group::Send>{{last, bytes}}, {});
  }
  if (group->rank() == last) {
    const auto shorter = error_of([&] {
      group->exchange({}, std::vector<Group::Receive>{{0, bytes.first(5)}});
    });
    ASSERT_TRUE(shorter);
    EXPECT_EQ(shorter->code(), Code::communication);
    EXPECT_EQ(std::string(shorter->what()),
              cat("a message from rank 0 to rank ", last, " has 3 bytes where 5 were expected"));
    // For a request that it completes, MPICH asks the error handler of MPI_COMM_WORLD, which by
    // default ends the job, and not that of the communicator.
    MPI_Errhandler usual = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &usual);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const auto longer = error_of([&] {
      group->exchange({}, std::vector<Group::Receive>{{0, bytes.first(5)}});
    });
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, usual);
    MPI_Errhandler_free(&usual);
    ASSERT_TRUE(longer);
    EXPECT_EQ(longer->code(), Code::communication);
    EXPECT_THAT(longer->what(), StartsWith("MPI_Wait failed (" + mpi_text(MPI_ERR_TRUNCATE)));
  }
}

TEST(Failures, AbortEndsTheJobAfterAMessageToLogAndHandler) {
  const auto group = mpi(MPI_COMM_WORLD);
  std::string told;
  set_log_sink([&](LogLevel level, std::string_view message) {
    if (level == LogLevel::error) told += cat("log: ", message, "\n");
  });
  set_fatal_handler([&](std::string_view message) {
    told += cat("handler: ", message);
    throw std::runtime_error("is ignored");
  });
  EXPECT_THROW(group->abort("the index could not be agreed on"), test::Aborted);
  set_fatal_handler({});
  set_log_sink([](LogLevel, std::string_view) {});
  const auto expected = cat("rank ", group->rank(), ": the index could not be agreed on");
  EXPECT_EQ(told, cat("log: ", expected, "\nhandler: ", expected));
}

TEST(Nodes, AreNumberedByTheirLowestRank) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto nodes_are = [&](std::function<int(int)> colour, std::function<int(int)> expected) {
    const test::PretendedNodes nodes(std::move(colour));
    const auto group = mpi(MPI_COMM_WORLD);
    EXPECT_EQ(group->node(), expected(group->rank()));
  };
  nodes_are([](int) { return 5; }, [](int) { return 0; });
  nodes_are([](int rank) { return rank; }, [](int rank) { return rank; });
  nodes_are([](int rank) { return rank / 2; }, [](int rank) { return rank / 2; });
  nodes_are([](int rank) { return rank % 3; }, [](int rank) { return rank % 3; });
  // The colours decrease while the lowest ranks of the nodes increase.
  nodes_are([](int rank) { return 9 - rank % 2; }, [](int rank) { return rank % 2; });
  // Ranks 0 and size - 1 share the first node, all others the second.
  nodes_are([size](int rank) { return rank == 0 || rank == size - 1 ? 3 : 1; },
            [size](int rank) { return rank == 0 || rank == size - 1 ? 0 : 1; });
}

}  // namespace
}  // namespace cairn
