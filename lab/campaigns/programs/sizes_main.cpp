// A job of great numbers, for scripts/campaign sizes.
//
//   campaign_sizes save DIRECTORY STEP bytes|uneven|keys NUMBER [WAY...]
//   campaign_sizes restore DIRECTORY bytes|uneven|keys NUMBER [WAY...]
//   campaign_sizes open DIRECTORY [WAY...]
//
// bytes: a tensor of so many bytes, in one block a rank; uneven: all of it on the last rank; keys:
// so many tensors of two numbers, dealt out to the ranks. WAY: --hdf5, --collective, --mpi-io,
// --async, --one-writer, --keep-all, --other-name, --nodes (each rank is a node, with
// DIRECTORY-nodes/RANK and parity; a small save goes home first).
//
// Its lines: "acknowledged STEP", "restored STEP", "opened", "wrong TEXT"; "memory MIB" is the most
// that a rank had, and "took SECONDS" the call.
#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

namespace cairn::campaign {
namespace {

// The value of the 8 bytes that begin at 8 * number.
std::uint64_t value(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15u;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
  return number ^ (number >> 27);
}

class Bytes {
 public:
  Bytes(const Group& group, std::int64_t all, bool uneven) {
    const std::int64_t ranks = group.size(), rank = group.rank();
    begin_ = uneven ? 0 : all * rank / ranks;
    const auto end = uneven ? (rank == ranks - 1 ? all : 0) : all * (rank + 1) / ranks;
    mine_.resize(static_cast<std::size_t>(end - begin_));
    state.add("bytes", slice(mine_.data(), {all}, {begin_}, {end - begin_}));
  }
  State state;

  void fill() {
    for_each([](std::uint8_t& byte, std::uint8_t is) { byte = is; });
  }
  std::string problem() {
    std::int64_t wrong = 0;
    for_each([&](const std::uint8_t& byte, std::uint8_t is) { wrong += byte != is; });
    return wrong ? cat(wrong, " of ", mine_.size(), " bytes are not what was saved") : "";
  }

 private:
  template <class F>
  void for_each(F&& body) {
    auto at = static_cast<std::uint64_t>(begin_);
    for (std::size_t i = 0; i < mine_.size();) {
      const auto word = value(at / 8);
      for (auto byte = at % 8; byte < 8 && i < mine_.size(); ++byte, ++i, ++at) {
        body(mine_[i], static_cast<std::uint8_t>(word >> (8 * byte)));
      }
    }
  }

  std::int64_t begin_ = 0;
  std::vector<std::uint8_t> mine_;
};

class Keys {
 public:
  Keys(const Group& group, std::int64_t all) : first_(group.rank()), step_(group.size()) {
    const auto count = all > first_ ? (all - first_ + step_ - 1) / step_ : 0;
    mine_.resize(static_cast<std::size_t>(2 * count));
    for (std::int64_t i = 0; i < count; ++i) {
      state.add(cat("layer-", first_ + i * step_, "/weight"),
                slice(&mine_[static_cast<std::size_t>(2 * i)], {2}, {0}, {2}));
    }
  }
  State state;

  void fill() {
    for (std::size_t i = 0; i < mine_.size(); ++i) mine_[i] = of(i);
  }
  std::string problem() const {
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < mine_.size(); ++i) wrong += mine_[i] != of(i);
    return wrong ? cat(wrong, " of ", mine_.size(), " numbers are not what was saved") : "";
  }

 private:
  double of(std::size_t i) const {
    const auto key = first_ + static_cast<std::int64_t>(i / 2) * step_;
    return static_cast<double>(2 * key + static_cast<std::int64_t>(i % 2));
  }

