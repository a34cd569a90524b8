#pragma once
/// One random case of sparse tensors from n ranks to m: some boxes of each are held by no rank, and
/// ranks want other boxes than were held, which may lie in gaps, across their edges, or beside
/// them.
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "support/sample_state.hpp"

namespace cairn::test {

class SparseCase {
 public:
  SparseCase(int n, int m, unsigned seed) : seed_(seed) {
    std::mt19937 random(seed * 1000 + static_cast<unsigned>(n * 10 + m));
    static constexpr DType dtypes[] = {DType::float64, DType::int16, DType::complex64,
                                       DType::float8_e5m2, DType::boolean};
    const auto tensors = 1 + random() % 3;
    for (std::size_t i = 0; i < tensors; ++i) {
      One one{{cat("level/", i), dtypes[random() % std::size(dtypes)], {}}, {}, {}, {}, {}};
      const auto dims = 1 + random() % 4;
      for (std::size_t d = 0; d < dims; ++d) {
        one.sample.shape.push_back(static_cast<std::int64_t>(1 + random() % (d < 2 ? 23 : 7)));
      }
      const auto pieces = guillotine(one.sample.shape, 2 + static_cast<int>(random() % 14), random);
      // Sometimes nearly all boxes are held, sometimes nearly none; once in a while all.
      const auto chance = random() % 5;
      for (const auto& piece : pieces) {
        if (chance == 0 || random() % 5 >= chance) one.held.push_back(piece);
      }
      if (one.held.empty()) one.held.push_back(pieces[random() % pieces.size()]);
      one.by_holder = deal(one.held, n, true, random);
      const auto parts = guillotine(one.sample.shape, 1 + static_cast<int>(random() % 9), random);
      one.by_wish = random() % 4 == 0
                        ? std::vector<std::vector<Box>>(static_cast<std::size_t>(m),
                                                        {Box::whole(one.sample.shape)})
                        : deal(parts, m, true, random);
      one.fill.resize(dtype_size(one.sample.dtype));
      for (auto& byte : one.fill) byte = static_cast<char>(random());
      if (one.sample.dtype == DType::boolean) one.fill[0] = 1;
      all_.push_back(std::move(one));
    }
  }

  /// Collective over n ranks: saves steps 1 and 2, whose values differ; step 2 may use the plan of
  /// 1.
  void save(std::shared_ptr<Group> group, const std::filesystem::path& directory,
            ManagerOptions options, bool in_background, Storage storage) const {
    options.write.chunk_bytes = 4096;
    Data mine;
    State state;
    state.store(storage);
    for (const auto& one : all_) {
      const auto& boxes = one.by_holder[static_cast<std::size_t>(group->rank())];
      if (boxes.empty() && seed_ % 2 == 0) continue;  // leaves the key out
      state.add(one.sample.key, sparse(mine.tensor(one.sample, boxes, seed_ % 3 == 1),
                                       one.sample.dtype, one.fill.data()));
    }
    CheckpointManager manager(group, directory, options);
    for (std::int64_t step = 1; step <= 2; ++step) {
      mine.set(static_cast<std::uint64_t>(step));
      if (in_background) {
        manager.save_async(step, state);
        mine.poison();
        manager.wait();
      } else {
        manager.save(step, state);
      }
    }
  }

  /// Collective over m ranks: restores each step. Returns "" or what is wrong on this rank.
  std::string restore(std::shared_ptr<Group> group, const std::filesystem::path& directory,
                      ManagerOptions options) const {
    options.write.chunk_bytes = 4096;
    CheckpointManager manager(group, directory, options);
    for (std::int64_t step = 1; step <= 2; ++step) {
      const auto contents = manager.open(step);
      Data mine;
      State state;
      const auto what = (seed_ + static_cast<unsigned>(step)) % 2 == 0 ? Gaps::fill : Gaps::keep;
      for (const auto& one : all_) {
        const auto* stored = contents.find(one.sample.key);
        if (!stored) return one.sample.key + " is not there";
        const auto missing = element_count(one.sample.shape) - held_elements(one);
        if ((stored->gaps ? stored->gaps->elements() : 0) != missing) return "other gaps are noted";
        if (stored->gaps && stored->gaps->fill != one.fill) return "another fill value is noted";
        const auto& boxes = one.by_wish[static_cast<std::size_t>(group->rank())];
        state.add(one.sample.key, sparse(mine.tensor(one.sample, boxes, seed_ % 3 == 0),
                                         one.sample.dtype, one.fill.data(), what));
      }
      mine.poison();
      manager.restore(step, state);
      if (const auto wrong = check(mine, static_cast<std::uint64_t>(step), what); !wrong.empty()) {
        return cat("step ", step, ", ", what == Gaps::fill ? "filled" : "kept", ": ", wrong);
      }
    }
    return "";
  }

