#include <algorithm>
#include <cstdio>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "contents/contents_reader.hpp"
#include "format/safetensors/header.hpp"
#include "tools/safetensors.hpp"
#include "tools/whole_tensor.hpp"

namespace cairn {
namespace {

// In the order of keys; each file has one at least.
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

class Exporter {
 public:
  Exporter(io::FileSystem& files, const CheckpointContents& source, bool overwrite,
           const Progress& progress)
      : files_(files), source_(source), overwrite_(overwrite), progress_(progress) {}

  void write(const io::Path& path, std::vector<WholeTensor> tensors, std::int64_t total) {
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
        const auto bytes = read_whole(files_, source_, *one.tensor);
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
  auto all = whole_tensors(source, under, "safetensors", safetensors::has_dtype);
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
