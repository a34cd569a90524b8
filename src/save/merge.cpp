// Merge: the entries of all ranks become one index.
#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/wire.hpp"
#include "contents/seal.hpp"
#include "job/by_key.hpp"
#include "job/messages.hpp"
#include "save/save_steps.hpp"

namespace cairn {
namespace {

// One set of figures, folded on the way to rank 0.
void fold_figures(Group& group, SaveStatistics& measured) {
  const auto mine = WireWriter().put(RankFigures::of(measured, group.rank())).take();
  const auto all = reduce_to_root(group, mine, [](const std::string& low, const std::string& high) {
    auto figures = WireReader(low).get<RankFigures>();
    figures.fold(WireReader(high).get<RankFigures>());
    return WireWriter().put(figures).take();
  });
  if (group.rank() == 0) WireReader(all).get<RankFigures>().give(measured);
}

Mail entries_by_key(std::vector<StoredTensor> mine, const KeyPlanners& planners) {
  std::map<int, std::vector<StoredTensor>> letters;
  for (auto& one : mine) letters[planners.of(one.key)].push_back(std::move(one));
  Mail mail;
  for (const auto& [rank, entries] : letters) {
    WireWriter letter;
    put(letter, entries);
    mail.emplace_back(rank, letter.take());
  }
  return mail;
}

void append_entries(std::vector<StoredTensor>& all, const std::string& message) {
  WireReader reader(message);
  auto some = get_stored(reader);
  std::move(some.begin(), some.end(), std::back_inserter(all));
}

// Its slices take more room than what becomes of them.
bundle::IndexEntry encode_and_free(StoredTensor& tensor) {
  auto entry = bundle::encode_entry(tensor);
  tensor = {};
  return entry;
}

}  // namespace

JoinedEntries merge_entries(Group& group, std::vector<StoredTensor> mine, bool encode,
                            SaveStatistics* measured) {
  if (measured) fold_figures(group, *measured);
  std::size_t slices = 0;
  for (const auto& one : mine) slices += one.slices.size();
  const auto planners = key_planners(group, slices);
  auto mail = all_to_all(group, entries_by_key(std::move(mine), planners));
  WireWriter report;
  KeptError error;
  error.guard([&] {
    std::vector<StoredTensor> entries;
    for (auto& [rank, letter] : mail) append_entries(entries, std::exchange(letter, {}));
    auto joined = join_entries(std::move(entries));
    if (!encode) return put(report, joined);
    for (auto& one : joined) put(report, encode_and_free(one));
  });
  mail.clear();
  agree_on_least(group, error.first());
  JoinedEntries all;
  to_root(group, report.take(), [&](const std::string& message) {
    if (!encode) return append_entries(all.tensors, message);
    for (WireReader in(message); !in.empty();) all.encoded.push_back(get_index_entry(in));
  });
  std::sort(all.tensors.begin(), all.tensors.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  return all;
}

}  // namespace cairn
