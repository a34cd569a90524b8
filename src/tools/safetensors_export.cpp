#include <algorithm>
#include <cstdio>
#include <map>
#include <span>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "exchange/chunks.hpp"
#include "foreign/safetensors/header.hpp"
#include "group/collectives.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "layout/offsets.hpp"
#include "model/dtype_attribute.hpp"
#include "model/runs.hpp"
#include "store/commit/names.hpp"
#include "store/contents/no_more_open.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "tools/checked_slices.hpp"
#include "tools/safetensors.hpp"
#include "tools/whole_tensor.hpp"

namespace cairn {
namespace {

// The name of a tensor's real dtype if it is stored as bytes and the format has that dtype.
// Otherwise it stays bytes.
std::string stored_as_bytes(const CheckpointContents& source, const StoredTensor& tensor) {
  const auto& said = source.description(tensor.key).attributes;
  const auto found = said.find(dtype_attribute);
  if (found == said.end() || tensor.dtype != DType::uint8) return "";
  const auto* name = std::get_if<std::string>(&found->second.value());
  return name && safetensors::has_dtype_of_bytes(*name, tensor.shape) ? *name : "";
}

// Divides the tensors into files, in the order of keys. Each file has at least one.
std::vector<std::vector<WholeTensor>> cut(std::vector<WholeTensor> all, std::int64_t max_bytes) {
  std::vector<std::vector<WholeTensor>> parts(1);
  std::int64_t held = 0;
  for (auto& one : all) {
    const auto bytes = one.bytes();
    if (max_bytes > 0 && !parts.back().empty() && held + bytes > max_bytes) {
      parts.emplace_back();
      held = 0;
    }
    held += bytes;
    parts.back().push_back(std::move(one));
  }
  return parts;
}

// A unit of reading that is contiguous in one file: a stored slice or, if the slices of a tensor
// are not contiguous in it, the whole tensor.
struct OutputSlice {
  std::size_t file;
  const StoredTensor* tensor;
  const Piece* slice;  // null: the whole tensor
  std::int64_t offset, bytes;
};

struct OutFile {
  io::Path path;
  std::string header;
  // The token makes the name unique to this export, so a second export at the same time and
  // leftovers of a dead one do no harm.
  io::Path unfinished(const std::string& token) const {
    return path.string() + ".unfinished-" + token;
  }
};

class Exporter {
 public:
  Exporter(const OpenCheckpoint& source, const Address& folder, const ConvertOptions& options,
           const Progress& progress)
      : files_(*folder.files()),
        source_(source),
        group_(*options.group()),
        overwrite_(options.overwrite),
        progress_(progress) {}

  void add(const io::Path& path, std::vector<WholeTensor> tensors) {
    // Tensors with large elements come first, so that each lies at a multiple of its element size.
    std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
      return dtype_size(a.tensor->dtype) > dtype_size(b.tensor->dtype);
    });
    safetensors::Header header;
    header.metadata["format"] = "pt";  // the readers of transformers require it
    if (source_->meta) header.metadata["step"] = cat(source_->meta->step);
    std::int64_t at = 0;
    for (const auto& one : tensors) {
      header.tensors.push_back({one.key, one.tensor->dtype, one.tensor->shape, at, one.bytes(),
                                stored_as_bytes(*source_, *one.tensor)});
      at += one.bytes();
    }
    out_.push_back({path, safetensors::encode_header(header)});
    auto begin = std::ssize(out_.back().header);
    for (const auto& one : tensors) {
      add_parts(*one.tensor, begin);
      begin += one.bytes();
    }
    total_ += at;
  }

  /// Collective. `index` is a text that lists the files and is written to `index_path`. If it is
  /// empty, no index is written.
  void write(const io::Path& index_path, const std::string& index) {
    try {
      token_ = from_root(group_, [] { return commit::new_uuid(); });
      root([&] {
        for (const auto& one : out_) require_free(one.path);
        if (!index.empty()) require_free(index_path);
      });
      deal();
      run_and_agree(group_, [&] {
        for (const auto i : made_) files_.create(out_[i].unfinished(token_))->close();
      });
      run_and_agree(group_, [&] { write_mine(); });
      root([&] {
        const auto unfinished = OutFile{index_path, ""}.unfinished(token_);
        if (!index.empty()) {
          io::write_file(files_, unfinished, index);
          retire_index(index_path);
        }
        for (const auto& one : out_) finish(one.path, one.unfinished(token_));
        if (!index.empty()) finish(index_path, unfinished);
      });
    } catch (...) {
      if (group_.rank() == 0 && !token_.empty()) {
        for (const auto& one : out_) try_remove(one.unfinished(token_));
        if (!index.empty()) try_remove(OutFile{index_path, ""}.unfinished(token_));
      }
      throw;
    }
  }

