#include "store/directory/xdmf_file.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "model/convert.hpp"
#include "store/contents/format.hpp"

namespace cairn {
namespace {

// The time of a step, from a tensor of one number.
double time_of(const OpenCheckpoint& checkpoint, const std::string& key) {
  const auto* tensor = checkpoint->find(key);
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::invalid_argument, cat("'", key, "' tells no time in ", checkpoint->prefix),
                why, "Give the key of one real or integer number.")
        .of_tensor(key);
  };
  if (!tensor) refuse("there is no such tensor");
  if (!tensor->problem.empty()) refuse(tensor->problem);
  if (element_count(tensor->shape) != 1 || tensor->slices.size() != 1 ||
      !is_convertible(tensor->dtype) || tensor->dtype == DType::complex64 ||
      tensor->dtype == DType::complex128) {
    refuse(cat("it is ", dtype_name(tensor->dtype), ' ', shape_text(tensor->shape)));
  }
  auto bytes = checkpoint.read(*tensor, tensor->slices.front());
  if (checkpoint->big_endian) std::reverse(bytes.begin(), bytes.end());
  double time = 0;
  convert(tensor->dtype, reinterpret_cast<const std::byte*>(bytes.data()), DType::float64,
          reinterpret_cast<std::byte*>(&time), 1, Conversion::round);
  return time;
}

// The coordinates along an axis, as doubles. Empty if they are no real numbers; NaN where no slice
// has them.
std::vector<double> axis_values(const OpenCheckpoint& checkpoint, const StoredTensor& tensor) {
  const auto size = dtype_size(tensor.dtype);
  if (!is_convertible(tensor.dtype) || tensor.dtype == DType::complex64 ||
      tensor.dtype == DType::complex128) {
    return {};
  }
  std::vector<double> values(static_cast<std::size_t>(tensor.shape[0]),
                             std::numeric_limits<double>::quiet_NaN());
  for (const auto& slice : tensor.slices) {
    auto bytes = checkpoint.read(tensor, slice);
    if (checkpoint->big_endian) {
      for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
        std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                     bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
      }
    }
    convert(tensor.dtype, reinterpret_cast<const std::byte*>(bytes.data()), DType::float64,
            reinterpret_cast<std::byte*>(values.data() + slice.box.start[0]), slice.box.extent[0],
            Conversion::round);
  }
  return values;
}

std::int64_t step_of(const CheckpointContents& contents) {
  if (contents.meta) return contents.meta->step;
  const auto split = commit::split_step(io::Path(contents.prefix).filename().string());
  return split ? split->step : 0;
}

}  // namespace

std::vector<const CatalogEntry*> shown_in_xdmf(const std::vector<CatalogEntry>& entries) {
  auto shown = restorable(entries);
  // Of others' checkpoints only times tell which run left them, and those may be those of a copy.
  std::erase_if(shown, [](const auto* entry) { return entry->superseded && entry->ours; });
  return shown;
}

namespace {

// Readers see a dataset whole, in whatever chunks it is stored.
CheckpointContents with_whole_datasets(CheckpointContents contents) {
  for (auto& tensor : contents.tensors) {
    if (tensor.slices.empty() || format_of(contents.format).dataset_of(tensor.key).empty())
      continue;
    Piece whole;
    whole.box = Box::whole(tensor.shape);
    whole.file = tensor.slices.front().file;
    tensor.slices = {std::move(whole)};
  }
  return contents;
}

}  // namespace

xdmf::Step describe_step(const OpenCheckpoint& checkpoint, const XdmfOptions& options,
                         const io::Path& beside) {
  const auto name = [&](std::int32_t file) {
    const auto path = data_path(*checkpoint, file);
    return path.parent_path() == beside ? path.filename().string()
                                        : path.lexically_proximate(beside).string();
  };
  auto step = xdmf::describe(
      with_whole_datasets(*checkpoint), options, name,
      [&](const StoredTensor& axis) {
        return axis_values(checkpoint, *checkpoint->find(axis.key));
      },
      [&](const std::string& key) { return format_of(checkpoint->format).dataset_of(key); });
  step.step = step_of(*checkpoint);
  step.time =
      options.time.empty() ? static_cast<double>(step.step) : time_of(checkpoint, options.time);
  return step;
}

void replace_xdmf(const Address& at, const std::string& text, const io::Path& temporary) {
  auto& files = *at.files();
  const auto& path = at.path();
  if (const auto there = files.status(path)) {
    std::string head(256, '\0');
    head.resize(static_cast<std::size_t>(
        std::min<std::int64_t>(there->size, static_cast<std::int64_t>(head.size()))));
    if (!there->is_directory) {
      files.open_read(path)->read_at(0, std::as_writable_bytes(std::span(head)));
    }
    if (there->is_directory || !xdmf::is_own(head)) {
      throw Error(Code::already_exists, cat(path.string(), " is there"),
                  "Cairn did not make it, and does not replace it", "Move it away.")
          .at(path.string());
    }
  }
  if (temporary.empty()) return io::rewrite_file(files, path, text);
  io::try_remove(files, temporary);
  io::write_file(files, temporary, text);
  files.rename(temporary, path);
}

void XdmfFile::update(io::FileSystem& files, const std::vector<CatalogEntry>& entries,
                      const commit::OwnedName& owner) {
  std::map<std::int64_t, Told> now;
  for (const auto* entry : shown_in_xdmf(entries)) {
    const auto known = told_.find(entry->step);
    if (known != told_.end() && known->second.identity == entry->save.identity) {
      now[entry->step] = std::move(known->second);
      continue;
    }
    // A step that cannot be shown keeps an empty text, so that it is warned of once.
    auto& told = now[entry->step];
    told.identity = entry->save.identity;
    try {
      const auto prefix = directory_ / commit::prefix_name(naming_, entry->step);
      const auto contents = read_contents_as(entry->format, files, prefix);
      auto step = describe_step({files, contents}, options_, directory_);
      if (naming_.numbered) step.step = entry->step;
      told.time = step.time;
      told.text = xdmf::step_text(step, options_);
    } catch (const Error& error) {
      log(LogLevel::warning, cat("step ", entry->step, " is not shown in ",
                                 commit::xdmf_name(naming_.name), ": ", error.what()));
    }
  }
  told_ = std::move(now);
  std::vector<const Told*> steps;
  for (const auto& [step, told] : told_) {
    if (!told.text.empty()) steps.push_back(&told);
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const auto* a, const auto* b) { return a->time < b->time; });
  std::vector<std::string> texts;
  for (const auto* one : steps) texts.push_back(one->text);
  auto text = xdmf::file_text(texts);
  const auto path = directory_ / commit::xdmf_name(naming_.name);
  if (text == written_ && io::exists(files, path)) return;
  const auto temporary =
      directory_ / commit::xdmf_temporary_name(naming_.name, owner.ownership().record().token);
  replace_xdmf({files, path}, text, owner.atomic_rename() ? temporary : io::Path());
  written_ = std::move(text);
}

}  // namespace cairn
