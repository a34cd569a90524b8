#include "store/contents/not_ours.hpp"

#include <algorithm>
#include <span>
#include <string_view>

#include "base/text.hpp"
#include "store/contents/format.hpp"

namespace cairn {
namespace {

using namespace std::string_view_literals;

NotOurs converted(std::string what, const Address& path) {
  return {std::move(what),
          cat("Make a checkpoint of it: cairn convert ", path.string(), " PREFIX.")};
}

std::optional<NotOurs> recognise_directory(const Address& directory) {
  const auto has = [&](const char* name) { return (directory / name).exists(); };
  if (has(".metadata")) {
    return converted("it is a checkpoint of torch.distributed.checkpoint", directory);
  }
  if (has("_CHECKPOINT_METADATA") || has("_METADATA") || has("manifest.ocdbt")) {
    return NotOurs{"it is a checkpoint of Orbax",
                   "Restore it with Orbax, and save the state with cairn.jax."};
  }
  if (has("saved_model.pb")) {
    return NotOurs{"it is a SavedModel of TensorFlow",
                   cat("Its checkpoint is ", (directory / "variables/variables").string(), ".")};
  }
  if (has("zarr.json") || has(".zgroup") || has(".zarray")) {
    return NotOurs{"it is a store of Zarr", "Cairn writes such (cairn convert), and reads none."};
  }
  return std::nullopt;
}

std::optional<NotOurs> recognise_file(const Address& path) {
  std::string first(9, '\0');
  const auto file = path.open_read();
  first.resize(static_cast<std::size_t>(std::min<std::int64_t>(file->size(), 9)));
  file->read_at(0, std::as_writable_bytes(std::span(first)));
  // A file of safetensors begins with a length of eight bytes, then JSON.
  const bool has_header = first.size() == 9 && first.back() == '{';
  if (has_header && path.name().ends_with(".safetensors")) {
    return converted("it is a file of safetensors", path);
  }
  if (path.name().ends_with(".safetensors.index.json")) {
    return converted("it is an index of files of safetensors", path);
  }
  if (first.starts_with("\x89HDF\r\n\x1a\n"sv)) {
    return NotOurs{"it is an HDF5 file of another program",
                   "A program fills its state from it by restore_hdf5; h5ls lists its datasets."};
  }
  if (first.starts_with("PK\x03\x04"sv)) {
    return NotOurs{"it is an archive, as torch.save and numpy.savez write them",
                   "Load it with what wrote it, and save the state with Cairn."};
  }
  // The opcode PROTO, with version 2 or 4.
  if (first.starts_with("\x80\x02"sv) || first.starts_with("\x80\x04"sv)) {
    return NotOurs{"it is a pickle of Python",
                   "Load it with what wrote it, and save the state with Cairn."};
  }
  return std::nullopt;
}

}  // namespace

std::optional<NotOurs> recognise_other(const Address& path) try {
  const auto status = path.status();
  if (!status) return std::nullopt;
  return status->is_directory ? recognise_directory(path) : recognise_file(path);
} catch (const Error&) {  // report the first error
  return std::nullopt;
}

std::optional<Error> link_to_nothing(const Address& prefix) {
  for (const auto* format : all_formats()) {
    const auto main = format->main_file(prefix.path());
    if (!prefix.files()->is_link(main)) continue;
    return Error(Code::data_loss, cat("the checkpoint ", prefix.string(), " cannot be read"),
                 cat(main.filename().string(), " is a symbolic link to what is not there"),
                 "Put back what it leads to, or remove the link.")
        .at(main.string());
  }
  return std::nullopt;
}

}  // namespace cairn
