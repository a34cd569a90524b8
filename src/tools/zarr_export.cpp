#include "tools/zarr_export.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "foreign/zarr/metadata.hpp"
#include "store/contents/no_more_open.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "tools/checked_slices.hpp"
#include "tools/whole_tensor.hpp"
#include "tools/write_pool.hpp"

namespace cairn {
namespace {

constexpr std::int64_t usual_chunk_bytes = std::int64_t{16} << 20;
// Larger files are written past the page cache. That takes a third of the CPU time that writing
// through it takes.
constexpr std::int64_t streamed_bytes = std::int64_t{1} << 20;
// The most bytes of chunks that are read and not yet written. A larger chunk is alone.
constexpr std::int64_t read_bytes = std::int64_t{24} << 20;

// For "a/b/c": "a" and "a/b".
std::vector<std::string> groups_above(const std::string& key) {
  std::vector<std::string> all;
  for (auto at = key.find('/'); at != key.npos; at = key.find('/', at + 1)) {
    all.push_back(key.substr(0, at));
  }
  return all;
}

void require_paths(const std::vector<WholeTensor>& tensors, const std::set<std::string>& groups) {
  for (const auto& one : tensors) {
    std::string problem;
    for (std::string_view left = one.key; problem.empty();) {
      const auto end = left.find('/');
      problem = zarr::name_problem(left.substr(0, end));
      if (end == left.npos) break;
      left.remove_prefix(end + 1);
    }
    if (groups.contains(one.key)) problem = "other keys begin with it and '/', so it is a group";
    if (problem.empty()) continue;
    throw Error(Code::unsupported, cat("tensor '", one.key, "' has no place in Zarr"), problem,
                "Choose others with --under PATH.")
        .of_tensor(one.key);
  }
}

// A directory that is made under another name. If it is given up, what was made is removed.
class NewDirectory {
 public:
  explicit NewDirectory(const Address& root) : files_(*root.files()), root_(root.path()) {
    make("");
  }
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;
  ~NewDirectory() {
    pool_.reset();  // from here on no thread writes
    if (whole_) return;
    for (auto made = made_.rbegin(); made != made_.rend(); ++made) {
      try {
        made->second ? files_.remove_directory(path(made->first))
                     : files_.remove(path(made->first));
      } catch (const Error&) {  // what remains has a name that shows that it is unfinished
      }
    }
  }

  void make(const std::string& name) {
    if (!directories_.insert(name).second) return;
    files_.create_directory(path(name));
    made_.emplace_back(name, true);
  }
  /// Writes a file, and makes its directory if needed. Another thread calls `bytes`.
  void write(const std::string& name, std::function<std::string()> bytes) {
    for (const auto& above : groups_above(name)) make(above);
    made_.emplace_back(name, false);
    pool_->add([&files = files_, path = path(name), bytes = std::move(bytes)] {
      const auto text = bytes();
      const auto file = files.create(path);
      if (std::ssize(text) >= streamed_bytes) file->stream(DirectIo::automatic);
      file->write_at(0, std::as_bytes(std::span(text)));
      file->sync();
      file->close();
    });
  }
  void write(const std::string& name, std::string bytes) {
    write(name, [bytes = std::move(bytes)] { return bytes; });
  }
  /// Waits until all files are written.
  void finish() { pool_->finish(); }
  /// Makes everything durable, then gives it its name.
  void name(const io::Path& destination) {
    finish();
    for (const auto& one : directories_) {
      pool_->add([&files = files_, path = path(one)] { files.sync_directory(path); });
    }
    finish();
    files_.rename_new(root_, destination);
    whole_ = true;
    const auto above = destination.parent_path();
    files_.sync_directory(above.empty() ? io::Path(".") : above);
  }

 private:
  io::Path path(const std::string& name) const { return name.empty() ? root_ : root_ / name; }

