// The functions and classes that programs call.
#include "cairn/error.hpp"
#include "cairn/redistribute.hpp"
#include "session/redistribute/redistributor.hpp"

namespace cairn {
namespace {

std::shared_ptr<CallGroup> required(const std::shared_ptr<Group>& group) {
  if (group) return CallGroup::of(group);
  throw Error(Code::invalid_argument, "the group of a redistribution is null");
}

}  // namespace

Redistribution::Redistribution(const std::shared_ptr<Group>& group, const State& from, State& to,
                               RedistributeOptions options)
    : work_(std::make_unique<Redistributor>(required(group), from, to, std::move(options),
                                            Redistributor::Calls::many)) {
  collective_call(work_->group(), "Redistribution", [&] {
    work_->group().check_entry();
    work_->plan();
  });
}

Redistribution::~Redistribution() = default;
Redistribution::Redistribution(Redistribution&&) noexcept = default;
Redistribution& Redistribution::operator=(Redistribution&&) noexcept = default;

RedistributeReport Redistribution::run() {
  return collective_call(work_->group(), "Redistribution::run", [&] {
    work_->group().check_entry();
    return work_->run();
  });
}

int Redistribution::plans() const { return work_->plans(); }

RedistributeReport redistribute(const std::shared_ptr<Group>& group, const State& from, State& to,
                                const RedistributeOptions& options) {
  const auto own = required(group);
  return collective_call(*own, "redistribute", [&] {
    own->check_entry();
    return Redistributor(own, from, to, options, Redistributor::Calls::single).run();
  });
}

}  // namespace cairn
