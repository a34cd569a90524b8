// Copies of parts of row-major arrays, compared with copies of each element.
#include "model/copy_part.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "base/copy.hpp"
#include "model/runs.hpp"

namespace cairn {
namespace {

using Bytes = std::vector<std::byte>;

class DrawnParts {
 public:
  explicit DrawnParts(unsigned seed) : random_(seed) {}
  std::int64_t upto(std::int64_t most) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most + 1));
  }
  Box part() {
    Box box;
    const auto rank = upto(6);
    for (std::int64_t d = 0; d < rank; ++d) {
      box.start.push_back(upto(9) - 3);
      box.extent.push_back(rank > 4 ? upto(3) : d + 1 == rank && upto(1) ? upto(900) : upto(5));
    }
    return box;
  }
  /// A box of the size of the part, or larger in some dimensions.
  Box around(const Box& part) {
    Box box = part;
    for (std::size_t d = 0; d < part.rank(); ++d) {
      if (upto(1)) continue;
      const auto before = upto(2);
      box.start[d] -= before;
      box.extent[d] += before + upto(2);
    }
    return box;
  }
  Bytes bytes(std::size_t count) {
    Bytes all(count);
    for (auto& one : all) one = static_cast<std::byte>(random_());
    return all;
  }

 private:
  std::mt19937 random_;
};

std::int64_t place(const Dims& at, const Box& box) {
  std::int64_t index = 0;
  for (std::size_t d = 0; d < at.size(); ++d) {
    index = index * box.extent[d] + at[d] - box.start[d];
  }
  return index;
}

TEST(CopyPart, IsThatOfEachElement) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    DrawnParts draw(seed);
    const auto part = draw.part(), from_box = draw.around(part), to_box = draw.around(part);
    const std::size_t item = std::size_t{1} << draw.upto(4);
    const auto size_of = [&](const Box& box) {
      return static_cast<std::size_t>(box.count()) * item;
    };
    const auto from = draw.bytes(size_of(from_box) + 1), before = draw.bytes(size_of(to_box) + 1);
    auto expected = before;
    for (std::int64_t i = 0; i < part.count(); ++i) {
      auto at = index_at(i, part.extent);
      for (std::size_t d = 0; d < at.size(); ++d) at[d] += part.start[d];
      std::memcpy(expected.data() + static_cast<std::size_t>(place(at, to_box)) * item,
                  from.data() + static_cast<std::size_t>(place(at, from_box)) * item, item);
    }
    for (const bool far : {false, true}) {
      auto to = before;
      copy_part(part, item, to.data(), to_box, from.data(), from_box, far);
      order_copies_past_caches();
      ASSERT_EQ(to, expected) << "seed " << seed << ", " << box_text(part) << " of "
                              << box_text(from_box) << " to " << box_text(to_box);
    }
  }
}

TEST(CopyPart, RunsOfAnyLengthAndPlace) {
  DrawnParts draw(1);
  const auto from = draw.bytes(10'000);
  for (const std::size_t bytes : {0, 1, 63, 64, 1023, 1024, 1100, 5000}) {
    for (std::size_t shift = 0; shift < 64; shift += 7) {
      for (const bool far : {false, true}) {
        Bytes to(6000), expected = to;
        std::copy_n(from.begin() + 3, bytes, expected.begin() + static_cast<std::ptrdiff_t>(shift));
        copy_run(to.data() + shift, from.data() + 3, bytes, far);
        order_copies_past_caches();
        EXPECT_EQ(to, expected) << bytes << " bytes to " << shift;
      }
    }
  }
}

}  // namespace
}  // namespace cairn
