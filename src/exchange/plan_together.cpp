#include "exchange/plan_together.hpp"

#include <utility>

namespace cairn {
namespace {

// Sends decisions to the ranks that acquire, then their answers to the ranks that want, and ends
// the plan.
plan::RankPlan accept_and_finish(Group& group, plan::Spread& spread, DeferredError error,
                                 Messages messages) {
  messages = all_to_all(group, std::move(messages));
  agree(group, error.first());
  error.guard([&] { messages = spread.accept(std::move(messages)); });
  // All ranks take part in the next delivery, also one that has failed.
  if (error) messages.clear();
  messages = all_to_all(group, std::move(messages));
  plan::RankPlan plan;
  if (!error) error.guard([&] { plan = spread.finish(messages); });
  agree(group, error.first());
  return plan;
}

}  // namespace

plan::RankPlan plan_together(Group& group, plan::Spread& spread) {
  const auto planners = spread.planners(all_reduce(group, spread.pieces(), Group::Op::sum));
  // A rank that fails goes on with empty messages: the others wait for them.
  DeferredError error;
  Messages messages;
  error.guard([&] { messages = spread.ask(planners); });
  messages = all_to_all(group, std::move(messages));
  std::vector<std::int64_t> sums;
  error.guard([&] { sums = spread.weigh(messages); });
  if (planners > 1) {
    // A rank with no chunks gives none; for the sum it needs as many zeros.
    sums.resize(2 * static_cast<std::size_t>(group.size()) + 1);
    group.all_reduce(sums, Group::Op::sum);
  } else {
    sums.clear();
  }
  messages.clear();
  if (!error) error.guard([&] { messages = spread.decide(sums); });
  return accept_and_finish(group, spread, std::move(error), std::move(messages));
}

plan::RankPlan order_together(Group& group, plan::Spread& spread) {
  DeferredError error;
  Messages messages;
  error.guard([&] { messages = spread.order(); });
  return accept_and_finish(group, spread, std::move(error), std::move(messages));
}

}  // namespace cairn
