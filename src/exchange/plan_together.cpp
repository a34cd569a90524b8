#include "exchange/plan_together.hpp"

namespace cairn {
namespace {

// From those who know what they are to acquire, to those who want it.
plan::OwnPlan accept_and_finish(Group& group, plan::Spread& spread, KeptError error, Mail mail) {
  mail = all_to_all(group, std::move(mail));
  agree(group, error.first());
  error.guard([&] { mail = spread.accept(mail); });
  if (error) mail.clear();
  mail = all_to_all(group, std::move(mail));
  plan::OwnPlan plan;
  if (!error) error.guard([&] { plan = spread.finish(mail); });
  agree(group, error.first());
  return plan;
}

}  // namespace

plan::OwnPlan plan_together(Group& group, plan::Spread& spread) {
  const auto planners = spread.planners(all_reduce(group, spread.pieces(), Group::Op::sum));
  // A rank that fails goes on with nothing to say: the others wait for its mail.
  KeptError error;
  Mail mail;
  error.guard([&] { mail = spread.ask(planners); });
  mail = all_to_all(group, std::move(mail));
  std::vector<std::int64_t> sums;
  error.guard([&] { sums = spread.weigh(mail); });
  if (planners > 1) {
    sums.resize(2 * static_cast<std::size_t>(group.size()) + 1);
    group.all_reduce(sums, Group::Op::sum);
  } else {
    sums.clear();
  }
  mail.clear();
  if (!error) error.guard([&] { mail = spread.decide(sums); });
  return accept_and_finish(group, spread, std::move(error), std::move(mail));
}

plan::OwnPlan order_together(Group& group, plan::Spread& spread) {
  KeptError error;
  Mail mail;
  error.guard([&] { mail = spread.order(); });
  return accept_and_finish(group, spread, std::move(error), std::move(mail));
}

}  // namespace cairn
