// How ranks come to know what a checkpoint holds.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "commit/names.hpp"
#include "directory/set_aside.hpp"
#include "format/bundle/index.hpp"
#include "group/collectives.hpp"
#include "restore/restore.hpp"

namespace cairn {
namespace {

// An index may speak of more data files than there are slices; no writer makes such.
bool is_credible(const CheckpointContents& contents) {
  std::size_t slices = 0;
  for (const auto& tensor : contents.tensors) slices += tensor.slices.size();
  return static_cast<std::size_t>(contents.num_files) <= 4 * slices;
}

// Rank 0. Nothing where the checkpoint is not one index in one format: load_newest_index() knows
// what else there may be, and makes the errors.
std::optional<IndexFile> read_index(const Job& job, const io::Path& prefix) {
  std::optional<IndexFile> index;
  KeptError error;
  error.guard([&] {
    index = read_only_index(*job.files, prefix);
    if (!index) return;
    index->parsed = bundle::parse_index(index->bytes);
    if (!is_credible(*index->parsed)) index.reset();
  });
  if (error) index.reset();
  return index;
}

// Collective. Each io rank looks at its share of the data files. What it cannot see is for rank 0
// to look at again.
FoundSizes find_sizes(const Job& job, const io::Path& prefix, Format format, int num_files) {
  FoundSizes sizes(static_cast<std::size_t>(num_files));  // and 1 more, as 0 is none
  KeptError unseen;
  unseen.guard([&] {
    const auto ranks = job.io_ranks();
    const auto step = static_cast<int>(ranks.size());
    const auto me = std::find(ranks.begin(), ranks.end(), job.rank());
    if (me == ranks.end()) return;
    for (auto file = static_cast<int>(me - ranks.begin()); file < num_files; file += step) {
      const auto size = data_file_size(*job.files, format, prefix, file, num_files);
      if (size) sizes[static_cast<std::size_t>(file)] = *size + 1;
    }
  });
  job.group->all_reduce(sizes, Group::Op::sum);
  for (auto& size : sizes) --size;
  return sizes;
}

}  // namespace

CheckpointContents tell_contents(const Job& job, const io::Path& prefix) {
  std::optional<IndexFile> index;
  std::string said;
  if (job.root()) {
    index = read_index(job, prefix);
    WireWriter writer;
    if (index) writer.put(index->format).put(index->parsed->num_files);
    said = writer.take();
  }
  job.group->broadcast(said, 0);
  FoundSizes sizes;
  if (!said.empty()) {
    WireReader reader(said);
    const auto format = reader.get<Format>();
    sizes = find_sizes(job, prefix, format, reader.get<int>());
  }
  IndexFile loaded;
  const auto message = from_root(*job.group, [&] {
    loaded = load_newest_index(*job.files, prefix, [&] {
      auto once = std::exchange(index, std::nullopt);
      return once ? look_into(*job.files, prefix, *std::move(once), Graph::read, sizes)
                  : load_index(*job.files, prefix, Graph::read);
    });
    return encode(loaded);
  });
  return together(*job.group, [&] {
    if (!job.root()) loaded = decode_index_file(message);
    auto contents = parse_contents(loaded, prefix);
    if (const auto why = misplaced(contents); !why.empty()) {
      throw Error(Code::data_loss, cat("this is not the checkpoint ", prefix.string()), why,
                  "Give the file the name back that it had, or another than those of the job.")
          .at(commit::hdf5_path(prefix).string());
    }
    return contents;
  });
}

}  // namespace cairn