 private:
  // Ignores errors, since the first error is thrown.
  void try_remove(const io::Path& path) const {
    try {
      io::try_remove(files_, path);
    } catch (const Error& error) {
      log(LogLevel::warning, cat("of an export that failed stays: ", error.what()));
    }
  }
  static io::Path folder_of(const io::Path& path) {
    return path.parent_path().empty() ? io::Path(".") : path.parent_path();
  }
  template <class F>
  void root(F&& function) {
    run_and_agree(group_, [&] {
      if (group_.rank() == 0) function();
    });
  }
  void require_free(const io::Path& path) const {
    if (overwrite_ || !files_.status(path)) return;
    throw Error(Code::already_exists, cat(path.string(), " exists"), "",
                "Choose another destination, or say --overwrite to have it replaced.")
        .at(path.string());
  }
  // Removes an old index before the files that it names are replaced: it would describe files of
  // two checkpoints. If no file is replaced, it stays valid until the new one is there.
  void retire_index(const io::Path& path) {
    const bool replaces = std::any_of(
        out_.begin(), out_.end(), [&](const OutFile& one) { return io::exists(files_, one.path); });
    if (!replaces || !io::exists(files_, path)) return;
    files_.remove(path);
    files_.sync_directory(folder_of(path));
  }
  // The file gets its name only when it is whole and durable.
  void finish(const io::Path& path, const io::Path& unfinished) {
    if (overwrite_) {
      files_.rename(unfinished, path);
    } else {
      files_.rename_new(unfinished, path);
    }
    files_.sync_directory(folder_of(path));
  }

  void add_parts(const StoredTensor& tensor, std::int64_t begin) {
    const auto file = out_.size() - 1;
    const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
    std::vector<OutputSlice> parts;
    for (const auto& slice : tensor.slices) {
      const auto run = run_in_box(slice.box, Dims(tensor.shape.size(), 0), tensor.shape);
      if (!run || slice.stored_bytes != slice.box.count() * item || slice.codec != Codec::none ||
          tensor.gaps) {
        const auto bytes = element_count(tensor.shape) * item;
        parts_.push_back({file, &tensor, nullptr, begin, bytes});
        return;
      }
      if (slice.stored_bytes > 0)
        parts.push_back({file, &tensor, &slice, begin + *run * item, slice.stored_bytes});
    }
    std::sort(parts.begin(), parts.end(),
              [](const auto& a, const auto& b) { return a.offset < b.offset; });
    parts_.insert(parts_.end(), parts.begin(), parts.end());
  }

  // Each rank gets consecutive parts of about as many bytes. The rank with the first part of a file
  // creates the file.
  void deal() {
    std::int64_t before = 0;
    std::vector<bool> has_maker(out_.size());
    for (const auto& one : parts_) {
      const auto middle = static_cast<double>(before) + 0.5 * static_cast<double>(one.bytes);
      const auto share = total_ > 0 ? middle / static_cast<double>(total_) : 0.0;
      const auto rank = std::min(group_.size() - 1, static_cast<int>(share * group_.size()));
      before += one.bytes;
      const bool mine = rank == group_.rank();
      if (mine) mine_.push_back(&one);
      if (!has_maker[one.file] && mine) made_.push_back(one.file);
      has_maker[one.file] = true;
    }
    for (std::size_t i = 0; i < out_.size(); ++i) {
      // A file with empty tensors only.
      if (!has_maker[i] && group_.rank() == 0) made_.push_back(i);
    }
  }

  // Writes in the order of the files, so that only one is open at a time.
  void write_mine() {
    begin_reading();
    std::vector<std::size_t> files = made_;
    for (const auto* part : mine_) files.push_back(part->file);
    std::sort(files.begin(), files.end());
    files.erase(std::unique(files.begin(), files.end()), files.end());
    auto part = mine_.begin();
    for (const auto i : files) {
      const auto file = files_.open_write(out_[i].unfinished(token_));
      file->stream(DirectIo::automatic);
      if (std::find(made_.begin(), made_.end(), i) != made_.end()) {
        file->write_at(0, std::as_bytes(std::span(out_[i].header)));
      }
      for (; part != mine_.end() && (*part)->file == i; ++part) write_part(*file, **part);
      file->sync();
      file->close();
    }
    reader_.reset();
  }

