#pragma once
/// Random exchanges between ranks.
#include <map>
#include <vector>

#include "exchange/exchange.hpp"
#include "exchange/sharding/decompositions.hpp"

namespace cairn::plan::problems {

struct Problem {
  std::vector<Source> sources;
  std::vector<Target> targets;
  int ranks = 1;
  std::int64_t chunk_bytes = 64;
  std::map<int, std::int64_t> element_bytes;
  std::vector<int> served_by = {};
};

/// Several tensors, cut one way in the sources and another in the targets.
inline Problem random_problem(boxes::Random& random) {
  Problem problem;
  problem.ranks = static_cast<int>(boxes::draw(random, 1, 8));
  problem.chunk_bytes = boxes::draw(random, 1, 120);
  for (int tensor = 0; tensor < static_cast<int>(boxes::draw(random, 1, 4)); ++tensor) {
    auto shape = boxes::random_shape(random);
    if (!shape.empty() && boxes::chance(random, 5)) shape[0] = 0;
    const auto whole = Box::whole(shape);
    const auto element = problem.element_bytes[tensor] = boxes::draw(random, 1, 16);
    const auto pieces = [&] {
      return whole.empty() ? std::vector<Box>{whole} : boxes::decompose(random, whole);
    };
    const bool pinned = boxes::chance(random, 25), gaps = boxes::chance(random, 20);
    for (const auto& box : pieces()) {
      if (gaps && boxes::chance(random, 30)) continue;
      const int rank = pinned ? static_cast<int>(boxes::draw(random, -1, problem.ranks - 1)) : -1;
      problem.sources.push_back({tensor, box, element, rank});
    }
    const auto want = [&](const Box& box, int rank) {
      problem.targets.push_back({tensor, box, rank, static_cast<int>(problem.targets.size())});
    };
    switch (boxes::draw(random, 0, 3)) {
      case 0:  // every rank wants all of it
        for (int rank = 0; rank < problem.ranks; ++rank) want(whole, rank);
        break;
      case 1:  // no rank wants it
        break;
      default:
        for (auto box : pieces()) {
          const auto rank = static_cast<int>(boxes::draw(random, 0, problem.ranks - 1));
          if (boxes::chance(random, 10)) continue;
          if (boxes::chance(random, 30)) {  // with a halo
            for (std::size_t d = 0; d < box.rank(); ++d) {
              const auto low = std::max<std::int64_t>(box.start[d] - 1, 0);
              box.extent[d] = std::min(box.end(d) + 1, shape[d]) - low;
              box.start[d] = low;
            }
          }
          want(box, rank);
          if (boxes::chance(random, 10)) want(box, rank);
        }
    }
  }
  return problem;
}

}  // namespace cairn::plan::problems