 private:
  struct One {
    Sample sample;
    std::vector<Box> held;
    std::vector<std::vector<Box>> by_holder, by_wish;
    std::string fill;
  };

  // Memory for slices, some with one column more than the slice has.
  struct Data {
    struct Part {
      Sample sample;
      Box box;
      std::int64_t row;  // elements in memory
      std::vector<char> memory;
    };
    std::deque<Part> parts;

    LocalTensor tensor(const Sample& sample, const std::vector<Box>& boxes, bool wide) {
      std::vector<LocalTensor> slices;
      for (const auto& box : boxes) {
        if (box.empty()) continue;
        const auto item = dtype_size(sample.dtype);
        auto& part = parts.emplace_back(Part{sample, box, box.extent.back() + wide, {}});
        auto in_memory = box.extent;
        in_memory.back() = part.row;
        part.memory.resize(static_cast<std::size_t>(element_count(in_memory)) * item);
        slices.push_back(slice(sample.dtype, static_cast<void*>(part.memory.data()), sample.shape,
                               box.start, box.extent, row_major_strides(in_memory)));
      }
      return slices.empty() ? nothing(sample.dtype, sample.shape) : patches(std::move(slices));
    }
    void poison() {
      for (auto& part : parts) std::fill(part.memory.begin(), part.memory.end(), poisoned);
    }
    void set(std::uint64_t version) {
      each([&](Part& part, const Dims&, std::int64_t linear, char* at) {
        element_bytes(part.sample, linear, version, reinterpret_cast<std::byte*>(at));
      });
    }
    template <class Visit>
    void each(const Visit& visit) {
      for (auto& part : parts) {
        const auto item = dtype_size(part.sample.dtype);
        const auto strides = row_major_strides(part.sample.shape);
        const auto inner = row_major_strides(part.box.extent);
        for (std::int64_t i = 0; i < part.box.count(); ++i) {
          Dims at = part.box.start;
          std::int64_t linear = 0, rest = i;
          for (std::size_t d = 0; d < at.size(); ++d) {
            at[d] += rest / inner[d];
            rest %= inner[d];
            linear += at[d] * strides[d];
          }
          const auto last = part.box.extent.back();
          const auto place = static_cast<std::size_t>(i / last * part.row + i % last);
          visit(part, at, linear, part.memory.data() + place * item);
        }
      }
    }
  };

  static std::int64_t held_elements(const One& one) {
    std::int64_t all = 0;
    for (const auto& box : one.held) all += box.count();
    return all;
  }

  std::string check(Data& mine, std::uint64_t version, Gaps what) const {
    std::string wrong;
    mine.each([&](Data::Part& part, const Dims& at, std::int64_t linear, char* found) {
      const auto& one = *std::find_if(all_.begin(), all_.end(), [&](const auto& candidate) {
        return candidate.sample.key == part.sample.key;
      });
      std::string expected(one.fill.size(), poisoned);
      const Box here{at, Dims(at.size(), 1)};
      const bool held = std::any_of(one.held.begin(), one.held.end(),
                                    [&](const auto& box) { return box.contains(here); });
      if (held) {
        element_bytes(part.sample, linear, version, reinterpret_cast<std::byte*>(expected.data()));
      } else if (what == Gaps::fill) {
        expected = one.fill;
      }
      if (std::memcmp(found, expected.data(), expected.size()) == 0 || !wrong.empty()) return;
      wrong = cat(one.sample.key, " at ", shape_text(at), held ? ", which was held" : ", in a gap");
    });
    return wrong;
  }

  static constexpr char poisoned = 0x55;
  unsigned seed_;
  std::vector<One> all_;
};

}  // namespace cairn::test
