#pragma once
/// One random case of rows by id from n ranks to m: every element is a function of its id, so that
/// any rank can make and check any row.
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "cairn/redistribute.hpp"

namespace cairn::test {

class IndexedCase {
 public:
  IndexedCase(int n, int m, unsigned seed) : seed_(seed) {
    std::mt19937_64 random(seed * 1000 + static_cast<unsigned>(n * 10 + m));
    has_gaps_ = seed % 3 == 1;
    first_ = has_gaps_ ? 0 : static_cast<std::int64_t>(random() % 3);
    // A few rows, perhaps fewer than ranks, or more than one message takes.
    const std::size_t sizes[] = {1 + random() % 3, 20 + random() % 200, 3000 + random() % 3000};
    all_.resize(sizes[random() % 3]);
    std::iota(all_.begin(), all_.end(), first_);
    if (has_gaps_) {
      for (auto& id : all_) id = static_cast<std::int64_t>(random() >> (1 + random() % 60));
      std::sort(all_.begin(), all_.end());
      all_.erase(std::unique(all_.begin(), all_.end()), all_.end());
    }
    const auto dealt = [&](int ranks, bool in_runs) {
      std::vector<std::vector<std::int64_t>> lists(static_cast<std::size_t>(ranks));
      auto order = all_;
      if (!in_runs) std::shuffle(order.begin(), order.end(), random);
      std::size_t run = 0, list = 0;
      for (const auto id : order) {
        if (run-- == 0) run = in_runs ? random() % 300 : 0, list = random() % lists.size();
        lists[list].push_back(id);
      }
      return lists;
    };
    held_ = dealt(n, seed % 4 == 3);
    wanted_ = dealt(m, false);
    for (auto& list : wanted_) {  // ghosts, and rows that nobody wants
      for (std::size_t i = random() % 4; i > 0; --i) list.push_back(all_[random() % all_.size()]);
      if (random() % 4 == 0) list.resize(list.size() / 2);
      std::shuffle(list.begin(), list.end(), random);
    }
    left_out_ = random();
  }

  /// Collective over n ranks: saves step 1.
  void save(std::shared_ptr<Group> group, const std::filesystem::path& directory,
            ManagerOptions options, bool in_background = false) const {
    Data mine(*this, held_[static_cast<std::size_t>(group->rank())]);
    mine.fill();
    State state;
    if (!mine.list.empty() || left_out_ % 2 == 0) mine.add_to(state, *this);
    CheckpointManager manager(group, directory, options);
    if (in_background) {
      manager.save_async(1, state);
      mine.clear();
      manager.wait();
    } else {
      manager.save(1, state);
    }
  }

  /// Collective over m ranks. Returns "" or what is wrong on this rank.
  std::string restore(std::shared_ptr<Group> group, const std::filesystem::path& directory,
                      ManagerOptions options) const {
    Data mine(*this, wanted_[static_cast<std::size_t>(group->rank())]), plain(*this, all_);
    mine.clear();
    State state, whole;
    if (!mine.list.empty() || left_out_ % 3 == 0) mine.add_to(state, *this);
    whole.add("x", plain.x = std::vector<double>(all_.size()));
    CheckpointManager manager(group, directory, options);
    const auto contents = manager.open(1);
    const auto* points = contents.find("points");
    if (!points || points->shape != Dims{static_cast<std::int64_t>(all_.size()), 2, 3}) {
      return "points is not there";
    }
    if (has_gaps_ != (contents.find("numbers") != nullptr)) return "ids are stored or not";
    manager.restore(1, state);
    if (const auto wrong = mine.check("by id"); !wrong.empty()) return wrong;
    // The rows as an ordinary array in the order of ids.
    std::vector<std::int64_t> numbers(all_.size());
    if (has_gaps_) whole.add("numbers", numbers);
    manager.restore(1, whole);
    if (has_gaps_ && numbers != all_) return "the stored ids are others";
    return plain.check_x("as an array");
  }

