// How the ranks learn what a checkpoint holds.
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/wire.hpp"
#include "group/collectives.hpp"
#include "layout/bundle/index.hpp"
#include "session/restore/restore.hpp"
#include "session/restore/tell_contents.hpp"
#include "store/commit/names.hpp"
#include "store/contents/data_files.hpp"
#include "store/contents/whose.hpp"
#include "store/directory/set_aside.hpp"

namespace cairn {

FoundSizes find_sizes(const Job& job, const io::Path& prefix, Format format, int num_files,
                      bool& told) {
  // A size is summed plus 1, since 0 means that no file was found. The last one is for `told`.
  FoundSizes sizes(static_cast<std::size_t>(num_files) + 1);
  // An io rank that cannot look leaves zeros. Rank 0 then looks itself, and reports what is wrong.
  DeferredError unseen;
  unseen.guard([&] {
    // One answer may tell of many files.
    const auto ranks = io::has_views(*job.files) ? std::vector{0} : job.io_ranks();
    const auto step = static_cast<int>(ranks.size());
    const auto me = std::find(ranks.begin(), ranks.end(), job.rank());
    if (me == ranks.end()) return;
    for (auto file = static_cast<int>(me - ranks.begin()); file < num_files; file += step) {
      const auto size = data_file_size(*job.files, format, prefix, file, num_files);
      if (size) sizes[static_cast<std::size_t>(file)] = *size + 1;
    }
  });
  sizes.back() = told;
  job.group->all_reduce(sizes, Group::Op::sum);
  told = sizes.back() != 0;
  sizes.pop_back();
  for (auto& size : sizes) --size;
  return sizes;
}

namespace {

// Collective. Rank 0 reads the contents.
CheckpointContents tell(const Job& job, const io::Path& prefix,
                        const std::function<IndexFile()>& read) {
  IndexFile loaded;
  const auto message = from_root(*job.group, [&] {
    loaded = read();
    return pack(loaded);
  });
  return run_and_agree(*job.group, [&] {
    if (!job.root()) loaded = unpack<IndexFile>(message);
    auto contents = parse_contents(loaded, prefix);
    require_in_place(loaded, contents);
    return contents;
  });
}

}  // namespace

CheckpointContents tell_whole(const Job& job, const io::Path& prefix,
                              std::optional<IndexFile> index, const FoundSizes& sizes) {
  return tell(job, prefix, [&] {
    return load_newest_index(*job.files, prefix, [&] {
      // The index that was read before serves the first try; later tries read the file again.
      auto once = std::exchange(index, std::nullopt);
      return once ? look_into(*job.files, prefix, *std::move(once), Graph::read, sizes)
                  : load_index(*job.files, prefix, Graph::read);
    });
  });
}

CheckpointContents tell_format(const Job& job, const io::Path& prefix, Format format) {
  return tell(job, prefix, [&] { return load_index_as(format, *job.files, prefix, Graph::read); });
}

// Rank 0 looks into the index just far enough to know how many files there are, so that the io
// ranks can ask for their sizes before it makes errors of what is missing.
CheckpointContents tell_contents(const Job& job, const io::Path& prefix) {
  std::optional<IndexFile> index;
  int num_files = 0;
  if (job.root()) {
    DeferredError error;
    error.guard([&] {
      index = read_only_index(*job.files, prefix);
      if (!index) return;
      index->parsed = bundle::parse_index(index->bytes);
      const auto named = index->parsed->num_files;
      if (is_credible(named, slices_of(*index->parsed))) num_files = named;
    });
    if (error) index.reset();
  }
  num_files = broadcast_value(*job.group, num_files);
  const auto format = broadcast_value(*job.group, index ? index->format : Format{});
  FoundSizes sizes;
  bool told = false;
  if (num_files > 0) sizes = find_sizes(job, prefix, format, num_files, told);
  return tell_whole(job, prefix, std::move(index), sizes);
}

}  // namespace cairn
