#pragma once
/// Several ascending streams, read as one.
#include <algorithm>
#include <cstddef>
#include <vector>

namespace cairn {

/// Calls visit(stream) until all streams have ended, each time with the one whose front comes
/// first; among equals with the first of them. visit() takes the front off its stream. A stream has
/// ended(), and `before` compares two streams by their fronts.
template <class Stream, class Before, class Visit>
void merge_streams(std::vector<Stream>& streams, const Before& before, const Visit& visit) {
  std::vector<std::size_t> heap;  // of streams that have not ended; the first one is in front
  const auto after = [&](std::size_t a, std::size_t b) {
    // The heap functions of the standard library keep the greatest in front, so this order is the
    // reverse.
    if (before(streams[b], streams[a])) return true;
    return !before(streams[a], streams[b]) && a > b;
  };
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (!streams[i].ended()) heap.push_back(i);
  }
  std::make_heap(heap.begin(), heap.end(), after);
  while (heap.size() > 1) {
    std::pop_heap(heap.begin(), heap.end(), after);
    auto& stream = streams[heap.back()];
    visit(stream);
    if (stream.ended()) {
      heap.pop_back();
    } else {
      std::push_heap(heap.begin(), heap.end(), after);
    }
  }
  if (heap.empty()) return;
  // The last stream needs no comparisons.
  for (auto& last = streams[heap.front()]; !last.ended();) visit(last);
}

}  // namespace cairn
