#pragma once
/// Steps of a job in /run, whose files are damaged, copied and exchanged.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/contents/lost_kit.hpp"

namespace cairn {

inline constexpr std::int64_t whole_file = std::int64_t{1} << 30;
using Values = std::vector<std::optional<double>>;

// Two tensors, each in its own file: "u" differs in each step, "v" in each third. A third file has
// the metadata.
class Repairs : public Lost {
 protected:
  struct Both {
    std::vector<double> u = std::vector<double>(100), v = u;
    State state;
    CheckpointManager manager;
    Both(const Disk& disk, ManagerOptions options)
        : manager(serial_group(), "/run", (options.write.file_system = disk, std::move(options))) {
      state.add("u", u).add("v", v);
    }
    void save(std::int64_t step) {
      std::fill(u.begin(), u.end(), static_cast<double>(step));
      std::fill(v.begin(), v.end(), static_cast<double>(step / 3));
      manager.save(step, state);
    }
  };

  Repairs() {
    options_.store.policy = std::make_shared<MaxShardSizePolicy>(800);
    options_.write.file_system = files_;
  }

  void save(const Disk& disk, const std::vector<std::int64_t>& steps) {
    Both job(disk, options_);
    for (const auto step : steps) job.save(step);
  }
  static std::string bytes(const Disk& disk, const std::string& name) {
    return io::read_file(*disk, "/run/" + name, whole_file);
  }
  static void put(const Disk& disk, const std::string& name, const std::string& bytes) {
    if (disk->status("/run/" + name)) disk->remove("/run/" + name);
    io::write_file(*disk, "/run/" + name, bytes);
    disk->sync_directory("/run");
  }
  static void remove(const Disk& disk, const std::string& name) {
    disk->remove("/run/" + name);
    disk->sync_directory("/run");
  }
  static void copy(const Disk& disk, const std::string& from, const std::string& to) {
    put(disk, to, bytes(disk, from));
  }
  static void exchange(const Disk& disk, const std::string& one, const std::string& other) {
    const auto first = bytes(disk, one);
    copy(disk, other, one);
    put(disk, other, first);
  }
  static void flip(const Disk& disk, const std::string& name, std::size_t at) {
    auto all = bytes(disk, name);
    all[at] = static_cast<char>(all[at] ^ 4);
    put(disk, name, all);
  }
  // Finds files of checkpoints that were changed or are new.
  using Snapshot = std::map<std::string, std::string>;
  static Snapshot take(const Disk& disk) {
    Snapshot all;
    for (const auto& name : lost::names_of(*disk, "ckpt-")) {
      all[name] = disk->status("/run/" + name)->is_directory ? "/" : bytes(disk, name);
    }
    return all;
  }
  static std::set<std::string> changed(const Disk& disk, const Snapshot& before) {
    std::set<std::string> names;
    auto now = take(disk);
    for (const auto& [name, all] : before) {
      if (!now.count(name) || now[name] != all) names.insert(name);
    }
    for (const auto& [name, all] : now) {
      if (!before.count(name)) names.insert(name);
    }
    return names;
  }
  // What restore(step) gives of each tensor alone; nothing if that is an error.
  std::map<std::int64_t, Values> values(const Disk& disk) {
    auto reading = options_;
    reading.read_only = true;
    Both job(disk, reading);
    State u, v;
    u.add("u", job.u), v.add("v", job.v);
    std::map<std::int64_t, Values> found;
    for (const std::int64_t step : {1, 2, 4, 5}) {
      for (auto* state : {&u, &v}) try {
          job.manager.restore(step, *state);
          found[step].push_back((state == &u ? job.u : job.v).at(99));
        } catch (const Error&) {
          found[step].push_back(std::nullopt);
        }
    }
    return found;
  }
  Values values(const Disk& disk, std::int64_t step) { return values(disk).at(step); }
  static Values right(std::int64_t step) {
    return {static_cast<double>(step), static_cast<double>(step / 3)};
  }
  std::int64_t latest(const Disk& disk) {
    Both job(disk, options_);
    const auto report = job.manager.restore_latest(job.state);
    return report ? report->step : 0;
  }
};

}  // namespace cairn
