#include "store/contents/own_index.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/commit/names.hpp"
#include "store/contents/format.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/spare.hpp"
#include "store/contents/whose.hpp"

namespace cairn {
namespace {

using Found = std::variant<OwnIndex, std::string>;

constexpr const char* no_copies =
    "an HDF5 file has no copy of anything: nothing of it can be put back";

commit::Naming alone(const Address& prefix) { return {prefix.name(), false}; }

// Whether there are data files of several saves under this name.
bool are_of_several(const Address& prefix) {
  std::set<std::int64_t> counts;
  for (const auto& entry : prefix.directory().list()) {
    const auto parsed = commit::parse_name(entry, alone(prefix));
    if (parsed.kind == commit::ParsedName::Kind::data) counts.insert(parsed.count);
  }
  return counts.size() > 1;
}

// The index by a spare copy of it. Its metadata are sound, since they and the copy prove each
// other.
OwnIndex of_copy(const Address& prefix, const std::string& bytes, bool replaces) {
  auto loaded = look_into(*prefix.files(), prefix.path(), bytes, Graph::skip);
  return {bytes, parse_contents(loaded, prefix.path()), false, true, replaces};
}

bool all_sound(const Address& prefix, const OwnIndex& index) {
  const auto all = extents_of(index.contents);
  return std::all_of(all.begin(), all.end(), [&](const auto& one) {
    return is_sound(*prefix.files(), data_path(index.contents, one.first), one.second,
                    index.contents, index.tail(one.second));
  });
}

// There are files of several saves under this name, as after a crash that brought earlier ones
// back. Returns the last save's index, if that save is whole and the copies show that all others
// came before it. Otherwise the data of a later save could be taken for debris.
std::optional<OwnIndex> last_whole(const Address& prefix, const std::vector<Spare>& own,
                                   bool replaces) {
  std::set<std::int64_t> counts;
  const Spare* last = nullptr;
  for (const auto& spare : own) {
    counts.insert(spare.num_files);
    if (!last || last->meta.sequence < spare.meta.sequence) last = &spare;
  }
  for (const auto& entry : prefix.directory().list()) {
    const auto parsed = commit::parse_name(entry, alone(prefix));
    const bool is_data = parsed.kind == commit::ParsedName::Kind::data;
    if (is_data && !counts.contains(parsed.count)) return std::nullopt;
  }
  if (!last) return std::nullopt;
  auto index = of_copy(prefix, last->index, replaces);
  return all_sound(prefix, index) ? std::optional(std::move(index)) : std::nullopt;
}

// For an index that can be read. Nothing is known against it if the metadata fit it, or are gone.
Found of_index(const Address& prefix, IndexFile there) {
  OwnIndex index{there.bytes, parse_contents(there, prefix.path()), true};
  if (index.contents.own.empty()) return "Cairn did not save it";
  if (const auto why = misplaced(index.contents); !why.empty()) {
    return cat(why, "; give the files the names back that they had");
  }
  index.fits = index.contents.meta.has_value();
  if (index.fits) return index;
  index.save_id = found_save_id(*prefix.files(), index.contents);
  std::vector<Spare> own, unknown;
  for (auto& spare : find_spares(prefix)) {
    const auto of = whose(prefix, spare.meta);
    if (of != Whose::anothers) (of == Whose::its_own ? own : unknown).push_back(std::move(spare));
  }
  // The metadata do not fit the index. Without a copy of another index nothing speaks against this
  // one.
  if (own.empty() && unknown.empty()) return index;
  if (own.size() > 1 || are_of_several(prefix)) {
    if (auto last = last_whole(prefix, own, true)) return *std::move(last);
    return "the metadata do not fit the index, and what is there is of several saves";
  }
  if (!own.empty()) return of_copy(prefix, own.front().index, true);
  auto other = of_copy(prefix, unknown.front().index, true);
  return unknown.size() == 1 && all_sound(prefix, other) ? other : index;
}

// For an index that cannot be read: takes its copy, if no data here may be of another save.
Found of_lost(const Address& prefix) {
  if (const auto lost = find_lost_at(*prefix.files(), prefix.path())) {
    if (lost->spare.empty()) return lost->why;
    return of_copy(prefix, lost->spare, false);
  }
  if (!prefix.at(commit::index_path(prefix.path())).exists()) return no_copies;
  auto spares = find_spares(prefix);
  std::erase_if(spares,
                [&](const auto& spare) { return whose(prefix, spare.meta) == Whose::anothers; });
  const auto damaged = cat(commit::index_name(prefix.name()), " is damaged, and ");
  if (spares.empty()) return cat(damaged, "no data file holds a sound copy of it");
  const bool beside_hdf5 = prefix.at(commit::hdf5_path(prefix.path())).exists();
  if (spares.size() > 1 || are_of_several(prefix) || beside_hdf5) {
    const bool all_own = std::all_of(spares.begin(), spares.end(), [&](const auto& spare) {
      return whose(prefix, spare.meta) == Whose::its_own;
    });
    if (all_own && !beside_hdf5) {
      if (auto last = last_whole(prefix, spares, false)) return *std::move(last);
    }
    return cat(damaged, "what is there is of several saves");
  }
  auto index = of_copy(prefix, spares.front().index, false);
  if (whose(prefix, spares.front().meta) == Whose::its_own || all_sound(prefix, index)) {
    return index;
  }
  return cat(damaged, "nothing tells whether the copy in ", spares.front().file, " is of it");
}

}  // namespace

Found find_own_index(const Address& prefix) {
  std::optional<IndexFile> there;
  try {
    there = load_index(prefix);
  } catch (const Error& error) {
    if (error.code() != Code::data_loss) throw;
  }
  if (!there) return of_lost(prefix);
  if (!format_of(there->format).has_data_files()) return no_copies;
  return of_index(prefix, *std::move(there));
}

}  // namespace cairn
