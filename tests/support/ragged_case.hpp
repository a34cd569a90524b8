#pragma once
/// One random case of ragged and rank-private data from n ranks to m: every element is a function
/// of its place, so that any rank can make and check any part.
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/cairn.hpp"

namespace cairn::test {

class RaggedCase {
 public:
  RaggedCase(int n, int m, unsigned seed) : n_(n), m_(m), seed_(seed) {
    std::mt19937 random(seed * 1000 + static_cast<unsigned>(n * 10 + m));
    const bool all_empty = random() % 8 == 0;
    for (int rank = 0; rank < n; ++rank) {
      counts_.push_back(all_empty || random() % 3 == 0 ? 0
                                                       : static_cast<std::int64_t>(random() % 40));
      total_ += counts_.back();
      left_out_.push_back(counts_.back() == 0 && random() % 2 == 0);
    }
    left_out_[0] = left_out_[0] && total_ > 0;  // some rank must know the tensor
    // The cuts of the rows into m parts, some of them empty.
    std::vector<std::int64_t> cuts{0, total_};
    for (int i = 1; i < m; ++i) cuts.push_back(static_cast<std::int64_t>(random()) % (total_ + 1));
    std::sort(cuts.begin(), cuts.end());
    for (int rank = 0; rank < m; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      own_.push_back(cuts[r + 1] - cuts[r]);
      idle_.push_back(random() % 4 == 0);
    }
    idle_[random() % static_cast<unsigned>(m)] = false;
  }

  struct Particle {
    double mass;
    std::int32_t id;
    std::int32_t kind;
  };

  /// Collective over n ranks.
  void save(std::shared_ptr<Group> group, const std::filesystem::path& directory,
            ManagerOptions options) const {
    const auto r = static_cast<std::size_t>(group->rank());
    std::int64_t start = 0;
    for (std::size_t i = 0; i < r; ++i) start += counts_[i];
    Data mine;
    for (auto i = start; i < start + counts_[r]; ++i) {
      mine.x.push_back(x(i));
      mine.points.push_back({f(i, 0), f(i, 1), f(i, 2)});
      for (int k = 0; k < 4; ++k) mine.flat.push_back(flat(i, k));
      mine.particles.push_back({x(i), static_cast<std::int32_t>(i), 7});
    }
    State state;
    if (!left_out_[r]) {
      state.add("x", ragged(mine.x)).add("points", ragged(mine.points));
      state.add("flat", ragged(mine.flat, {2, 2}));
      state.add("particles", ragged(mine.particles, DType::uint8, {sizeof(Particle)}));
    }
    const auto rank = group->rank();
    mine.text = text(rank);
    mine.seeds = seeds(rank);
    mine.number = rank * 11;
    state.add("text", rank_private(mine.text)).add("seeds", rank_private(mine.seeds));
    state.add("number", rank_private(mine.number));
    CheckpointManager(group, directory, options).save(1, state);
  }

