#include "support/group_kit.hpp"
#include "support/rounds.hpp"
#include "testing/threads.hpp"

namespace cairn::test {

std::vector<GroupCase> group_cases() {
  std::vector<GroupCase> cases{{"serial", 1, [](const RankBody& body) { body(serial_group()); }}};
  for (const int ranks : {1, 2, 3, 4, 7}) {
    cases.push_back({"threads_" + std::to_string(ranks), ranks,
                     [ranks](const RankBody& body) { run_threads(ranks, body); }});
    cases.push_back(
        {"seeded_threads_" + std::to_string(ranks), ranks, [ranks](const RankBody& body) {
           for (unsigned seed = 1; seed <= (test::sanitized ? 1u : 3u); ++seed) {
             SCOPED_TRACE("seed " + std::to_string(seed));
             run_threads(ranks, body, {.seed = seed});
           }
         }});
  }
  for (const auto& nodes :
       {std::vector{0, 0, 1, 1, 2}, {0, 1, 0, 1, 0, 1, 0}, {0, 1, 1, 2, 0, 2}}) {
    const auto ranks = static_cast<int>(nodes.size());
    cases.push_back({"threads_" + std::to_string(ranks) + "_on_nodes", ranks,
                     [=](const RankBody& body) { run_threads(ranks, body, {.nodes = nodes}); }});
  }
  return cases;
}

}  // namespace cairn::test
