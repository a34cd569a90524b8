// Which checkpoints a return to an earlier one has left behind.
#include <algorithm>
#include <limits>

#include "store/directory/catalog.hpp"

namespace cairn {
namespace {

// Whether a save went on from this one, or from one after it. A copy has the number of its
// original.
bool is_before(const SaveInfo& older, const SaveInfo& save) {
  const auto number = older.sequence;
  return number > 0 && (number <= save.parent || number == save.sequence);
}

}  // namespace

void mark_superseded(std::vector<CatalogEntry>& entries) {
  // From the newest to the oldest: whether an entry is superseded, later entries decide.
  const auto lacks_sequence = [](const CatalogEntry& entry) {
    return entry.save.sequence <= 0 && !entry.damage.empty();
  };
  std::vector<std::int64_t> known;  // sequences, where some entry has none
  if (std::any_of(entries.begin(), entries.end(), lacks_sequence)) {
    for (const auto& entry : entries) known.push_back(entry.save.sequence);
    std::sort(known.begin(), known.end());
  }
  std::size_t behind = entries.size();  // from here on, all that came before what was looked at
  auto lowest = std::numeric_limits<std::int64_t>::max();  // step of those without a parent
  for (std::size_t now = entries.size(); now-- > 0;) {
    auto& entry = entries[now];
    entry.superseded = now >= behind || entry.step >= lowest;
    if (entry.save.parent < 0) {
      lowest = std::min(lowest, entry.step);
      continue;
    }
    // The entry leaves behind what came after its parent. An entry that could not be read has no
    // sequence, and goes by its place.
    const auto stays = [&](const CatalogEntry& older) {
      const bool of_others = !older.ours && older.damage.empty();
      return of_others || is_before(older.save, entry.save);
    };
    // If no entry has the parent's sequence, an entry without a sequence may be the parent.
    const bool has_parent = std::binary_search(known.begin(), known.end(), entry.save.parent);
    const auto is_parent = [&](const CatalogEntry& older) {
      return !has_parent && lacks_sequence(older) && older.step < entry.step;
    };
    std::size_t from = now;
    while (from > 0 && !stays(entries[from - 1]) && !is_parent(entries[from - 1])) --from;
    behind = std::min(behind, from);
  }
}

}  // namespace cairn
