// What the ranks of a communicator do beyond every Group.
#include <random>

#include "cairn/mpi.hpp"
#include "group/collectives.hpp"
#include "mpi/mpi_group.hpp"
#include "support/group_kit.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using test::expect_error;

std::string pattern(std::size_t length, int seed) {
  std::minstd_rand random(static_cast<unsigned>(seed + 1));
  std::string text(length, '\0');
  for (auto& c : text) c = static_cast<char>(random());
  return text;
}

std::span<const std::byte> const_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(MpiGroup, HasTheNumbersOfItsCommunicator) {
  int world_rank = -1, world_size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  MPI_Comm reversed, half;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &reversed);
  MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, 0, &half);
  {
    const auto group = mpi(reversed);
    EXPECT_EQ(group->size(), world_size);
    EXPECT_EQ(group->rank(), world_size - 1 - world_rank);
    const auto part = mpi(half);
    EXPECT_EQ(part->rank(), world_rank / 2);
    EXPECT_EQ(all_reduce(*part, world_rank % 2, Group::Op::max), world_rank % 2);
  }
  MPI_Comm_free(&reversed);
  MPI_Comm_free(&half);
}

TEST(MpiGroup, OutlivesTheCommunicatorItWasMadeFrom) {
  MPI_Comm mine;
  MPI_Comm_dup(MPI_COMM_WORLD, &mine);
  const auto group = mpi(mine);
  MPI_Comm_free(&mine);
  EXPECT_EQ(all_reduce(*group, 1, Group::Op::sum), group->size());
}

TEST(MpiGroup, LeavesTheCallersErrorHandlerAndMessagesAlone) {
  MPI_Comm mine;
  MPI_Comm_dup(MPI_COMM_WORLD, &mine);
  MPI_Errhandler before, after;
  MPI_Comm_get_errhandler(mine, &before);
  const auto group = mpi(mine);
  MPI_Comm_get_errhandler(mine, &after);
  EXPECT_EQ(before, after);
  MPI_Errhandler_free(&before);
  MPI_Errhandler_free(&after);
  // The application's messages, with any tag, do not mix with ours.
  const int right = (group->rank() + 1) % group->size();
  const int left = (group->rank() + group->size() - 1) % group->size();
  int theirs = -1;
  MPI_Request request;
  MPI_Irecv(&theirs, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, mine, &request);
  group->barrier();
  const int last = group->size() - 1;
  if (last > 0 && group->rank() == 0) group->send(last, "ours");
  if (last > 0 && group->rank() == last) {
    EXPECT_EQ(group->receive(0), "ours");
  }
  const int sent = group->rank();
  MPI_Send(&sent, 1, MPI_INT, right, 1, mine);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(theirs, left);
  MPI_Comm_free(&mine);
}

TEST(MpiGroup, TwoGroupsDoNotMix) {
  const auto one = mpi(MPI_COMM_WORLD), two = mpi(MPI_COMM_WORLD);
  const int last = one->size() - 1;
  if (last == 0) return;
  if (one->rank() == 0) {
    one->send(last, "one");
    two->send(last, "two");
  }
  if (one->rank() == last) {
    EXPECT_EQ(two->receive(0), "two");
    EXPECT_EQ(one->receive(0), "one");
  }
}

TEST(MpiGroup, KindsOfMessagesDoNotMix) {
  const auto group = mpi(MPI_COMM_WORLD);
  const int last = group->size() - 1;
  if (last == 0) return;
  // Small messages wait at their receiver, which first asks for the second one, of the other kind.
  const std::string exchanged = "exchanged";
  if (group->rank() == 0) {
    group->exchange(std::vector<Group::Send>{{last, const_bytes(exchanged)}}, {});
    group->send(last, "sent");
  }
  if (group->rank() == last) {
    std::string in(exchanged.size(), '?');
    EXPECT_EQ(group->receive(0), "sent");
    group->exchange({}, std::vector<Group::Receive>{{0, std::as_writable_bytes(std::span(in))}});
    EXPECT_EQ(in, exchanged);
  }
}

TEST(MpiGroup, NoCommunicatorIsRefused) {
  expect_error([] { mpi(MPI_COMM_NULL); }, Code::invalid_argument,
               test::Says("the communicator is MPI_COMM_NULL"));
}

TEST(MpiGroup, AnIntercommunicatorIsRefused) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1) return;  // takes two groups
  MPI_Comm half, inter;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 0 : 1, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 7, &inter);
  expect_error([&] { mpi(inter); }, Code::invalid_argument,
               test::Says("the communicator is an intercommunicator"));
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

/// Messages longer than a piece; small pieces stand for those of 2 GiB.
class Pieces : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Pieces, ::testing::Values(1, 7, 64, 1000));

TEST_P(Pieces, EveryOperationSplits) {
  const std::size_t piece = GetParam();
  MpiGroup group(MPI_COMM_WORLD, piece);
  const int me = group.rank(), size = group.size();
  const int right = (me + 1) % size, left = (me + size - 1) % size;
  for (const std::size_t length :
       {std::size_t{0}, piece - 1, piece, piece + 1, 3 * piece, std::size_t{3000}}) {
    const std::string out = pattern(length, me), expected = pattern(length, left);
    std::string in(length, '?'), in_again(length, '?');
    group.exchange(
        std::vector<Group::Send>{{right, const_bytes(out)}, {right, const_bytes(out)}},
        std::vector<Group::Receive>{{left, std::as_writable_bytes(std::span(in))},
                                    {left, std::as_writable_bytes(std::span(in_again))}});
    EXPECT_EQ(in, expected);
    EXPECT_EQ(in_again, expected);

    if (me == 0) group.send(right, out);
    EXPECT_EQ(group.receive(left), expected);
    if (me != 0) group.send(right, out);

    for (int root = 0; root < size; ++root) {
      std::string text = me == root ? out : "";
      group.broadcast(text, root);
      EXPECT_EQ(text, pattern(length, root));
    }

    std::vector<std::int64_t> values(length, me);
    group.all_reduce(values, Group::Op::sum);
    EXPECT_THAT(values, ::testing::Each(size * (size - 1) / 2));
  }
}

}  // namespace
}  // namespace cairn
