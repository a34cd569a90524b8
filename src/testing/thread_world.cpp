#include "testing/thread_world.hpp"

#include <utility>

#include "base/text.hpp"
#include "testing/crash.hpp"

namespace cairn {

ThreadWorld::ThreadWorld(int ranks, std::optional<unsigned> seed, Machine* machine)
    : ranks_(static_cast<std::size_t>(ranks)), alive_(ranks), machine_(machine) {
  if (seed && !machine) generator_.emplace(*seed);
}

void ThreadWorld::run_fibres(const std::function<void(int)>& rank,
                             std::function<void(int)> entered) {
  Fibres::Hooks hooks;
  hooks.clock = [this](int rank) { return machine_->time(rank).at; };
  hooks.entered = std::move(entered);
  hooks.stuck = [this] {
    const Lock lock(mutex_);
    report_deadlock();
  };
  fibres_ = std::make_unique<Fibres>(size(), std::move(hooks));
  fibres_->run(rank);
}

void ThreadWorld::start() {
  Lock lock(mutex_);
  started_ = true;
  if (!generator_) return wake_all();
  if (alive_ == 0) return;
  Turn& next = choose_next();
  lock.unlock();
  next.give();
}

void ThreadWorld::enter(int rank) {
  if (generator_) ranks_[rank].turn.await();
  Lock lock(mutex_);
  if (!generator_ && !fibres_) {
    while (!started_) lock.wait(ranks_[rank].changed);
  }
  throw_if_stopped();
}

void ThreadWorld::leave(int rank, bool crashed) {
  Lock lock(mutex_);
  ranks_[rank].ended = true;
  ended_.push_back(rank);
  --alive_;
  for (auto round = rounds_.lower_bound(ranks_[rank].rounds); round != rounds_.end(); ++round) {
    if (round->second.lost < 0) round->second.lost = rank;
  }
  if (crashed && !crashed_) stopped_ = crashed_ = true;
  if (generator_) {
    if (!started_ || alive_ == 0) return;
    Turn& next = choose_next();
    lock.unlock();
    return next.give();
  }
  if (!fibres_ && waiting_ == alive_ && nobody_can_go_on()) report_deadlock();
  wake_all();
}

void ThreadWorld::stop(Error why) {
  Lock lock(mutex_);
  set_stop(std::move(why));
}

void ThreadWorld::crash() {
  Lock lock(mutex_);
  stopped_ = crashed_ = true;
  wake_all();
  throw Crashed{};
}

bool ThreadWorld::crashed() const {
  Lock lock(mutex_);
  return crashed_;
}

void ThreadWorld::yield(int rank) {
  if (fibres_) fibres_->pass();
  Lock lock(mutex_);
  if (generator_ && !crashed_) pass_turn(lock, rank);
  if (crashed_) throw Crashed{};
}

void ThreadWorld::begin(Lock& lock, int rank) {
  throw_if_stopped();
  if (generator_) {
    pass_turn(lock, rank);
    throw_if_stopped();
  }
}

void ThreadWorld::wait(Lock& lock, int rank, const char* operation, int peer,
                       const std::function<bool()>& ready) {
  const std::function<bool()> can_go_on = [&]() CAIRN_REQUIRES(mutex_) {
    return stopped_ || ready();
  };
  if (!can_go_on()) {
    Rank& me = ranks_[rank];
    const Wait wait{operation, peer, &can_go_on};
    me.wait = &wait;
    if (generator_) {
      pass_turn(lock, rank);
    } else if (fibres_) {
      while (!can_go_on()) lock.without([&] { fibres_->block(); });
    } else {
      // A rank that was woken but does not run yet still counts as waiting: hence the second look.
      if (++waiting_ == alive_ && nobody_can_go_on()) report_deadlock();
      while (!can_go_on()) lock.wait(me.changed);
      --waiting_;
    }
    me.wait = nullptr;
  }
  throw_if_stopped();
}

std::vector<int> ThreadWorld::awaited(int rank) const {
  const Lock lock(mutex_);
  const Rank& me = ranks_[rank];
  if (!me.wait || (*me.wait->ready)()) return {};
  if (me.wait->peer >= 0) return {me.wait->peer};
  std::vector<int> missing;
  for (int other = 0; other < size(); ++other) {
    if (ranks_[other].rounds <= me.round) missing.push_back(other);
  }
  return missing;
}

void ThreadWorld::pass_turn(Lock& lock, int rank) {
  Turn& next = choose_next();
  if (turn_ == rank) return;
  lock.without([&] {
    next.give();
    ranks_[rank].turn.await();
  });
}

void ThreadWorld::Turn::give() {
  {
    const MutexLock lock(mutex_);
    is_given_ = true;
  }
  given_.notify_one();
}

void ThreadWorld::Turn::await() {
  MutexLock lock(mutex_);
  while (!is_given_) lock.wait(given_);
  is_given_ = false;
}

ThreadWorld::Turn& ThreadWorld::choose_next() {
  std::vector<int> candidates;
  const auto collect = [&]() CAIRN_REQUIRES(mutex_) {
    for (int rank = 0; rank < size(); ++rank) {
      if (can_go_on(ranks_[rank])) candidates.push_back(rank);
    }
  };
  collect();
  if (candidates.empty()) {
    report_deadlock();
    collect();
  }
  turn_ = candidates[(*generator_)() % candidates.size()];
  return ranks_[turn_].turn;
}

bool ThreadWorld::can_go_on(const Rank& rank) const {
  return !rank.ended && (!rank.wait || (*rank.wait->ready)());
}

bool ThreadWorld::nobody_can_go_on() const {
  for (const auto& rank : ranks_) {
    if (can_go_on(rank)) return false;
  }
  return alive_ > 0;
}

void ThreadWorld::report_deadlock() {
  constexpr int shown_at_most = 8;
  std::string who;
  int shown = 0;
  for (int rank = 0; rank < size(); ++rank) {
    const Wait* wait = ranks_[rank].wait;
    if (!wait) continue;
    if (shown++ == shown_at_most) {
      who += ", …";
      break;
    }
    who += cat(who.empty() ? "" : ", ", "rank ", rank, " in ", wait->operation);
    if (wait->peer >= 0) who += cat(" for rank ", wait->peer);
  }
  set_stop(Error(Code::communication, "deadlock: no rank can go on", who));
}

void ThreadWorld::set_stop(Error why) {
  if (!stopped_) why_stopped_ = std::move(why);
  stopped_ = true;
  wake_all();
}

void ThreadWorld::throw_if_stopped() const {
  if (crashed_) throw Crashed{};
  if (stopped_) throw Error(*why_stopped_);
}

void ThreadWorld::wake(int rank) {
  if (fibres_) return fibres_->wake(rank);
  ranks_[rank].changed.notify_one();
}

void ThreadWorld::wake_all() {
  if (generator_) return;  // with a seed, Turn::give() wakes the rank that runs next
  for (int rank = 0; rank < size(); ++rank) wake(rank);
}

void ThreadWorld::throw_ended(int ended, int rank, const char* operation) const {
  throw Error(Code::communication,
              cat("rank ", ended, " has ended while rank ", rank, " waits for it in ", operation),
              "it returned or threw before it took part")
      .on_rank(rank);
}

}  // namespace cairn
