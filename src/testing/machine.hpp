#pragma once
/// A simulated machine: the time that messages, files and processors of a large job would take, for
/// ranks that take turns on one core (ThreadOptions::machine).
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "testing/counting.hpp"

namespace cairn {

/// Times in seconds, rates in bytes or operations per second. docs/performance.md, "Large jobs,
/// simulated", says where the defaults come from.
struct MachineOptions {
  int ranks_per_node = 16;
  struct Network {
    double overhead = 0.3e-6;  ///< processor time for each message, at either end
    double in_node = 0.5e-6;   ///< from one rank to another of its node
    double between_nodes = 1.5e-6;
    double hop = 0.35e-6;     ///< added per switch: 1 in a leaf of the tree, then 3, then 5
    int nodes_a_leaf = 32;    ///< and as many leaves are joined by the next row of switches
    double node_rate = 25e9;  ///< for one rank's messages that leave its node
    double memory_rate = 10e9;
  } network = {};
  struct Files {
    double operation = 0.5e-3;   ///< on a path, for the rank that asks, if no other asks
    double sync = 0.5e-3;        ///< of a file or a directory, likewise
    double in_directory = 15e3;  ///< operations that change one directory
    double in_all = 100e3;       ///< operations of all ranks
    double node_rate = 10e9;     ///< for bytes, to and from a node
    double rate = 2.5e12;        ///< for all nodes together
  } files = {};
};

/// Keeps a clock for each rank. The ranks take turns on one thread, which makes all calls. A rank's
/// own work is measured by the thread's processor time, from resume() to pause().
class Machine {
 public:
  /// The time of a rank, and the parts that it is made of. A rank that waits for another takes over
  /// the other's time and parts, so that the parts of the last rank are those of the critical path.
  struct Time {
    enum Part : std::size_t { work, messages, paths, syncs, bytes, parts };
    static constexpr std::array<const char*, parts> names{"work", "messages", "paths", "syncs",
                                                          "bytes"};
    double at = 0;
    std::array<double, parts> of = {};
    void add(Part part, double seconds) {
      at += seconds;
      of[part] += seconds;
    }
    /// Waits until `then`; the wait counts as this part.
    void wait_until(double then, Part part) {
      if (then > at) add(part, then - at);
    }
    void follow(const Time& other) {
      if (other.at > at) *this = other;
    }
  };
  /// All that a rank has done so far.
  struct Figures {
    Time time;
    double work = 0;  ///< of this rank alone
    /// A collective call counts the messages of its tree.
    std::int64_t messages_in = 0, messages_out = 0, bytes_in = 0, bytes_out = 0, collectives = 0;
    io::OperationCounts paths;
    std::int64_t bytes_written = 0, bytes_read = 0;
  };

  Machine(int ranks, MachineOptions options);

  int ranks() const { return static_cast<int>(ranks_.size()); }
  int node_of(int rank) const { return rank / options_.ranks_per_node; }
  std::vector<int> nodes() const;
  const Time& time(int rank) const { return of(rank).time; }
  /// Includes the work that has not ended yet. Called by the rank itself.
  const Figures& figures(int rank);

  /// The rank whose turn it is: memory that is taken meanwhile is this rank's; -1: nobody's.
  static int owner;
  void entered(int rank) { owner = rank; }

  void pause(int rank);
  void resume(int rank);
  /// While it lives, the rank's work takes no processor time.
  class Pause {
   public:
    Pause(Machine* machine, int rank) : machine_(machine), rank_(rank) {
      if (machine_) machine_->pause(rank_);
    }
    ~Pause() {
      if (machine_) machine_->resume(rank_);
    }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Machine* machine_;
    int rank_;
  };

  // For a paused rank. Returns the time at which the last byte of a message has left the sender:
  Time send(int from, int to, std::size_t bytes);
  void receive(int to, int from, std::size_t bytes, const Time& left);
  /// All ranks leave a collective call at once; `last` is the time of the last rank that came.
  void synchronise(int rank, const Time& last, std::size_t bytes);
  void hear(int rank, const Time& root, std::size_t bytes);  ///< a broadcast

  // The same for files.
  void operation(int rank, io::OperationCounts::Kind kind, const io::Path& path);
  void bytes(int rank, std::int64_t count, bool written);

  /// The rank's work between these two calls counts as background work: end_background() sets the
  /// rank's clock back to `begun`, and returns the time at which the work would have been done.
  Time begin_background(int rank, const Time& not_before);
  Time end_background(int rank, const Time& begun);
  bool is_behind(int rank) const { return ranks_[static_cast<std::size_t>(rank)].behind; }
  void wait_for(int rank, const Time& other) { of(rank).time.follow(other); }

 private:
  const Figures& of(int rank) const { return ranks_[static_cast<std::size_t>(rank)].figures; }
  Figures& of(int rank) { return ranks_[static_cast<std::size_t>(rank)].figures; }
  double latency(int from, int to) const;
  double rate(int from, int to) const;
  double tree(std::size_t bytes, bool both_ways) const;

  struct Rank {
    Figures figures;
    double sends_until = 0, receives_until = 0;
    bool behind = false;  // it does background work
  };
  const MachineOptions options_;
  const int nodes_, steps_in_node_, steps_between_nodes_;
  std::vector<Rank> ranks_;
  std::vector<double> node_files_until_;
  double files_until_ = 0, paths_until_ = 0;
  std::map<std::string, double> directory_until_;
  double since_ = 0;  // processor time at resume()
  bool running_ = false;
};

}  // namespace cairn
