#include <algorithm>
#include <cstdio>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/slice_memory.hpp"
#include "contents/contents_reader.hpp"
#include "format/bundle/strings.hpp"
#include "format/safetensors/header.hpp"
#include "tools/safetensors.hpp"

namespace cairn {
namespace {

struct Exported {
  const StoredTensor* tensor;
  std::string key;
  std::int64_t bytes() const {
    return element_count(tensor->shape) * static_cast<std::int64_t>(dtype_size(tensor->dtype));
  }
};

void require_exportable(const CheckpointContents& source, const StoredTensor& tensor) {
  if (!tensor.problem.empty()) {
    throw Error(Code::data_loss, cat("tensor '", tensor.key, "' cannot be read"), tensor.problem,
                "cairn verify names everything that is damaged.")
        .at(source.prefix)
        .of_tensor(tensor.key);
  }
  const auto refuse = [&](const char* what) {
    throw Error(Code::unsupported, cat("tensor '", tensor.key, "' has no place in safetensors"),
                what, "Choose others with --under PATH.")
        .of_tensor(tensor.key);
  };
  if (tensor.dtype == DType::string) refuse("it is a text");
  if (!safetensors::has_dtype(tensor.dtype)) {
    refuse(cat("the format has no ", dtype_name(tensor.dtype)).c_str());
  }
  if (!is_utf8(tensor.key)) refuse("its key is not UTF-8");
  if (tensor.gaps && tensor.sliced) refuse("no rank held all of it");
  require_stored(tensor, {Box::whole(tensor.shape)});
}

std::vector<Exported> chosen(const CheckpointContents& source, const std::string& under) {
  std::vector<Exported> all;
  for (const auto& tensor : source.tensors) {
    const auto inside = under.empty() || tensor.key.starts_with(under + "/");
    if (!inside || tensor.key == object_graph_key) continue;
    require_exportable(source, tensor);
    all.push_back({&tensor, under.empty() ? tensor.key : tensor.key.substr(under.size() + 1)});
  }
  if (all.empty()) {
    throw Error(Code::not_found, cat("there is no tensor under '", under, "' in ", source.prefix),
                "", "cairn show lists the keys.");
  }
  return all;
}

// In the order of keys; each file has one at least.
std::vector<std::vector<Exported>> cut(std::vector<Exported> all, std::int64_t max_bytes) {
  std::vector<std::vector<Exported>> parts(1);
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

std::string whole_bytes(io::FileSystem& files, const CheckpointContents& source,
                        const StoredTensor& tensor, std::size_t size) {
  std::string bytes;
  for (const auto& slice : tensor.slices) {
    auto read = read_slice(files, source, tensor, slice);
    if (source.big_endian) {
      bundle::swap_bytes(std::as_writable_bytes(std::span(read)), dtype_swap_unit(tensor.dtype));
    }
    if (tensor.slices.size() == 1 && read.size() == size) return read;
    bytes.resize(size);
    host_memory(tensor.dtype, bytes.data(), bytes.data(), tensor.shape, {})
        ->write(slice.box, reinterpret_cast<const std::byte*>(read.data()));
  }
  bytes.resize(size);
  return bytes;
}

class Exporter {
 public:
  Exporter(io::FileSystem& files, const CheckpointContents& source, bool overwrite,
           const Progress& progress)
      : files_(files), source_(source), overwrite_(overwrite), progress_(progress) {}

  void write(const io::Path& path, std::vector<Exported> tensors, std::int64_t total) {
    // Large elements first, so that all lie at multiples of their size.
    std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
      return dtype_size(a.tensor->dtype) > dtype_size(b.tensor->dtype);
    });
    safetensors::Header header;
    header.metadata["format"] = "pt";  // which the readers of transformers ask for
    if (source_.meta) header.metadata["step"] = std::to_string(source_.meta->step);
    std::int64_t at = 0;
    for (const auto& one : tensors) {
      header.tensors.push_back({one.key, one.tensor->dtype, one.tensor->shape, at, one.bytes()});
      at += one.bytes();
    }
    put(path, [&](io::File& file) {
      const auto text = safetensors::encode_header(header);
      file.stream(DirectIo::automatic);
      file.write_at(0, std::as_bytes(std::span(text)));
      auto end = std::ssize(text);
      for (const auto& one : tensors) {
        const auto size = static_cast<std::size_t>(one.bytes());
        const auto bytes = whole_bytes(files_, source_, *one.tensor, size);
        file.write_at(end, std::as_bytes(std::span(bytes)));
        end += std::ssize(bytes);
        done_ += std::ssize(bytes);
        if (progress_) progress_(done_, total);
      }
    });
  }
  void write_text(const io::Path& path, const std::string& text) {
    put(path, [&](io::File& file) { file.write_at(0, std::as_bytes(std::span(text))); });
  }
  void require_free(const io::Path& path) const {
    if (overwrite_ || !files_.status(path)) return;
    throw Error(Code::already_exists, cat(path.string(), " exists"), "",
                "Choose another destination, or say --overwrite to have it replaced.")
        .at(path.string());
  }
  // Before what it names is replaced: it would tell of files of two checkpoints.
  void remove(const io::Path& path) {
    if (!io::exists(files_, path)) return;
    files_.remove(path);
    files_.sync_directory(folder_of(path));
  }

 private:
  static io::Path folder_of(const io::Path& path) {
    return path.parent_path().empty() ? io::Path(".") : path.parent_path();
  }
  // Under its name only when it is whole and durable.
  template <class F>
  void put(const io::Path& path, F&& fill) {
    require_free(path);
    const io::Path unfinished = path.string() + ".unfinished";
    io::remove_if_there(files_, unfinished);
    try {
      const auto file = files_.create(unfinished);
      fill(*file);
      file->sync();
      file->close();
      if (overwrite_) {
        files_.rename(unfinished, path);
      } else {
        files_.rename_new(unfinished, path);
      }
    } catch (...) {
      io::remove_if_there(files_, unfinished);
      throw;
    }
    files_.sync_directory(folder_of(path));
  }

  io::FileSystem& files_;
  const CheckpointContents& source_;
  const bool overwrite_;
  const Progress& progress_;
  std::int64_t done_ = 0;
};

std::string numbered(const std::string& stem, std::size_t number, std::size_t of) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05zu-of-%05zu.safetensors", number + 1, of);
  return stem + text;
}

}  // namespace

std::string export_safetensors(std::shared_ptr<io::FileSystem> files,
                               const CheckpointContents& source, const io::Path& destination,
                               const std::string& under, const ConvertOptions& options,
                               const Progress& progress) {
  auto all = chosen(source, under);
  std::int64_t total = 0;
  for (const auto& one : all) total += one.bytes();
  Exporter exporter(*files, source, options.overwrite, progress);
  auto parts = cut(std::move(all), options.max_shard_bytes);
  if (options.max_shard_bytes == 0) {
    exporter.write(destination, std::move(parts.front()), total);
    return destination.string();
  }
  const auto stem = destination.stem().string();
  const auto folder = destination.parent_path();
  const auto index = folder / (stem + ".safetensors.index.json");
  safetensors::WeightMap weights;
  exporter.require_free(index);
  exporter.remove(index);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto name = numbered(stem, i, parts.size());
    for (const auto& one : parts[i]) weights.emplace(one.key, name);
    exporter.write(folder / name, std::move(parts[i]), total);
  }
  exporter.write_text(index, safetensors::encode_index(weights, total));
  return index.string();
}

}  // namespace cairn
