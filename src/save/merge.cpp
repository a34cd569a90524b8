// Merge: the entries of all ranks become one index.
#include <cstring>

#include "base/wire.hpp"
#include "contents/seal.hpp"
#include "group/collectives.hpp"
#include "job/messages.hpp"
#include "save/save_steps.hpp"

namespace cairn {

std::vector<StoredTensor> merge_entries(Group& group, std::vector<StoredTensor> mine,
                                        SaveStatistics* measured) {
  WireWriter writer;
  writer.put(measured ? RankFigures::of(*measured, group.rank()) : RankFigures());
  put(writer, mine);
  // The tree joins runs of entries behind one set of figures; order within does not matter, since
  // join_entries sorts once.
  const auto all = reduce_to_root(group, writer.take(), [](std::string low, std::string high) {
    auto figures = WireReader(low).get<RankFigures>();
    figures.fold(WireReader(high).get<RankFigures>());
    std::memcpy(low.data(), &figures, sizeof figures);
    return std::move(low.append(high, sizeof figures));
  });
  std::vector<StoredTensor> merged;
  together(group, [&] {
    if (group.rank() != 0) return;
    WireReader reader(all);
    const auto figures = reader.get<RankFigures>();
    if (measured) figures.give(*measured);
    merged = join_entries(get_stored(reader));
  });
  return merged;
}

}  // namespace cairn
