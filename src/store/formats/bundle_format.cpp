// TensorFlow's bundles: an index, and data files beside it.
#include "store/formats/bundle_format.hpp"

#include "store/contents/index_end.hpp"
#include "store/contents/seal.hpp"
#include "store/contents/whose.hpp"

namespace cairn {
namespace {

// Far above any real index (10 million entries are about 1 GiB).
constexpr std::int64_t index_limit_bytes = std::int64_t{4} << 30;

}  // namespace

io::Path BundleFormat::main_file(const io::Path& prefix) const {
  return commit::index_path(prefix);
}

io::Path BundleFormat::data_file(const io::Path& prefix, int file, int num_files) const {
  return commit::data_path(prefix, file, num_files);
}

bool BundleFormat::recognises(io::FileSystem& files, const io::Path& main_file) const {
  return files.status(main_file).has_value();
}

IndexFile BundleFormat::read_index(io::FileSystem& files, const io::Path& prefix) const {
  IndexFile loaded;
  loaded.format = Format::bundle;
  const auto path = main_file(prefix);
  io::with_open(files, path, [&](io::File& file) {
    if (file.size() <= index_limit_bytes) require_index_end(file, 0, file.size());
    loaded.bytes = io::read_file(file, path, index_limit_bytes);
  });
  return loaded;
}

// Without these entries TensorFlow may have made it.
bool BundleFormat::is_ours(const CheckpointContents* contents) const {
  return contents && (contents->meta || !contents->own.empty());
}

// The index may have been copied from another step. Then it does not tell how many files this step
// has.
std::optional<BundleFormat::Claim> BundleFormat::claim(io::FileSystem& files,
                                                       const io::Path& prefix) const {
  const auto contents = read_summary(files, prefix, id());
  const bool tells = !lacks_metadata(contents) && misplaced(contents).empty();
  return Claim{contents.meta.has_value(), tells ? contents.num_files : -1};
}

bool BundleFormat::began(io::FileSystem&, const commit::Transaction&) const { return true; }

std::string BundleFormat::refuses(int data_files, int num_files) const {
  return data_files >= num_files ? "more data files than the save has" : "";
}

// One more data file holds the metadata.
void BundleFormat::shape(commit::Transaction& save, int data_files) const {
  save.main = main_kind();
  save.num_files = data_files + 1;
}

std::optional<io::FileId> BundleFormat::publish(io::FileSystem& files,
                                                const commit::Transaction& save,
                                                const CheckpointMeta& meta, int data_files,
                                                JoinedEntries joined,
                                                const std::function<void()>& sealed,
                                                const commit::IsCommitted& is_committed) const {
  const auto parts = seal_index(std::move(joined), meta, data_files, save.num_files);
  sealed();
  return commit::publish(files, save, parts.index, parts.own_files, is_committed);
}

}  // namespace cairn
