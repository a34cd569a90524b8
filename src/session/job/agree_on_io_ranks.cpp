// Where ranks run, and which of them touch files. All ranks compute the io ranks from the same
// nodes and the same wish, so no message tells them the result.
#include "exchange/io_ranks.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "group/collectives.hpp"
#include "session/job/job.hpp"

namespace cairn {
namespace {

std::string text_of(const IoRanks& io) {
  return cat(words(io.choice)[static_cast<std::size_t>(io.choice)], " ", io.ranks, ", ",
             io.memory_bytes, " bytes", io.joined ? ", joined" : "");
}

}  // namespace

std::vector<int> Job::io_ranks() const {
  std::vector<int> all;
  for (int r = 0; r < group->size(); ++r) {
    if (io_rank_of(r) == r) all.push_back(r);
  }
  return all;
}

void agree_on_nodes(Job& job) {
  Group& group = *job.group;
  // Empty if the group knows only the node of each rank itself: then ranks tell each other.
  const auto known = group.nodes();
  job.places.node_of.assign(known.begin(), known.end());
  if (known.empty()) {
    for (const auto& node : all_gather(group, pack(group.node()))) {
      job.places.node_of.push_back(unpack<int>(node));
    }
  }
  const auto mine = job.places.node_of.begin() + group.rank();
  job.places.rank_in_node = static_cast<int>(std::count(job.places.node_of.begin(), mine, *mine));
}

void agree_on_io_ranks(Job& job) {
  Group& group = *job.group;
  const auto& wish = job.options.write.io_ranks;
  require_same(group, "the io ranks", text_of(wish));
  job.places.served_by.clear();
  if (wish.choice == IoRanks::Choice::everyone) return;
  job.places.served_by = run_and_agree(group, [&] {
    if (wish.memory_bytes < job.options.write.chunk_bytes) {
      throw Error(Code::invalid_argument,
                  cat("IoRanks::memory_bytes is ", wish.memory_bytes, ", chunk_bytes is ",
                      job.options.write.chunk_bytes),
                  "an io rank holds at least one chunk of what others send it",
                  "Allow more, or take smaller chunks.");
    }
    return plan::choose_io_ranks(job.places.node_of, wish);
  });
}

}  // namespace cairn
