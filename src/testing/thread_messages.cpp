// Messages and collectives of ranks that are threads.
#include <algorithm>
#include <cstring>
#include <exception>

#include "base/text.hpp"
#include "testing/thread_world.hpp"

namespace cairn {
namespace {

std::string text_of(const ThreadWorld::Call& call) {
  if (call.operation == "broadcast") return cat("broadcast from rank ", call.root);
  if (call.operation == "all_reduce" || call.operation == "reduction") {
    static constexpr const char* names[] = {"min", "max", "sum"};
    return cat(call.operation, " of ", call.count, " values (", names[static_cast<int>(call.op)],
               ")");
  }
  return std::string(call.operation);
}

void combine(std::int64_t& into, std::int64_t value, Group::Op op) {
  switch (op) {
    case Group::Op::min:
      into = std::min(into, value);
      return;
    case Group::Op::max:
      into = std::max(into, value);
      return;
    case Group::Op::sum:
      into = static_cast<std::int64_t>(static_cast<std::uint64_t>(into) +
                                       static_cast<std::uint64_t>(value));
      return;
  }
}

}  // namespace

void ThreadWorld::exchange(int rank, std::span<const Group::Send> sends,
                           std::span<const Group::Receive> receives) {
  Lock lock(mutex_);
  begin(lock, rank);
  std::vector<Message> messages;
  messages.reserve(sends.size());
  for (const auto& send : sends) {
    auto& message = messages.emplace_back(Message{rank, send.to, Channel::exchange, send.bytes});
    if (machine_) message.left = machine_->send(rank, send.to, send.bytes.size());
  }
  post(messages);
  try {
    for (const auto& receive : receives) {
      const auto copy = [&](std::span<const std::byte> bytes) {
        if (bytes.size() != receive.bytes.size()) {
          throw Error(Code::communication,
                      cat("a message from rank ", receive.from, " to rank ", rank, " has ",
                          bytes.size(), " bytes where ", receive.bytes.size(), " were expected"))
              .on_rank(rank);
        }
        if (!bytes.empty()) std::memcpy(receive.bytes.data(), bytes.data(), bytes.size());
      };
      take(lock, rank, receive.from, Channel::exchange, copy);
    }
    wait_until_received(lock, rank, messages);
  } catch (...) {
    withdraw(lock, rank, messages);
    throw;
  }
}

void ThreadWorld::send(int rank, int to, std::string_view bytes) {
  Lock lock(mutex_);
  begin(lock, rank);
  if (to == rank) {
    ranks_[rank].to_itself.emplace_back(bytes);
    return;
  }
  std::vector<Message> messages{
      {rank, to, Channel::point_to_point, std::as_bytes(std::span(bytes.data(), bytes.size()))}};
  if (machine_) messages.front().left = machine_->send(rank, to, bytes.size());
  post(messages);
  try {
    wait_until_received(lock, rank, messages);
  } catch (...) {
    withdraw(lock, rank, messages);
    throw;
  }
}

std::string ThreadWorld::receive(int rank, int from) {
  Lock lock(mutex_);
  begin(lock, rank);
  std::string received;
  if (from == rank) {
    auto& queue = ranks_[rank].to_itself;
    if (queue.empty()) {
      throw Error(Code::communication,
                  cat("rank ", rank, " waits for a message from itself that it has not sent"))
          .on_rank(rank);
    }
    received = std::move(queue.front());
    queue.pop_front();
    return received;
  }
  take(lock, rank, from, Channel::point_to_point, [&](std::span<const std::byte> bytes) {
    received.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  return received;
}

void ThreadWorld::post(std::vector<Message>& messages) {
  for (auto& message : messages) {
    Rank& to = ranks_[message.to];
    to.inbox[{message.from, message.channel}].push_back(&message);
    wake(message.to);
  }
}

void ThreadWorld::withdraw(Lock& lock, int rank, std::vector<Message>& messages) {
  for (auto& message : messages) {
    if (message.state != Message::posted) continue;
    std::erase(ranks_[message.to].inbox[{message.from, message.channel}], &message);
  }
  // A receiver that copies at this moment still needs the sender's memory.
  const auto taken = [](const Message& message) { return message.state == Message::taken; };
  while (std::any_of(messages.begin(), messages.end(), taken)) lock.wait(ranks_[rank].changed);
}

void ThreadWorld::wait_until_received(Lock& lock, int rank, std::vector<Message>& messages) {
  for (auto& message : messages) {
    const char* operation = message.channel == Channel::exchange ? "exchange" : "send";
    const Rank& to = ranks_[message.to];
    wait(lock, rank, operation, message.to, [&] {
      return message.state == Message::done || (message.state == Message::posted && to.ended);
    });
    if (message.state != Message::done) throw_ended(message.to, rank, operation);
  }
}

template <class Copy>
void ThreadWorld::take(Lock& lock, int rank, int from, Channel channel, Copy copy) {
  const char* operation = channel == Channel::exchange ? "exchange" : "receive";
  auto& inbox = ranks_[rank].inbox;
  auto& queue = inbox[{from, channel}];
  const Rank& sender = ranks_[from];
  wait(lock, rank, operation, from, [&] { return !queue.empty() || sender.ended; });
  if (queue.empty()) throw_ended(from, rank, operation);
  Message& message = *queue.front();
  queue.pop_front();
  if (queue.empty()) inbox.erase({from, channel});  // else those of many senders would pile up
  message.state = Message::taken;
  if (machine_) machine_->receive(rank, from, message.bytes.size(), message.left);
  std::exception_ptr failure;
  lock.without([&] {
    try {
      copy(message.bytes);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  message.state = Message::done;
  wake(from);
  if (failure) std::rethrow_exception(failure);
}

void ThreadWorld::barrier(int rank) {
  Lock lock(mutex_);
  begin(lock, rank);
  std::uint64_t number;
  const Round& round = arrive(rank, {"barrier"}, number);
  wait_for_all(lock, rank, round, number);
  if (machine_) machine_->synchronise(rank, round.last, 0);
  finish(number);
}

void ThreadWorld::all_reduce(int rank, std::span<std::int64_t> values, Group::Op op) {
  Lock lock(mutex_);
  begin(lock, rank);
  std::uint64_t number;
  Round& round = arrive(rank, {"all_reduce", 0, op, values.size()}, number);
  add(round, values, op);
  wait_for_all(lock, rank, round, number);
  std::copy(round.values.begin(), round.values.end(), values.begin());
  if (machine_) machine_->synchronise(rank, round.last, values.size_bytes());
  finish(number);
}

void ThreadWorld::add(Round& round, std::span<const std::int64_t> values, Group::Op op) {
  if (round.arrived == 1) {
    round.values.assign(values.begin(), values.end());
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) combine(round.values[i], values[i], op);
  }
}

std::uint64_t ThreadWorld::begin_reduction(int rank, std::span<const std::int64_t> values,
                                           Group::Op op) {
  Lock lock(mutex_);
  begin(lock, rank);
  std::uint64_t number;
  Round& round = arrive(rank, {"reduction", 0, op, values.size()}, number);
  add(round, values, op);
  if (round.arrived == size()) wake_all();
  return number;
}

void ThreadWorld::end_reduction(int rank, std::uint64_t number, std::span<std::int64_t> values) {
  Lock lock(mutex_);
  begin(lock, rank);
  const Round& round = rounds_.at(number);
  wait_for_all(lock, rank, round, number);
  std::copy(round.values.begin(), round.values.end(), values.begin());
  if (machine_) machine_->synchronise(rank, round.last, values.size_bytes());
  finish(number);
}

void ThreadWorld::give_up_reduction(std::uint64_t number) noexcept {
  const Lock lock(mutex_);
  finish(number);
}

void ThreadWorld::broadcast(int rank, std::string& bytes, int root) {
  std::shared_ptr<const std::string> shared;
  if (rank == root) shared = std::make_shared<const std::string>(bytes);
  {
    Lock lock(mutex_);
    begin(lock, rank);
    std::uint64_t number;
    Round& round = arrive(rank, {"broadcast", root}, number);
    if (rank == root) {
      round.bytes = shared;
      if (machine_) round.last = machine_->time(rank);
      wake_all();
    } else {
      const Rank& sender = ranks_[root];
      wait(lock, rank, "broadcast", root, [&] { return round.bytes || sender.ended; });
      shared = round.bytes;
      if (!shared) throw_ended(root, rank, "broadcast");
      if (machine_) machine_->hear(rank, round.last, shared->size());
    }
    finish(number);
  }
  if (rank != root) bytes = *shared;
}

ThreadWorld::Round& ThreadWorld::arrive(int rank, const Call& call, std::uint64_t& number) {
  number = ranks_[rank].rounds++;
  const auto [position, is_new] = rounds_.try_emplace(number);
  Round& round = position->second;
  if (is_new) {
    round.call = call;
    round.opened_by = rank;
    for (const int ended : ended_) {
      if (ranks_[ended].rounds <= number) round.lost = ended;
    }
  } else if (round.call != call) {
    set_stop(Error(Code::communication, "ranks call different collectives",
                   cat("rank ", round.opened_by, " calls ", text_of(round.call), ", rank ", rank,
                       " calls ", text_of(call))));
    throw_if_stopped();
  }
  ++round.arrived;
  if (machine_) round.last.follow(machine_->time(rank));
  return round;
}

void ThreadWorld::wait_for_all(Lock& lock, int rank, const Round& round, std::uint64_t number) {
  ranks_[rank].round = number;
  if (round.arrived == size()) wake_all();
  wait(lock, rank, round.call.operation.data(), -1,
       [&] { return round.arrived == size() || round.lost >= 0; });
  if (round.arrived != size()) throw_ended(round.lost, rank, round.call.operation.data());
}

void ThreadWorld::finish(std::uint64_t number) {
  const auto position = rounds_.find(number);
  if (++position->second.left == size()) rounds_.erase(position);
}

}  // namespace cairn