  /// Collective over m ranks. Returns "" or what is wrong on this rank.
  std::string restore(std::shared_ptr<Group> group, const std::filesystem::path& directory,
                      ManagerOptions options) const {
    const auto r = static_cast<std::size_t>(group->rank());
    const bool by_own = seed_ % 2 == 1;
    RowDistribution distribution;
    if (by_own) {
      distribution = [&](std::int64_t total, int rank, int ranks) {
        return total == total_ && ranks == m_ ? own_[static_cast<std::size_t>(rank)] : -1;
      };
    }
    Data mine;
    mine.x.assign(3, -1);
    mine.seeds.assign(2, 5);
    State state;
    const bool takes_part = by_own || !idle_[r];
    std::vector<float> single;
    if (takes_part) {
      state.add("x", ragged(mine.x, distribution));
      state.add("single", ragged(single, distribution));
      state.add("points", ragged(mine.points, distribution));
      state.add("flat", ragged(mine.flat, {2, 2}, distribution));
      state.add("particles",
                ragged(mine.particles, DType::uint8, {sizeof(Particle)}, distribution));
    }
    // How items of another number of ranks are dealt: in turn, and the last rank gets none.
    const PrivateOptions dealt{.deal = [](int rank, int ranks, int stored) {
      return ranks > 1 && rank == ranks - 1 ? -1 : rank % stored;
    }};
    state.add("text", rank_private(mine.text, dealt)).add("seeds", rank_private(mine.seeds, dealt));
    state.add("number", rank_private(mine.number, {.optional = true}));
    CheckpointManager manager(group, directory, options);
    if (const auto wrong = check_contents(manager.open(1)); !wrong.empty()) return wrong;
    const auto report = manager.restore(
        1, state, {.rename = {{"single", "x"}}, .convert_keys = {{"single", Conversion::round}}});

    std::int64_t start = 0, count = 0, holders = 0, before = 0;
    for (std::size_t i = 0; i < idle_.size(); ++i) {
      holders += !idle_[i];
      before += i < r && !idle_[i];
    }
    if (by_own) {
      for (std::size_t i = 0; i < r; ++i) start += own_[i];
      count = own_[r];
    } else if (takes_part) {
      count = total_ / holders + (before < total_ % holders);
      start = total_ / holders * before + std::min(before, total_ % holders);
    } else {
      return mine.x.size() == 3 ? check_private(mine, group->rank(), report) : "x was touched";
    }
    if (static_cast<std::int64_t>(mine.x.size()) != count) {
      return cat(mine.x.size(), " rows, not ", count);
    }
    const auto rows = static_cast<std::size_t>(count);
    if (mine.points.size() != rows || mine.flat.size() != 4 * rows || single.size() != rows ||
        mine.particles.size() != rows) {
      return "rows of one tensor are missing";
    }
    for (std::size_t i = 0; i < rows; ++i) {
      const auto g = start + static_cast<std::int64_t>(i);
      bool right = mine.x[i] == x(g) && single[i] == static_cast<float>(x(g));
      right = right && mine.points[i] == std::array{f(g, 0), f(g, 1), f(g, 2)};
      for (int k = 0; k < 4; ++k) right = right && mine.flat[4 * i + k] == flat(g, k);
      const auto& p = mine.particles[i];
      if (!right || p.mass != x(g) || p.id != g || p.kind != 7) return cat("row ", g, " is wrong");
    }
    return check_private(mine, group->rank(), report);
  }

 private:
  struct Data {
    std::vector<double> x;
    std::vector<std::array<float, 3>> points;
    std::vector<std::int16_t> flat;
    std::vector<Particle> particles;
    std::string text = "unset";
    std::vector<std::uint64_t> seeds;
    std::int32_t number = -3;
  };
  static double x(std::int64_t i) { return 0.1 * static_cast<double>(i) - 3; }
  static float f(std::int64_t i, int k) { return static_cast<float>(i * 10 + k); }
  static std::int16_t flat(std::int64_t i, int k) { return static_cast<std::int16_t>(i * 4 + k); }
  static std::string text(int rank) { return std::string(static_cast<std::size_t>(rank * 3), 'a'); }
  static std::vector<std::uint64_t> seeds(int rank) {
    return std::vector<std::uint64_t>(static_cast<std::size_t>(5 - rank % 5), ~std::uint64_t(rank));
  }

  std::string check_contents(const CheckpointContents& contents) const {
    const auto* flat = contents.find("flat");
    if (!flat || flat->shape != Dims{total_, 2, 2} || flat->dtype != DType::int16) {
      return "'flat' is no plain tensor of all rows";
    }
    return "";
  }

  std::string check_private(const Data& mine, int rank, const RestoreReport& report) const {
    int from = rank;
    if (n_ != m_) from = m_ > 1 && rank == m_ - 1 ? -1 : rank % n_;
    if (from < 0 ? mine.text != "unset" : mine.text != text(from)) return "'text' is wrong";
    if (mine.seeds != (from < 0 ? std::vector<std::uint64_t>{5, 5} : seeds(from))) {
      return "'seeds' are wrong";
    }
    if (mine.number != (n_ == m_ ? rank * 11 : -3)) return "'number' is wrong";
    std::vector<std::string> kept;
    if (n_ != m_) kept = {"number"};
    if (n_ != m_ && m_ > 1) kept = {"number", "seeds", "text"};
    return report.kept_keys == kept ? "" : "other keys were kept";
  }

  int n_, m_;
  unsigned seed_;
  std::int64_t total_ = 0;
  std::vector<std::int64_t> counts_, own_;
  std::vector<bool> left_out_, idle_;
};

}  // namespace cairn::test
