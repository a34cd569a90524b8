#pragma once
/// Records what a program was told of its saves, and so what may, must and must not be found.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cairn/error.hpp"

namespace cairn::campaign {

/// What a job found in the directory.
struct Found {
  struct Step {
    std::int64_t step = 0, stamp = 0;
  };
  std::int64_t newest = 0;  ///< the stamp; 0: there is no checkpoint
  std::vector<Step> steps;  ///< in commit order
};

/// The saves of all processes on one disk, in the order in which they began. Moments are numbers of
/// operations of the disk. Thread-safe, except for copies.
class Ledger {
 public:
  static constexpr std::size_t never = std::numeric_limits<std::size_t>::max();

  Ledger() = default;
  Ledger(const Ledger& other) : saves_(other.saves_) {}
  Ledger& operator=(const Ledger& other) { return saves_ = other.saves_, *this; }

  /// The first rank that comes to a save reports it. `keep` is max_to_keep.
  void begin(int process, std::int64_t stamp, std::int64_t step, int keep, std::size_t now);
  /// The save was acknowledged: it returned, its handle says so, or a restart gave it to an
  /// application.
  void committed(std::int64_t stamp, std::size_t now);
  /// A rank's bytes are durable. When those of all ranks are, a restart completes the save.
  void written(std::int64_t stamp, int rank, int ranks, std::size_t now);
  /// The program was told that nothing of the save stays, or, by the error, that this is unknown.
  void failed(std::int64_t stamp, const Error*, std::size_t now);
  void replaced(std::int64_t stamp, std::size_t now);
  /// The save is pinned from now on, so nothing removes it; unpins() ends that.
  void pinned(std::int64_t stamp, std::size_t now);
  void unpins(std::int64_t step, std::size_t now);
  /// The program goes on from this save; 0: from none.
  void restored(int process, std::int64_t stamp, std::size_t now);
  /// Another owner takes this one's place. For bytes that become durable afterwards nothing is
  /// promised.
  void taken_over(int process);
  /// Saves of which nobody was told need not be completed any more: their process met errors that
  /// it had no time to report, or (without a process) a restart could not read everything.
  void forgive(std::optional<int> process = {});

  /// The ledger after a power failure that came after so many operations.
  Ledger at(std::size_t stop) const;
  /// A job without faults has looked at everything: what is missing at that time never comes back,
  /// and what is there stays if an application was told of it.
  void looked(const Found&, std::size_t now, bool told);
  /// What was found against the promises, after so many operations. Empty if all is well.
  std::string judge(const Found&, std::size_t stop) const;
  /// Whether the save may have been removed by then, or partly removed.
  bool may_go(std::int64_t stamp, std::size_t stop) const;
  std::string text() const;
  std::size_t size() const { return saves_.size(); }

 private:
  struct Save {
    int process = -1;
    std::int64_t stamp = 0, step = 0;
    int keep = 0;
    std::size_t begun = 0;
    std::size_t committed = never;  ///< from here on it must be found
    std::size_t written = never;    ///< likewise, unless it fails later
    std::size_t ended = never;      ///< from here on it must not
    bool lingers = false;  ///< it failed, and may be completed until its process commits another
    bool lacked_room = false;  ///< it failed for that reason
    std::set<int> written_on = {};
    int parent = -1;  ///< place here of the one that it descends from; -1: it descends from none
    std::size_t pinned = never, unpinned = never;
    std::size_t safe() const { return committed < written ? committed : written; }
  };
  struct Head {
    int process, place;
  };

  Save* find(std::int64_t stamp);
  int place_of(std::int64_t stamp) const;
  bool is_possible(std::size_t i, std::size_t stop) const;
  bool is_safe(std::size_t i, std::size_t stop) const { return saves_[i].safe() <= stop; }
  bool may_be_superseded(std::size_t i, std::size_t stop) const;
  bool may_be_removed(std::size_t i, std::size_t stop) const;
  std::vector<std::size_t> allowed(std::int64_t step, std::size_t stop, bool& required) const;

  mutable std::mutex mutex_;
  std::vector<Save> saves_;
  std::vector<Head> heads_;
  std::set<int> former_;  // owners
};

}  // namespace cairn::campaign
