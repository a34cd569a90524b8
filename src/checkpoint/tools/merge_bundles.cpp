// merge_checkpoints: what TensorFlow's MergeV2Checkpoints does, with a commit.
#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "checkpoint/directory/recovery.hpp"
#include "checkpoint/tools/contents_reader.hpp"
#include "commit/ownership.hpp"
#include "model/box_index.hpp"
#include "model/keys.hpp"

namespace cairn {
namespace {

constexpr double owner_wait_seconds = 2;  // a dying process holds its lock for a moment

std::vector<CheckpointContents> read_inputs(io::FileSystem& files,
                                            const std::vector<io::Path>& prefixes,
                                            const MergeOptions& options) {
  std::vector<CheckpointContents> inputs;
  std::set<io::Path> seen;
  for (const auto& prefix : prefixes) {
    if (!seen.insert(std::filesystem::absolute(prefix).lexically_normal()).second) {
      throw Error(Code::invalid_argument, cat(prefix.string(), " is given twice"), "",
                  "Name each part once.");
    }
    try {
      inputs.push_back(read_contents(files, prefix));
    } catch (const Error& error) {
      if (error.code() != Code::not_found || !options.allow_missing) throw;
    }
  }
  if (inputs.empty()) {
    throw Error(Code::not_found, "there is nothing to merge",
                prefixes.empty() ? "no prefix is given" : "no prefix has an index");
  }
  for (const auto& input : inputs) {
    if (input.format != Format::bundle) {
      throw Error(Code::unsupported, cat(input.prefix, " is an HDF5 file"),
                  "a merge links the data files of bundles")
          .at(input.prefix);
    }
    if (input.big_endian != inputs.front().big_endian) {
      throw Error(Code::invalid_argument,
                  cat(inputs.front().prefix, " and ", input.prefix, " differ in byte order"),
                  "one checkpoint has one");
    }
    for (const auto& tensor : input.tensors) {
      if (tensor.problem.empty()) continue;
      throw Error(Code::data_loss, cat("tensor '", tensor.key, "' cannot be merged"),
                  tensor.problem)
          .at(input.prefix)
          .of_tensor(tensor.key);
    }
  }
  return inputs;
}

struct Joined {
  std::vector<StoredTensor> tensors;
  std::vector<io::Path> data;  // by new number
  std::optional<CheckpointMeta> meta;
};

void require_compatible(const StoredTensor& a, const std::string& prefix_a, const StoredTensor& b,
                        const std::string& prefix_b) {
  const auto refuse = [&](const std::string& reason) {
    throw Error(Code::invalid_argument,
                cat("tensor '", a.key, "' is in ", prefix_a, " and in ", prefix_b), reason,
                "Merge parts that hold different tensors, or different slices of one.")
        .of_tensor(a.key);
  };
  if (a.dtype != b.dtype) refuse(cat("as ", dtype_name(a.dtype), " and as ", dtype_name(b.dtype)));
  if (a.shape != b.shape) {
    refuse(cat("with shape ", shape_text(a.shape), " and with ", shape_text(b.shape)));
  }
  if (!a.sliced || !b.sliced) refuse("at least once whole");
}

void require_disjoint(const StoredTensor& tensor, const std::string& prefix) {
  std::vector<Box> boxes;
  for (const auto& slice : tensor.slices) boxes.push_back(slice.box);
  auto twice = first_overlap(boxes);
  for (std::set<Box> seen; const auto& box : boxes) {
    if (seen.insert(box).second || twice) continue;
    twice = {0, 0};  // without elements, yet under one key
  }
  if (!twice) return;
  throw Error(Code::invalid_argument,
              cat("tensor '", tensor.key, "': slices ", box_text(boxes[twice->first]), " and ",
                  box_text(boxes[twice->second]), " overlap"),
              cat("the second is in ", prefix), "Merge each slice once.")
      .of_tensor(tensor.key);
}

Joined join(const std::vector<CheckpointContents>& inputs) {
  Joined joined;
  std::map<std::string, const CheckpointContents*> first_in;
  std::map<std::string, StoredTensor> tensors;
  for (const auto& input : inputs) {
    std::map<std::int32_t, std::int32_t> number;
    for (auto tensor : input.tensors) {
      check_key(tensor.key);
      for (auto& slice : tensor.slices) {
        const auto next = static_cast<std::int32_t>(joined.data.size());
        const auto [at, is_new] = number.emplace(slice.file, next);
        if (is_new) joined.data.push_back(data_path(input.prefix, slice.file, input.num_files));
        slice.file = at->second;
      }
      const auto [at, is_new] = tensors.emplace(tensor.key, tensor);
      if (is_new) {
        first_in[tensor.key] = &input;
        continue;
      }
      auto& there = at->second;
      require_compatible(there, first_in[tensor.key]->prefix, tensor, input.prefix);
      for (auto& slice : tensor.slices) there.slices.push_back(std::move(slice));
      require_disjoint(there, input.prefix);
    }
    if (input.meta && (!joined.meta || joined.meta->sequence < input.meta->sequence)) {
      joined.meta = input.meta;
    }
  }
  for (auto& [key, tensor] : tensors) {
    require_stored(tensor, {Box::whole(tensor.shape)});
    joined.tensors.push_back(std::move(tensor));
  }
  return joined;
}

void remove_inputs(io::FileSystem& files, const std::vector<CheckpointContents>& inputs,
                   const io::Path& destination) {
  for (const auto& input : inputs) {
    const io::Path prefix = std::filesystem::absolute(input.prefix).lexically_normal();
    if (prefix == destination) continue;
    const auto directory = prefix.parent_path();
    try {
      files.remove(io::Path(prefix) += ".index");
      files.sync_directory(directory);
      for (int file = 0; file < input.num_files; ++file) {
        const auto path = data_path(prefix, file, input.num_files);
        if (io::exists(files, path)) files.remove(path);
      }
      files.sync_directory(directory);
      if (directory != destination.parent_path() && files.list(directory).empty()) {
        files.remove_directory(directory);
      }
    } catch (const Error& error) {
      log(LogLevel::warning, cat("merged, but an input stays: ", error.what()));
    }
  }
}

}  // namespace

void merge_checkpoints(const std::vector<std::filesystem::path>& prefixes,
                       const std::filesystem::path& destination, const MergeOptions& options) {
  const auto to = std::filesystem::absolute(destination).lexically_normal();
  const commit::Naming naming(to.filename().string(), false);
  commit::check_checkpoint_name(naming.name);
  Job job{serial_group(),
          options.file_system ? options.file_system : io::posix_file_system(),
          to.parent_path(),
          naming,
          {}};
  auto& files = *job.files;
  const auto inputs = read_inputs(files, prefixes, options);
  auto joined = join(inputs);
  if (inputs.front().big_endian) {
    throw Error(Code::unsupported, "big-endian checkpoints cannot be merged",
                "a merged index is written for little-endian data");
  }
  io::create_directories(files, job.directory);
  const auto owned = commit::OwnedName::take(job.files, job.directory, naming, owner_wait_seconds);
  job.atomic_rename = owned.atomic_rename();
  recover(job);
  const bool replaces = io::exists(files, io::Path(to) += ".index");
  if (replaces && !options.overwrite) {
    throw Error(Code::already_exists, cat("there is a checkpoint ", to.string()), "",
                "Choose another destination, or set MergeOptions::overwrite.")
        .at(to.string());
  }
  const auto data_files = static_cast<int>(joined.data.size());
  commit::Transaction merge{job.directory,      naming,         0,
                            commit::new_uuid(), data_files + 1, !job.atomic_rename};
  commit::avoid_counts_in_use(files, merge);
  commit::begin(files, merge);
  bool committed = false;
  try {
    for (int file = 0; file < data_files; ++file) {
      io::link_or_copy(files, joined.data[static_cast<std::size_t>(file)], merge.part(file));
    }
    auto meta = joined.meta.value_or(CheckpointMeta{});
    meta.version = CAIRN_VERSION;
    meta.uuid = merge.uuid;
    const auto sealed = seal_index(std::move(joined.tensors), meta, data_files, merge.num_files);
    owned.check();
    commit::publish(files, merge, sealed.index, sealed.own_files);
    committed = true;
  } catch (const Error& error) {
    if (!committed && error.code() != Code::durability_unknown) commit::abandon(files, merge);
    throw;
  }
  commit::clean_up(files, merge);
  if (options.remove_inputs) remove_inputs(files, inputs, to);
}

}  // namespace cairn
