#pragma once
/// For suites that must hold on any Group. Write each test with TEST_P on a fixture derived from
/// OnGroups and give the body of one rank to `on_ranks`; instantiate with CAIRN_ON_GROUPS(Fixture).
/// The program links cairn_local_groups (serial, thread ranks, seeded thread ranks) or, as a
/// cairn_mpi_test, cairn_mpi_groups (the ranks of MPI_COMM_WORLD): same sources, both kinds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cairn/error.hpp"
#include "cairn/group.hpp"

namespace cairn::test {

using RankBody = std::function<void(std::shared_ptr<Group>)>;

/// A way to run ranks. An expectation that fails in the body fails the test. Thread ranks share the
/// variables outside of the body: guard them, or use the rank as an index.
struct GroupCase {
  std::string name;
  int ranks;
  std::function<void(const RankBody&)> run;
};

/// The library that the program links defines this.
std::vector<GroupCase> group_cases();

class OnGroups : public ::testing::TestWithParam<GroupCase> {
 protected:
  void on_ranks(const RankBody& body) const { GetParam().run(body); }
  int ranks() const { return GetParam().ranks; }
};

inline void PrintTo(const GroupCase& group_case, std::ostream* out) { *out << group_case.name; }

inline std::string case_name(const ::testing::TestParamInfo<GroupCase>& info) {
  return info.param.name;
}

#define CAIRN_ON_GROUPS(Fixture)                                                               \
  INSTANTIATE_TEST_SUITE_P(Groups, Fixture, ::testing::ValuesIn(::cairn::test::group_cases()), \
                           ::cairn::test::case_name)

/// The Error that a function throws, if any. Other exceptions pass.
template <class F>
std::optional<Error> error_of(F&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

/// Expects an Error with this code and text (a matcher or a string).
template <class F, class Text>
void expect_error(F&& function, Code code, Text text) {
  const auto error = error_of(function);
  if (!error) {
    ADD_FAILURE() << "nothing was thrown";
    return;
  }
  EXPECT_STREQ(code_name(error->code()), code_name(code)) << error->what();
  EXPECT_THAT(std::string(error->what()), text);
}

}  // namespace cairn::test
