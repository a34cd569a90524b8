// A group before MPI_Init and after MPI_Finalize. Has a main of its own.
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "cairn/checkpoint_manager.hpp"
#include "cairn/group.hpp"
#include "cairn/mpi.hpp"
#include "support/group_kit.hpp"
#include "support/says.hpp"

namespace cairn {
namespace {

using test::expect_error;

// Rank 0 makes the directory and removes it, the latter without messages.
class OwnDirectory {
 public:
  explicit OwnDirectory(Group& group) : is_mine_(group.rank() == 0) {
    std::string name = (std::filesystem::temp_directory_path() / "cairn-mpi-XXXXXX").string();
    if (is_mine_) {
      EXPECT_TRUE(mkdtemp(name.data()));
    }
    group.broadcast(name, 0);
    path_ = name;
  }
  ~OwnDirectory() {
    std::error_code ignored;
    if (is_mine_) std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  bool is_mine_;
  std::filesystem::path path_;
};

TEST(Lifetime, FromBeforeInitToAfterFinalize) {
  const auto make = [] { mpi(MPI_COMM_WORLD); };
  expect_error(make, Code::invalid_argument,
               "MPI cannot be used now (it is not initialised yet, or finalised already). Make the "
               "group between MPI_Init and MPI_Finalize.");

  ASSERT_EQ(MPI_Init(nullptr, nullptr), MPI_SUCCESS);
  auto group = mpi(MPI_COMM_WORLD);
  const int rank = group->rank();
  const OwnDirectory directory(*group);
  group->barrier();
  // All ranks begin these reductions and none ends them: one is given up before MPI ends, one still
  // exists after it.
  std::int64_t value = rank;
  auto given_up = group->reduction(1, Group::Op::sum), kept = group->reduction(1, Group::Op::sum);
  given_up->begin({&value, 1});
  kept->begin({&value, 1});
  given_up.reset();
  auto manager = std::make_unique<CheckpointManager>(group, directory.path());
  double stored = 1;
  State state;
  state.add("value", stored);
  manager->save_async(1, state);
  manager->save_async(2, state);
  ASSERT_EQ(MPI_Finalize(), MPI_SUCCESS);

  const auto refused = [&](auto operation) {
    expect_error(operation, Code::invalid_argument, test::Says("MPI is finalised already"));
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
  // The job does not end for this: what is on disk stays, and the program can report the error.
  refused([&] { manager->save(3, state); });
  refused([&] { manager->save_async(3, state); });
  refused([&] { manager->wait(); });
  refused([&] { manager->poll(); });
  refused([&] { manager->steps(); });
  refused([&] { manager->restore_latest(state); });
  refused([&] { CheckpointManager(group, directory.path()); });
  refused([&] { run_and_agree(group, [] {}); });
  EXPECT_NO_THROW(manager.reset());
  EXPECT_EQ(group->rank(), rank);
  EXPECT_NO_THROW(group.reset());
  expect_error(make, Code::invalid_argument, test::Says("MPI cannot be used now"));
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