  /// Collective over n ranks, with m equal to n: redistributes from memory to memory, twice.
  /// Returns "" or what is wrong.
  std::string redistribute(std::shared_ptr<Group> group) const {
    const auto rank = static_cast<std::size_t>(group->rank());
    Data mine(*this, held_[rank]), theirs(*this, wanted_[rank]);
    State from, to, whole;
    mine.fill();
    const auto given = mine;
    if (!mine.list.empty() || left_out_ % 2 == 0) mine.add_to(from, *this);
    theirs.clear();
    if (!theirs.list.empty() || left_out_ % 3 == 0) theirs.add_to(to, *this);
    Redistribution again(group, from, to, {.chunk_bytes = 4096});
    for (const char* turn : {"first", "again"}) {
      theirs.clear();
      again.run();
      if (const auto wrong = theirs.check(turn); !wrong.empty()) return wrong;
    }
    if (again.plans() != 1) return "it was planned anew";
    if (mine.x != given.x || mine.points != given.points) return "what was given has changed";
    // The rows as an ordinary array in the order of ids.
    Data plain(*this, all_);
    std::vector<std::int64_t> numbers(all_.size());
    whole.add("x", plain.x = std::vector<double>(all_.size()));
    if (has_gaps_) whole.add("numbers", numbers);
    cairn::redistribute(group, from, whole);
    if (has_gaps_ && numbers != all_) return "the ids are others";
    return plain.check_x("as an array");
  }

 private:
  struct Mixed {
    double mass;
    std::int32_t kind;
    std::int32_t unused = 0;  // no padding, whose bits would be saved as they are
    bool operator==(const Mixed&) const = default;
  };
  static double f(std::int64_t id, int k) { return static_cast<double>(id % 100003) + k / 8.0; }
  static Mixed g(std::int64_t id) {
    Mixed one{};
    one.mass = f(id, 7), one.kind = static_cast<std::int32_t>(id % 7);
    return one;
  }

  struct Data {
    std::vector<std::int64_t> list;
    std::vector<std::uint32_t> narrow;
    std::vector<double> x, strided;
    std::vector<std::array<float, 2>> pairs;
    std::vector<double> points;  // [2 3]
    std::vector<Mixed> mixed;

    Data(const IndexedCase& one, std::vector<std::int64_t> ids) : list(std::move(ids)) {
      if (!one.has_gaps_) narrow.assign(list.begin(), list.end());
    }
    void fill() {
      strided.assign(3 * list.size() + 3, 0);
      for (std::size_t i = 0; i < list.size(); ++i) {
        const auto id = list[i];
        x.push_back(f(id, 0));
        strided[3 * i + 1] = f(id, 1);
        pairs.push_back({static_cast<float>(f(id, 0)), static_cast<float>(f(id, 8))});
        for (int k = 0; k < 6; ++k) points.push_back(f(id, k));
        mixed.push_back(g(id));
      }
    }
    void clear() {
      strided.assign(3 * list.size() + 3, -1);
      x.assign(1, -1), pairs.clear(), points.clear(), mixed.assign(2, Mixed{});
    }
    void add_to(State& state, const IndexedCase& one) {
      const IdOptions options{.first = one.first_,
                              .rows = one.seed_ % 2 == 0 && !one.has_gaps_
                                          ? static_cast<std::int64_t>(one.all_.size())
                                          : -1,
                              .ids_key = one.has_gaps_ ? "numbers" : ""};
      const auto ids = narrow.empty() ? cairn::ids(&list, options) : cairn::ids(&narrow, options);
      state.add("x", indexed(ids, x)).add("pairs", indexed(ids, pairs));
      state.add("points", indexed(ids, points, {2, 3}));
      state.add("mixed", indexed(ids, mixed, DType::uint8, {sizeof(Mixed)}));
      const auto rows = static_cast<std::int64_t>(list.size());
      state.add("strided", indexed(ids, cairn::whole(strided.data() + 1, {rows, 1}, {3, 1})));
    }
    std::string check_x(const char* what) const {
      if (x.size() != list.size()) return cat(what, ": ", x.size(), " rows");
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (x[i] != f(list[i], 0)) return cat(what, ": row of ", list[i], " is ", x[i]);
      }
      return "";
    }
    std::string check(const char* what) const {
      if (list.empty()) return "";
      if (const auto wrong = check_x(what); !wrong.empty()) return wrong;
      auto expected = *this;
      expected.x.clear(), expected.pairs.clear(), expected.points.clear(), expected.mixed.clear();
      expected.fill();
      for (std::size_t i = 0; i < expected.strided.size(); ++i) {
        if (i % 3 != 1) expected.strided[i] = -1;  // beside the rows nothing is touched
        if (i >= 3 * list.size()) expected.strided[i] = -1;
      }
      const bool same = pairs == expected.pairs && points == expected.points &&
                        mixed == expected.mixed && strided == expected.strided;
      return same ? "" : cat(what, ": rows differ");
    }
  };

  unsigned seed_;
  bool has_gaps_ = false;
  std::int64_t first_ = 0;
  std::vector<std::int64_t> all_;                         // ascending
  std::vector<std::vector<std::int64_t>> held_, wanted_;  // by rank
  std::uint64_t left_out_ = 0;
};

}  // namespace cairn::test