  std::int64_t first_, step_;
  std::vector<double> mine_;
};

class Job {
 public:
  explicit Job(std::vector<std::string> words)
      : words_(std::move(words)), group_(mpi(MPI_COMM_WORLD)) {
    options_.keep.last = 2;
    while (words_.size() > 2 && words_.back().starts_with("--")) {
      const auto way = words_.back();
      words_.pop_back();
      if (way == "--hdf5" || way == "--collective") options_.store.format = Format::hdf5;
      if (way == "--collective") options_.write.writer = Writer::hdf5_collective;
      if (way == "--mpi-io") options_.write.writer = Writer::mpi_io;
      if (way == "--async") async_ = true;
      if (way == "--one-writer") options_.write.io_ranks = IoRanks::count(1);
      if (way == "--keep-all") options_.keep.last = 0;
      if (way == "--other-name") options_.name = "other";
      if (way == "--nodes") {
        options_.tier.directory = words_.at(1) + "-nodes/%n";
        options_.tier.node = cat(group_->rank());
      }
    }
    // The size of a copy of the largest state.
    options_.async.pool_bytes = std::int64_t{6} << 30;
  }

  void run() {
    const auto& what = words_.at(0);
    if (what == "open") {
      timed([&] { manager_.emplace(group_, words_.at(1), options_); });
      tell("opened");
    } else {
      const auto kind = words_.at(what == "save" ? 3 : 2);
      const auto number = std::stoll(words_.back());
      if (kind == "keys") {
        Keys keys(*group_, number);
        what == "save" ? save(keys) : restore(keys);
      } else {
        Bytes bytes(*group_, number, kind == "uneven");
        what == "save" ? save(bytes) : restore(bytes);
      }
    }
    manager_.reset();
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::int64_t most[] = {usage.ru_maxrss / 1024};
    group_->all_reduce(most, Group::Op::max);
    tell(cat("memory ", most[0]));
  }

 private:
  template <class Parts>
  void save(Parts& parts) {
    const auto step = std::stoll(words_.at(2));
    parts.fill();
    manager_.emplace(group_, words_.at(1), options_);
    if (!options_.tier.directory.empty()) {
      double small = 1;
      State first;
      first.add("small", small);
      manager_->save(step - 1, first);
    }
    timed([&] {
      if (async_) {
        manager_->save_async(step, parts.state);
        manager_->wait();
      } else {
        manager_->save(step, parts.state);
      }
    });
    tell(cat("acknowledged ", step));
  }

  template <class Parts>
  void restore(Parts& parts) {
    manager_.emplace(group_, words_.at(1), options_);
    std::optional<RestoreReport> report;
    timed([&] { report = manager_->restore_latest(parts.state); });
    const auto problem = report ? parts.problem() : "there is no checkpoint";
    std::int64_t any[] = {problem.empty() ? 0 : 1};
    group_->all_reduce(any, Group::Op::max);
    if (!problem.empty()) {
      std::cout << cat("wrong on rank ", group_->rank(), ": ", problem, "\n") << std::flush;
    }
    if (any[0] == 0) tell(cat("restored ", report->step));
  }

  template <class Call>
  void timed(Call&& call) {
    group_->barrier();
    const auto begin = std::chrono::steady_clock::now();
    call();
    group_->barrier();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    tell(cat("took ", took.count()));
  }

  void tell(const std::string& line) const {
    if (group_->rank() == 0) std::cout << line + "\n" << std::flush;
  }

  std::vector<std::string> words_;
  std::shared_ptr<Group> group_;
  ManagerOptions options_;
  bool async_ = false;
  std::optional<CheckpointManager> manager_;
};

}  // namespace
}  // namespace cairn::campaign

int main(int count, char** arguments) {
  if (count < 3) {
    std::cerr << "the head of sizes_main.cpp says how to use it\n";
    return 2;
  }
  MPI_Init(&count, &arguments);
  try {
    cairn::campaign::Job({arguments + 1, arguments + count}).run();
  } catch (const std::exception& error) {
    std::cout << cairn::cat("wrong ", error.what(), "\n") << std::flush;
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Finalize();
}
