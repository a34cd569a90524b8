// Conformance: the tensors of tensors.txt, which every language interface saves and restores.
#include "base/text.hpp"
#include "support/conformance.hpp"
#include "support/tensor_table.hpp"

namespace cairn::test {
namespace {

const std::vector<TableLine>& lines() {
  static const auto all = read_table(CAIRN_TENSORS);
  return all;
}

TEST_P(Conformance, TensorsOfEveryFace) {
  const auto counts = launcher_->counts();
  const int n = counts.back();
  launcher_->new_disk();
  on(n, cat(n, " ranks"), [&](auto group) {
    TableState given(*group, lines(), 4);
    CheckpointManager manager(group, directory(), saving());
    save(manager, 4, given.state());
    return "";
  });
  expect_whole(4, "of every face");
  for (const int m : {counts.front(), n}) {
    on(m, cat(n, " to ", m, " ranks"), [&](auto group) {
      TableState given(*group, lines(), -1);
      CheckpointManager manager(group, directory(), reading());
      manager.restore(4, given.state());
      return given.check(*group, 4);
    });
  }
}

}  // namespace
}  // namespace cairn::test
