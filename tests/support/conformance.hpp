#pragma once
/// One suite for every way to save: format, writer and group. The tests are in conformance_*.cpp;
/// they run on the table in combinations.txt, in which a new format or writer is one line, times
/// the launchers of the program that links them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "group/collectives.hpp"
#include "support/group_kit.hpp"
#include "support/sample_state.hpp"
#include "testing/memory.hpp"

namespace cairn::test {

enum Needs : unsigned {
  nothing_special = 0,
  shared_files = 1,     ///< a group whose ranks write files together
  shared_datasets = 2,  ///< a group whose ranks write datasets together
  libhdf5 = 4,
  codecs = 8  ///< a store that takes encoded files
};

/// A way to save; any manager restores the result. Options are given by name, as every language
/// interface does.
struct Combination {
  std::string name;
  std::vector<std::pair<std::string, std::string>> options;
  unsigned needs = nothing_special;
  bool asynchronous = false;  ///< by save_async and wait
  void choose(ManagerOptions&) const;
};
const std::vector<Combination>& combinations();

/// A way to run ranks, with a disk that all of them see. In a program of several processes each of
/// them makes the same calls.
class Launcher {
 public:
  virtual ~Launcher() = default;
  /// Makes an empty disk; the members below are about the last one.
  virtual void new_disk() = 0;
  virtual std::shared_ptr<io::FileSystem> files() = 0;
  virtual std::filesystem::path directory() = 0;
  virtual io::MemoryFileSystem* memory() { return nullptr; }  ///< the disk, if it is in memory
  virtual void run(int ranks, const test::RankBody& body) = 0;
  /// Runs the function in one process, while the others wait.
  virtual void once(const std::function<void()>& function) = 0;

  /// What to try here: rank counts, pairs of them for N → M, and how many random cases of cheap
  /// tests.
  virtual std::vector<int> counts() const = 0;
  virtual std::vector<std::pair<int, int>> pairs() const = 0;
  virtual unsigned rounds() const = 0;
};

/// The place for directories of the operating system: in memory if the system has such a place. The
/// suite is about contents; each fsync of a real disk would cost more than all else.
std::filesystem::path place_for_files();

/// A kind of launcher; each program defines its own.
struct LauncherKind {
  std::string name;
  unsigned serves;  ///< of Needs; HDF5 is a matter of the build
  std::function<std::unique_ptr<Launcher>(const Combination&)> make;
  bool has_files = true;  ///< if false, its store is no directory
};
std::vector<LauncherKind> launcher_kinds();

struct ConformanceCase {
  Combination combination;
  LauncherKind kind;
};
std::vector<ConformanceCase> conformance_cases();
inline void PrintTo(const ConformanceCase& one, std::ostream* out) {
  *out << one.combination.name << " on " << one.kind.name;
}

/// A state with every kind of tensor, some larger than a chunk, in random boxes that depend only on
/// the number of ranks. Its values are a function of the version.
class Fields {
 public:
  Fields(const Group& group, std::uint64_t version);
  State& state() { return data_.state(); }
  void poison();
  /// Returns "" or what differs from this version.
  std::string check(std::uint64_t version) const;

  /// Bytes that only a file with the data of this version has.
  static std::string pattern(std::uint64_t version);

 private:
  static std::vector<std::string> words(std::uint64_t version);
  SampleState data_;
  std::vector<std::string> words_;
};

/// Collective. The error that a call throws, which must be the same on all ranks; empty if no rank
/// throws.
template <class F>
std::optional<Error> error_of_all(Group& group, F&& call) {
  const auto error = test::error_of(call);
  const auto texts =
      all_gather(group, error ? cat(code_name(error->code()), ": ", error->what()) : "no error");
  EXPECT_THAT(texts, ::testing::Each(texts.front()));
  return error;
}

/// Returns "" if the error has one of these codes and its text contains the words.
std::string unlike(const std::optional<Error>& error, const std::vector<Code>& codes,
                   const std::string& words = "");

class Conformance : public ::testing::TestWithParam<ConformanceCase> {
 protected:
  void SetUp() override;
  void TearDown() override;

  ManagerOptions saving() const;   ///< with the options of the combination
  ManagerOptions reading() const;  ///< a manager with default choices that changes nothing
  std::filesystem::path directory() const { return launcher_->directory(); }
  /// One of the rank counts, for tests that take many turns.
  int some_ranks() const;

  /// The body of each rank returns what is wrong, or throws. `what` is added to the failure.
  using Body = std::function<std::string(std::shared_ptr<Group>)>;
  void on(int ranks, const std::string& what, const Body& body) const;
  /// Collective. Saves in the way of the combination.
  void save(CheckpointManager&, std::int64_t step, const State&) const;
  /// All ranks save this version of Fields as a step.
  void save(int ranks, std::int64_t step, std::uint64_t version) const;
  /// Expects that the newest step is this one, with the values of that version.
  void expect_latest(int ranks, std::int64_t step, std::uint64_t version,
                     const std::string& what) const;
  /// Expects that each byte of a step is right.
  void expect_whole(std::int64_t step, const std::string& what) const;
  std::filesystem::path prefix(std::int64_t step) const;
  /// The files of a step, ascending.
  std::vector<std::filesystem::path> files_of(std::int64_t step) const;
  std::string bytes_of(const std::filesystem::path&) const;
  void replace(const std::filesystem::path&, const std::string& bytes) const;

  std::unique_ptr<Launcher> launcher_;

 private:
  std::int64_t open_before_ = 0;
};

}  // namespace cairn::test
