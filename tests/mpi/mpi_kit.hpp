#pragma once
/// Directories and smaller groups for tests of processes.
#include <gtest/gtest.h>
#include <mpi.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "cairn/error.hpp"
#include "cairn/mpi.hpp"
#include "group/collectives.hpp"

namespace cairn::test {

/// A directory for this test only, the same on all ranks; rank 0 removes it.
class Directory {
 public:
  explicit Directory(Group& group,
                     const std::filesystem::path& in = std::filesystem::temp_directory_path())
      : group_(group) {
    path_ = from_root(group, [&] {
      std::string name = (in / "cairn-mpi-XXXXXX").string();
      if (!mkdtemp(name.data())) throw Error(Code::io, "cannot make a temporary directory");
      return name;
    });
  }
  ~Directory() {
    std::error_code ignored;
    if (group_.rank() == 0) std::filesystem::remove_all(path_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  Group& group_;
  std::filesystem::path path_;
};

/// The first n ranks as a communicator of their own; null on the others.
inline std::shared_ptr<Group> first_ranks(int n, int rank) {
  MPI_Comm part = MPI_COMM_NULL;
  EXPECT_EQ(MPI_Comm_split(MPI_COMM_WORLD, rank < n ? 0 : MPI_UNDEFINED, rank, &part), MPI_SUCCESS);
  if (part == MPI_COMM_NULL) return nullptr;
  auto group = mpi(part);
  EXPECT_EQ(MPI_Comm_free(&part), MPI_SUCCESS);
  return group;
}

}  // namespace cairn::test
