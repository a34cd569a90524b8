// A group before MPI_Init and after MPI_Finalize. Has a main of its own.
#include "cairn/mpi.hpp"
#include "support/group_kit.hpp"

namespace cairn {
namespace {

using test::expect_error;
using ::testing::HasSubstr;

TEST(Lifetime, FromBeforeInitToAfterFinalize) {
  const auto make = [] { mpi(MPI_COMM_WORLD); };
  expect_error(make, Code::invalid_argument,
               "MPI cannot be used now (it is not initialised yet, or finalised already) Make the "
               "group between MPI_Init and MPI_Finalize.");

  ASSERT_EQ(MPI_Init(nullptr, nullptr), MPI_SUCCESS);
  auto group = mpi(MPI_COMM_WORLD);
  const int rank = group->rank();
  group->barrier();
  // Begun by all, ended by none: one is given up before MPI ends, one is there after it.
  std::int64_t value = rank;
  auto given_up = group->reduction(1, Group::Op::sum), kept = group->reduction(1, Group::Op::sum);
  given_up->begin({&value, 1});
  kept->begin({&value, 1});
  given_up.reset();
  ASSERT_EQ(MPI_Finalize(), MPI_SUCCESS);

  const auto refused = [&](auto operation) {
    expect_error(operation, Code::communication, HasSubstr("MPI is finalised already"));
  };
  std::string text;
  refused([&] { group->barrier(); });
  refused([&] { group->broadcast(text, 0); });
  refused([&] { group->all_reduce({}, Group::Op::sum); });
  refused([&] { group->exchange({}, {}); });
  refused([&] { group->send(0, "text"); });
  refused([&] { group->receive(0); });
  refused([&] { kept->end({&value, 1}); });
  EXPECT_NO_THROW(kept.reset());
  EXPECT_EQ(group->rank(), rank);
  EXPECT_NO_THROW(group.reset());
  expect_error(make, Code::invalid_argument, HasSubstr("MPI cannot be used now"));
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
