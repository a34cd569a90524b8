#include "testing/machine.hpp"

#include <time.h>

#include <algorithm>
#include <utility>

namespace cairn {
namespace {

double processor_time() {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int steps(int count) {
  int steps = 0;
  while ((1 << steps) < count) ++steps;
  return steps;
}

std::size_t index(int number) { return static_cast<std::size_t>(number); }

/// Takes a turn of `seconds` at a resource that serves one request after the other. Returns when
/// the turn begins.
double take_turn(double& until, double now, double seconds) {
  const double begin = std::max(until, now);
  until = begin + seconds;
  return begin;
}

}  // namespace

int Machine::owner = -1;

Machine::Machine(int ranks, MachineOptions options)
    : options_(options),
      nodes_((ranks + options.ranks_per_node - 1) / options.ranks_per_node),
      steps_in_node_(steps(std::min(ranks, options.ranks_per_node))),
      steps_between_nodes_(steps(nodes_)),
      ranks_(index(ranks)),
      node_files_until_(index(nodes_)) {}

std::vector<int> Machine::nodes() const {
  std::vector<int> nodes;
  for (int rank = 0; rank < ranks(); ++rank) nodes.push_back(node_of(rank));
  return nodes;
}

const Machine::Figures& Machine::figures(int rank) {
  if (running_) {
    pause(rank);
    resume(rank);
  }
  return of(rank);
}

void Machine::pause(int rank) {
  if (!running_) return;
  const double worked = processor_time() - since_;
  auto& figures = of(rank);
  figures.work += worked;
  figures.time.add(Time::work, worked);
  running_ = false;
}

void Machine::resume(int) {
  running_ = true;
  since_ = processor_time();
}

double Machine::latency(int from, int to) const {
  const int a = node_of(from), b = node_of(to);
  const auto& network = options_.network;
  if (a == b) return network.in_node;
  const int leaf = network.nodes_a_leaf;
  const int hops = a / leaf == b / leaf ? 1 : a / (leaf * leaf) == b / (leaf * leaf) ? 3 : 5;
  return network.between_nodes + hops * network.hop;
}

double Machine::rate(int from, int to) const {
  return node_of(from) == node_of(to) ? options_.network.memory_rate : options_.network.node_rate;
}

Machine::Time Machine::send(int from, int to, std::size_t bytes) {
  auto& me = ranks_[index(from)];
  auto& [time, work, in, out, bytes_in, bytes_out, collectives, paths, written, read] = me.figures;
  time.add(Time::messages, options_.network.overhead);
  ++out;
  bytes_out += static_cast<std::int64_t>(bytes);
  const double seconds = static_cast<double>(bytes) / rate(from, to);
  auto left = time;
  left.wait_until(take_turn(me.sends_until, time.at, seconds) + seconds, Time::messages);
  return left;
}

void Machine::receive(int to, int from, std::size_t bytes, const Time& left) {
  auto& me = ranks_[index(to)];
  auto& figures = me.figures;
  ++figures.messages_in;
  figures.bytes_in += static_cast<std::int64_t>(bytes);
  const double seconds = static_cast<double>(bytes) / rate(from, to);
  const double first_byte = left.at - seconds + latency(from, to);
  auto come = left;
  come.wait_until(take_turn(me.receives_until, first_byte, seconds) + seconds, Time::messages);
  figures.time.follow(come);
  figures.time.add(Time::messages, options_.network.overhead);
}

// The time of a collective through the nodes: to the first rank of each, among these, and back.
double Machine::tree(std::size_t bytes, bool both_ways) const {
  const auto& network = options_.network;
  const auto count = static_cast<double>(bytes);
  const double in_node = steps_in_node_ * (network.in_node + 2 * network.overhead) +
                         std::min(steps_in_node_, 2) * count / network.memory_rate;
  const double between = steps_between_nodes_ * (latency(0, ranks() - 1) + 2 * network.overhead) +
                         std::min(steps_between_nodes_, 2) * count / network.node_rate;
  return (both_ways ? 2 : 1) * in_node + between;
}

void Machine::synchronise(int rank, const Time& last, std::size_t bytes) {
  auto& figures = of(rank);
  auto done = last;
  done.add(Time::messages, tree(bytes, true));
  figures.time.follow(done);
  const bool is_first = rank % options_.ranks_per_node == 0;
  const int messages = is_first ? steps_in_node_ + steps_between_nodes_ : 1;
  figures.messages_in += messages;
  figures.messages_out += messages;
  figures.bytes_in += messages * static_cast<std::int64_t>(bytes);
  figures.bytes_out += messages * static_cast<std::int64_t>(bytes);
  ++figures.collectives;
}

void Machine::hear(int rank, const Time& root, std::size_t bytes) {
  auto& figures = of(rank);
  auto done = root;
  done.add(Time::messages, tree(bytes, false));
  figures.time.follow(done);
  ++figures.messages_in;
  figures.bytes_in += static_cast<std::int64_t>(bytes);
  ++figures.collectives;
}

void Machine::operation(int rank, io::OperationCounts::Kind kind, const io::Path& path) {
  using Counts = io::OperationCounts;
  auto& figures = of(rank);
  ++figures.paths.of[kind];
  auto& time = figures.time;
  const auto& files = options_.files;
  if (kind == Counts::sync_file) {
    time.add(Time::syncs, files.sync);
    return;
  }
  const auto part = kind == Counts::sync_directory ? Time::syncs : Time::paths;
  double begin = take_turn(paths_until_, time.at, 1 / files.in_all);
  if (kind != Counts::stat && kind != Counts::list && kind != Counts::lock) {
    auto& until = directory_until_[path.parent_path().native()];
    begin = std::max(begin, take_turn(until, time.at, 1 / files.in_directory));
  }
  time.wait_until(begin, part);
  time.add(part, kind == Counts::sync_directory ? files.sync : files.operation);
}

void Machine::bytes(int rank, std::int64_t count, bool written) {
  auto& figures = of(rank);
  (written ? figures.bytes_written : figures.bytes_read) += count;
  const auto& files = options_.files;
  const double in_node = static_cast<double>(count) / files.node_rate;
  const double in_all = static_cast<double>(count) / files.rate;
  const double now = figures.time.at;
  const double node = take_turn(node_files_until_[index(node_of(rank))], now, in_node) + in_node;
  const double all = take_turn(files_until_, now, in_all) + in_all;
  figures.time.wait_until(std::max(node, all), Time::bytes);
}

Machine::Time Machine::begin_background(int rank, const Time& not_before) {
  const Pause pause(this, rank);
  const auto before = of(rank).time;
  ranks_[index(rank)].behind = true;
  of(rank).time.follow(not_before);
  return before;
}

Machine::Time Machine::end_background(int rank, const Time& begun) {
  const Pause pause(this, rank);
  ranks_[index(rank)].behind = false;
  return std::exchange(of(rank).time, begun);
}

}  // namespace cairn
