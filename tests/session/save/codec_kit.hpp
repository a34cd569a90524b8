#pragma once
/// Jobs whose layout encodes what it stores, on a disk in memory.
#include <algorithm>
#include <cstring>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "layout/bundle/index.hpp"
#include "plan_cache_kit.hpp"
#include "support/run_lengths.hpp"

namespace cairn {

inline constexpr std::int64_t row_elements = 600;

// Each rank has rows of zeros with one stamp, which are encoded in far fewer bytes, and rows of
// noise, which become twice as long.
struct NoisyRows {
  std::vector<double> calm, noise;
  State state;

  explicit NoisyRows(Group& group, std::int64_t rows = 6) {
    const auto share = rows / group.size(), first = share * group.rank();
    calm.resize(static_cast<std::size_t>(share * row_elements));
    noise.resize(calm.size());
    state.add("calm", slice(calm.data(), {rows, row_elements}, {first, 0}, {share, row_elements}));
    state.add("noise",
              slice(noise.data(), {rows, row_elements}, {first, 0}, {share, row_elements}));
    first_ = first * row_elements;
  }
  void fill(std::int64_t stamp) {
    for (std::size_t i = 0; i < calm.size(); ++i) {
      const auto at = first_ + static_cast<std::int64_t>(i);
      calm[i] = at % 700 == stamp % 700 ? static_cast<double>(stamp) : 0;
      noise[i] = noise_at(at, stamp);
    }
  }
  void spoil() { std::fill(calm.begin(), calm.end(), -1), noise = calm; }
  // Whether the values have the bits of this stamp.
  bool has(std::int64_t stamp) {
    const auto found = std::pair(calm, noise);
    fill(stamp);
    const auto same = [](const auto& a, const auto& b) {
      return std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
    };
    return same(found.first, calm) && same(found.second, noise);
  }

 private:
  static double noise_at(std::int64_t at, std::int64_t stamp) {
    auto bits = static_cast<std::uint64_t>(at * 1000 + stamp) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ bits >> 29) * 0xbf58476d1ce4e5b9u;
    return static_cast<double>(bits ^ bits >> 31);
  }
  std::int64_t first_ = 0;
};

class Encoded : public PlanCache {
 protected:
  template <class F>
  void rows_job(int ranks, F&& body, std::shared_ptr<io::FileSystem> disk = nullptr) {
    run_threads(ranks, [&](std::shared_ptr<Group> group) {
      auto options = options_;
      if (disk) options.write.file_system = disk;
      CheckpointManager manager(group, "/run", options);
      NoisyRows rows(*group);
      body(manager, rows, *group);
    });
  }
  void save(int ranks, std::int64_t step) {
    rows_job(ranks, [&](CheckpointManager& manager, NoisyRows& rows, Group&) {
      rows.fill(step);
      manager.save(step, rows.state);
    });
  }
  // Which step a job of so many ranks restores; 0: nothing, -1: other values than were saved.
  std::int64_t found(int ranks, std::shared_ptr<io::FileSystem> disk = nullptr) {
    std::int64_t seen = 0;
    rows_job(
        ranks,
        [&](CheckpointManager& manager, NoisyRows& rows, Group& group) {
          rows.spoil();
          const auto report = manager.restore_latest(rows.state);
          const bool good = !report || rows.has(report->step);
          std::int64_t bad = !good;
          group.all_reduce({&bad, 1}, Group::Op::sum);
          if (group.rank() == 0) seen = bad ? -1 : report ? report->step : 0;
        },
        disk);
    return seen;
  }
  CheckpointContents contents(std::int64_t step) {
    return read_contents(*files_, cat("/run/ckpt-", step));
  }
  void put_index(std::int64_t step, const std::string& bytes) {
    const auto path = cat("/run/ckpt-", step, ".index");
    files_->remove(path);
    io::write_file(*files_, path, bytes);
  }
  void put_index(std::int64_t step, const CheckpointContents& changed) {
    auto tensors = changed.tensors;
    tensors.insert(tensors.end(), changed.own.begin(), changed.own.end());
    put_index(step, bundle::build_index(changed.num_files, tensors));
  }
  // The bytes of a tensor in NoisyRows of this stamp.
  static std::string values(const std::string& key, std::int64_t stamp) {
    NoisyRows all(*serial_group());
    all.fill(stamp);
    const auto& of = key == "calm" ? all.calm : all.noise;
    return {reinterpret_cast<const char*>(of.data()), of.size() * sizeof(double)};
  }
};

}  // namespace cairn
