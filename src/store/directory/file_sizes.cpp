#include "store/directory/file_sizes.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "store/commit/names.hpp"

namespace cairn {
namespace {

// At once: 8 bytes each on every rank.
constexpr std::size_t most_files = std::size_t{1} << 16;

struct Bundle {
  std::int64_t step, files;
};

// Those of which all data files are listed. Another number of them may be left of an earlier save.
std::vector<Bundle> whole_bundles(const Location& place) {
  std::map<Bundle, std::int64_t, decltype([](const Bundle& a, const Bundle& b) {
             return std::pair(a.step, a.files) < std::pair(b.step, b.files);
           })>
      listed;
  std::map<std::int64_t, bool> has_index;
  for (const auto& name : place.files->list(place.directory)) {
    const auto parsed = commit::parse_name(name, place.naming);
    if (parsed.kind == commit::ParsedName::Kind::data) ++listed[{parsed.step, parsed.count}];
    if (parsed.kind == commit::ParsedName::Kind::index) has_index[parsed.step] = true;
  }
  std::vector<Bundle> whole;
  for (const auto& [bundle, files] : listed) {
    if (files != bundle.files || !has_index.count(bundle.step)) continue;
    if (!whole.empty() && whole.back().step == bundle.step) whole.pop_back();
    whole.push_back(bundle);
  }
  return whole;
}

struct DataFile {
  std::int64_t step;
  int number, of;
};

}  // namespace

// Rank 0 tells all ranks which bundles there are. Then, batch by batch, each io rank looks at its
// share of the files, and a sum brings the sizes together. What one rank cannot see stays 0 in that
// sum.
SizesOfSteps find_sizes_of_steps(const Location& place, const Readers& readers) {
  if (io::has_views(*place.files)) return {};
  std::vector<Bundle> bundles;
  // Never thrown: a rank that failed must take part in the messages, and rank 0 looks again.
  DeferredError unseen;
  if (readers.root()) unseen.guard([&] { bundles = whole_bundles(place); });
  std::string message(reinterpret_cast<const char*>(bundles.data()),
                      bundles.size() * sizeof(Bundle));
  message = broadcast_text(readers.group, std::move(message));
  bundles.resize(message.size() / sizeof(Bundle));
  if (!bundles.empty()) std::memcpy(bundles.data(), message.data(), message.size());

  const auto me = readers.place();
  SizesOfSteps found;
  std::vector<DataFile> batch;
  const auto look = [&] {
    std::vector<std::int64_t> sizes(batch.size());  // and 1 more, as 0 is none
    unseen.guard([&] {
      if (!me) return;
      for (auto i = *me; i < batch.size(); i += readers.ranks.size()) {
        const auto size = data_file_size(*place.files, Format::bundle, place.prefix(batch[i].step),
                                         batch[i].number, batch[i].of);
        if (size) sizes[i] = *size + 1;
      }
    });
    readers.group.all_reduce(sizes, Group::Op::sum);
    for (std::size_t i = 0; readers.root() && i < batch.size(); ++i) {
      found[batch[i].step].push_back(sizes[i] - 1);
    }
    batch.clear();
  };
  for (const auto& bundle : bundles) {
    for (int number = 0; number < static_cast<int>(bundle.files); ++number) {
      batch.push_back({bundle.step, number, static_cast<int>(bundle.files)});
      if (batch.size() == most_files) look();
    }
  }
  if (!batch.empty()) look();
  return found;
}

}  // namespace cairn