  io::FileSystem& files_;
  const io::Path root_;
  std::set<std::string> directories_;
  std::vector<std::pair<std::string, bool>> made_;  // with `true` for directories
  bool whole_ = false;
  std::unique_ptr<WritePool> pool_ = std::make_unique<WritePool>();
};

// The next index in row-major order.
void advance(Dims& index, const Dims& grid) {
  for (auto d = index.size(); d-- > 0;) {
    if (++index[d] < grid[d]) return;
    index[d] = 0;
  }
}

// `held`: bytes that wait to be written.
void write_chunks(NewDirectory& out, const std::string& key, CheckedSlices& slices,
                  const StoredTensor& tensor, const Dims& chunk, std::int64_t& held) {
  const auto grid = zarr::chunk_grid(tensor.shape, chunk);
  Dims index(grid.size());
  for (auto left = element_count(grid); left > 0; --left, advance(index, grid)) {
    Box box{Dims(index.size()), Dims(index.size())};
    for (std::size_t d = 0; d < index.size(); ++d) {
      box.start[d] = index[d] * chunk[d];
      box.extent[d] = std::min(chunk[d], tensor.shape[d] - box.start[d]);
    }
    auto bytes = slices.read_box(tensor, box, sizeof(std::uint32_t));  // a checksum follows
    held += std::ssize(bytes);
    if (held > read_bytes) {
      out.finish();
      held = std::ssize(bytes);
    }
    out.write(cat(key, '/', zarr::chunk_name(index)),
              [bytes = std::move(bytes), dtype = tensor.dtype, chunk = chunk]() mutable {
                return zarr::encode_chunk(std::exchange(bytes, {}), dtype, chunk);
              });
  }
}

Attributes of_checkpoint(const CheckpointContents& source) {
  Attributes all;
  if (!source.meta) return all;
  all = source.meta->descriptions.attributes;
  all.try_emplace("step", source.meta->step);
  return all;
}

void require_free(const Address& path, const char* way_out) {
  if (!path.exists()) return;
  throw Error(Code::already_exists, cat(path.string(), " exists"),
              "a directory of Zarr is not replaced", way_out)
      .at(path.string());
}

}  // namespace

bool is_zarr(const io::Path& path) { return path.extension() == ".zarr"; }

std::string export_zarr(const OpenCheckpoint& source, const Address& destination,
                        const std::string& under, const ConvertOptions& options,
                        const Progress& progress) {
  const auto tensors = whole_tensors(*source, under, "Zarr", zarr::has_dtype);
  std::set<std::string> groups;
  std::int64_t total = 0, done = 0;
  for (const auto& one : tensors) {
    for (auto& above : groups_above(one.key)) groups.insert(std::move(above));
    total += one.bytes();
  }
  require_paths(tensors, groups);
  const auto unfinished = destination.at(destination.string() + ".unfinished");
  require_free(destination, "Choose another destination, or remove it first.");
  require_free(unfinished, "It is what a conversion left that died: remove it.");

  const auto made = no_more_open(unfinished, source.access());
  NewDirectory out(made);
  const auto file = [](const std::string& path) {
    return path.empty() ? std::string(zarr::metadata_name) : cat(path, '/', zarr::metadata_name);
  };
  const auto said = [&](const std::string& key) -> const Description& {
    return source->description(under.empty() ? key : cat(under, '/', key));
  };
  out.write(file(""), zarr::encode_group(of_checkpoint(*source)));
  for (const auto& group : groups) {
    out.write(file(group), zarr::encode_group(said(group).attributes));
  }
  const auto most = options.max_shard_bytes > 0 ? options.max_shard_bytes : usual_chunk_bytes;
  const Progress none;  // told below, by tensor
  CheckedSlices slices(source, none);
  std::int64_t held = 0;
  for (const auto& one : tensors) {
    const auto& tensor = *one.tensor;
    const auto chunk = zarr::chunk_shape(tensor.shape, tensor.dtype, most);
    out.write(file(one.key), zarr::encode_array(tensor.dtype, tensor.shape, chunk, said(one.key)));
    write_chunks(out, one.key, slices, tensor, chunk, held);
    done += one.bytes();
    if (progress) progress(done, total);
  }
  out.name(destination.path());
  return destination.string();
}

}  // namespace cairn