  // Starts to read pieces ahead while others are written.
  void begin_reading() {
    std::map<int, int> numbers;
    std::vector<io::Path> paths;
    std::vector<io::Extent> extents;
    buffer_.resize(static_cast<std::size_t>(piece_bytes));
    auto* to = reinterpret_cast<std::byte*>(buffer_.data());
    for (const auto* part : mine_) {
      if (!part->slice) continue;
      const auto [file, fresh] =
          numbers.try_emplace(part->slice->file, static_cast<int>(paths.size()));
      if (fresh) paths.push_back(data_path(*source_, part->slice->file));
      for (std::int64_t at = 0; at < part->bytes; at += piece_bytes) {
        extents.push_back({file->second, place_of(*part->slice, at),
                           std::min(piece_bytes, part->bytes - at), to});
      }
    }
    reader_ = files_.read_ahead(std::move(paths), std::move(extents), DirectIo::automatic);
  }

  void write_part(io::File& file, const OutputSlice& part) {
    if (!part.slice) {
      const auto& tensor = *part.tensor;
      const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
      const plan::ChunkCut cut(Box::whole(tensor.shape), item, piece_bytes);
      for (std::int64_t number = 0; number < cut.count(); ++number) {
        const auto chunk = cut.chunk(number);
        const auto bytes = slices_.read_box(tensor, chunk.box);
        file.write_at(part.offset + chunk.offset, std::as_bytes(std::span(bytes)));
        tell(chunk.bytes);
      }
      return;
    }
    std::uint32_t crc = 0;
    for (std::int64_t at = 0; at < part.bytes; at += piece_bytes) {
      const auto size = static_cast<std::size_t>(std::min(piece_bytes, part.bytes - at));
      try {
        crc = crc32c_combine(crc, reader_->next(), size);
      } catch (Error& error) {
        throw error.of_tensor(part.tensor->key);
      }
      const auto bytes = std::as_writable_bytes(std::span(buffer_)).first(size);
      if (source_->big_endian) bundle::swap_bytes(bytes, dtype_swap_unit(part.tensor->dtype));
      file.write_at(part.offset + at, bytes);
      tell(static_cast<std::int64_t>(size));
    }
    if (crc != part.slice->crc32c) throw checksum_error(*source_, *part.tensor, *part.slice, crc);
  }
  void tell(std::int64_t bytes) {
    done_ += bytes;
    if (progress_) progress_(std::min(total_, done_ * group_.size()), total_);
  }

  static constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;

  io::FileSystem& files_;
  const OpenCheckpoint& source_;
  const Progress untold_;  // tell() tells
  CheckedSlices slices_{source_, untold_};
  Group& group_;
  const bool overwrite_;
  const Progress& progress_;
  std::string token_;
  std::vector<OutFile> out_;
  std::vector<OutputSlice> parts_;
  std::int64_t total_ = 0, done_ = 0;
  // Of this rank.
  std::vector<const OutputSlice*> mine_;
  std::vector<std::size_t> made_;  // indices of the files that this rank creates
  std::string buffer_;
  std::unique_ptr<io::Reader> reader_;
};

std::string numbered(const std::string& stem, std::size_t number, std::size_t of) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05zu-of-%05zu.safetensors", number + 1, of);
  return stem + text;
}

}  // namespace

std::string export_safetensors(const OpenCheckpoint& source, const Address& destination,
                               const std::string& under, const ConvertOptions& options,
                               const Progress& progress) {
  auto all = whole_tensors(*source, under, "safetensors", safetensors::has_dtype);
  std::int64_t total = 0;
  for (const auto& one : all) {
    total += one.bytes();
    if (!safetensors::is_metadata(one.key)) continue;
    throw Error(Code::unsupported, cat("tensor '", one.key, "' has no place in safetensors"),
                "there this key is that of the file's metadata", "Choose others with --under PATH.")
        .of_tensor(one.tensor->key);
  }
  const auto access = run_and_agree(*options.group(), [&] { return source.access(); });
  const auto made = no_more_open(destination, access);
  Exporter exporter(source, made, options, progress);
  auto parts = cut(std::move(all), options.max_shard_bytes);
  if (options.max_shard_bytes == 0) {
    exporter.add(destination.path(), std::move(parts.front()));
    exporter.write({}, "");
    return destination.string();
  }
  const auto stem = destination.path().stem().string();
  const auto folder = destination.path().parent_path();
  const auto index = folder / (stem + ".safetensors.index.json");
  safetensors::WeightMap weights;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto name = numbered(stem, i, parts.size());
    for (const auto& one : parts[i]) weights.emplace(one.key, name);
    exporter.add(folder / name, std::move(parts[i]));
  }
  exporter.write(index, safetensors::encode_index(weights, total));
  return index.string();
}

}  // namespace cairn
