// merge_checkpoints: does what TensorFlow's MergeV2Checkpoints does, with a commit.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/text.hpp"
#include "cairn/bundle.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "cairn/version.hpp"
#include "exchange/gaps.hpp"
#include "io/local_path.hpp"
#include "model/box_index.hpp"
#include "model/keys.hpp"
#include "store/commit/ownership.hpp"
#include "store/contents/data_files.hpp"
#include "store/contents/format.hpp"
#include "store/contents/hdf5_reader.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "store/contents/whose.hpp"
#include "store/directory/commit_bundle.hpp"
#include "store/directory/pins.hpp"
#include "store/directory/recovery.hpp"

namespace cairn {
namespace {

constexpr double owner_wait_seconds = 2;  // a dying process holds its lock for a moment

io::Path normal_prefix(const io::Path& prefix) { return io::absolute_path(io::local_path(prefix)); }

// The prefixes of `prefixes`, in the same order.
std::vector<io::Path> whole_prefixes(const std::vector<io::Path>& prefixes) {
  std::vector<io::Path> all;
  std::set<io::Path> seen;
  for (const auto& prefix : prefixes) {
    all.push_back(normal_prefix(prefix));
    if (seen.insert(all.back()).second) continue;
    throw Error(Code::invalid_argument, cat(prefix.string(), " is given twice"), "",
                "Name each part once.");
  }
  return all;
}

bool is_there(io::FileSystem& files, const io::Path& prefix) {
  return io::exists(files, commit::index_path(prefix));
}

// Returns whether a checkpoint in any format is there: a reader might take that one instead of the
// merged one.
bool is_taken(io::FileSystem& files, const io::Path& prefix) {
  return is_there(files, prefix) || is_own_hdf5(files, commit::hdf5_path(prefix));
}

bool is_private(io::FileSystem& files, const io::Path& directory) {
  return io::exists(files, directory / commit::private_directory_name);
}

void require_not_pinned(io::FileSystem& files, const io::Path& prefix, const char* what) {
  if (!is_pinned({files, prefix})) return;
  throw Error(Code::already_exists, cat("the checkpoint ", prefix.string(), " is pinned"),
              cat("a pinned checkpoint is not ", what), "Unpin it first: cairn pin --remove.")
      .at(prefix.string());
}

std::vector<CheckpointContents> read_inputs(io::FileSystem& files,
                                            const std::vector<io::Path>& prefixes,
                                            const MergeOptions& options) {
  std::vector<CheckpointContents> inputs;
  for (const auto& prefix : prefixes) {
    try {
      inputs.push_back(*read_in_place({files, prefix}));
    } catch (const Error& error) {
      if (error.code() != Code::not_found || !options.allow_missing) throw;
    }
  }
  if (inputs.empty()) {
    throw Error(Code::not_found, "there is nothing to merge",
                prefixes.empty() ? "no prefix is given" : "no prefix has an index");
  }
  for (const auto& input : inputs) {
    if (!format_of(input.format).has_data_files()) {
      throw Error(Code::unsupported, cat(input.prefix, " is one file"),
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
  std::vector<io::Path> data;  // by their new numbers
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

// `prefixes` has the prefix of each data file, by its number.
void require_disjoint(const StoredTensor& tensor, const std::vector<std::string>& prefixes) {
  std::vector<Box> boxes;
  for (const auto& slice : tensor.slices) boxes.push_back(slice.box);
  auto twice = first_overlap(boxes);
  std::map<Box, std::size_t> seen;  // boxes without elements may not occur twice either
  for (std::size_t i = 0; i < boxes.size() && !twice; ++i) {
    const auto [at, is_new] = seen.emplace(boxes[i], i);
    if (!is_new) twice = {at->second, i};
  }
  if (!twice) return;
  const auto file = static_cast<std::size_t>(tensor.slices[twice->second].file);
  throw Error(Code::invalid_argument,
              cat("tensor '", tensor.key, "': slices ", box_text(boxes[twice->first]), " and ",
                  box_text(boxes[twice->second]), " overlap"),
              cat("the second is in ", prefixes.at(file)), "Merge each slice once.")
      .of_tensor(tensor.key);
}

// The gaps of sparse tensors that remain: a gap of one part may be filled by another.
GapsByKey gaps_of(std::map<std::string, StoredTensor>& tensors) {
  GapsByKey all;
  for (auto& [key, tensor] : tensors) {
    if (!tensor.gaps) continue;
    StoredGaps gaps{tensor.gaps->fill, {}};
    std::vector<Box> held;
    if (tensor.sliced) {
      for (const auto& slice : tensor.slices) held.push_back(slice.box);
    }
    for (const auto& gap : tensor.gaps->boxes) {
      for (auto& box : find_gaps(gap, held)) gaps.boxes.push_back(std::move(box));
    }
    tensor.gaps = nullptr;
    if (gaps.boxes.empty()) continue;
    tensor.gaps = all[key] = std::make_shared<const StoredGaps>(std::move(gaps));
  }
  return all;
}

// Joins the metadata: those of the newest part, with the descriptions of all parts. If several
// describe the same thing, the newest part's description counts.
std::optional<CheckpointMeta> join_meta(const std::vector<CheckpointContents>& inputs) {
  std::optional<CheckpointMeta> joined;
  for (const auto& input : inputs) {
    if (input.meta && (!joined || joined->sequence < input.meta->sequence)) joined = input.meta;
  }
  if (!joined) return joined;
  joined->name.clear();  // the result is saved under another name
  for (const auto& input : inputs) {
    if (!input.meta) continue;
    auto said = input.meta->descriptions;
    joined->descriptions.attributes.merge(said.attributes);
    joined->descriptions.by_key.merge(said.by_key);
  }
  return joined;
}

Joined join(const std::vector<CheckpointContents>& inputs) {
  Joined joined;
  std::map<std::string, const CheckpointContents*> first_in;
  std::map<std::string, StoredTensor> tensors;
  std::set<std::string> in_several;
  std::vector<std::string> prefixes;  // by new number
  for (const auto& input : inputs) {
    std::map<std::int32_t, std::int32_t> number;
    for (auto tensor : input.tensors) {
      check_key(tensor.key);
      for (auto& slice : tensor.slices) {
        const auto next = static_cast<std::int32_t>(joined.data.size());
        const auto [at, is_new] = number.emplace(slice.file, next);
        if (is_new) {
          joined.data.push_back(data_path(input, slice.file));
          prefixes.push_back(input.prefix);
        }
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
      if (!there.gaps) there.gaps = tensor.gaps;
      in_several.insert(tensor.key);
    }
  }
  for (const auto& key : in_several) require_disjoint(tensors.at(key), prefixes);
  joined.meta = join_meta(inputs);
  if (joined.meta) joined.meta->gaps = gaps_of(tensors);
  for (auto& [key, tensor] : tensors) {
    require_stored(tensor, {Box::whole(tensor.shape)});
    joined.tensors.push_back(std::move(tensor));
  }
  return joined;
}

// The parts that will be removed, with the ownership that keeps jobs from saving over them
// meanwhile. Without ownership where no job has ever saved.
using Removals = std::map<io::Path, std::optional<commit::OwnedName>>;

Removals own_parts(const Location& place, const std::vector<io::Path>& prefixes,
                   const io::Path& destination) {
  Removals removals;
  for (const auto& prefix : prefixes) {
    if (prefix == destination || !is_there(*place.files, prefix)) continue;
    auto& owned = removals[prefix];
    if (is_private(*place.files, prefix.parent_path())) {
      const commit::Naming naming(prefix.filename().string(), false);
      owned.emplace(
          commit::OwnedName::take(place.files, prefix.parent_path(), naming, owner_wait_seconds));
    }
    require_not_pinned(*place.files, prefix, "removed");
  }
  return removals;
}

void remove_part(io::FileSystem& files, const io::Path& prefix, const CheckpointContents& part,
                 const std::optional<commit::OwnedName>& owned) {
  const auto directory = prefix.parent_path();
  std::optional<PinLock> pins;
  if (owned) {
    owned->check();
    pins = PinLock::take({files, directory}, owner_wait_seconds);
    require_not_pinned(files, prefix, "removed");
  } else if (is_private(files, directory)) {
    throw Error(Code::busy, cat("a job has begun to save in ", directory.string()));
  }
  retire(files, directory, {prefix.filename().string(), false}, {prefix});
  if (owned) {
    if (!commit::remove_checkpoint(files, directory, {prefix.filename().string(), false}, {},
                                   owned->ownership())) {
      throw Error(Code::busy, cat("another save of ", prefix.string(), " is there by now"));
    }
    files.sync_directory(directory);
    return;
  }
  files.remove(commit::index_path(prefix));
  files.sync_directory(directory);
  for (const auto file : data_files_of(part)) {
    io::remove_if_there(files, commit::data_path(prefix, file, part.num_files));
  }
  files.sync_directory(directory);
}

// A part that cannot be removed stays, since the merge is done.
void remove_parts(const Location& place, const std::vector<CheckpointContents>& inputs,
                  const Removals& removals) {
  const auto attempt = [](auto&& remove) {
    try {
      remove();
    } catch (const Error& error) {
      log(LogLevel::warning, cat("merged, but an input stays: ", error.what()));
    }
  };
  std::set<io::Path> directories;
  for (const auto& input : inputs) {
    const auto part = removals.find(normal_prefix(input.prefix));
    if (part == removals.end()) continue;
    attempt([&] { remove_part(*place.files, part->first, input, part->second); });
    directories.insert(part->first.parent_path());
  }
  directories.erase(place.directory);
  for (const auto& directory : directories) {
    attempt([&] {
      if (place.files->list(directory).empty()) place.files->remove_directory(directory);
    });
  }
}

// Returns whether a checkpoint at `to` will be replaced. Throws if it must not be.
bool require_free(io::FileSystem& files, const io::Path& to, bool overwrite) {
  if (!is_taken(files, to)) return false;
  if (!overwrite) {
    throw Error(
        Code::already_exists, cat("there is a checkpoint ", to.string()), "",
        "Choose another destination, or let this one be overwritten (MergeOptions::overwrite; "
        "cairn merge --overwrite).")
        .at(to.string());
  }
  require_not_pinned(files, to, "replaced");
  return true;
}

}  // namespace

void merge_checkpoints(const std::vector<PathText>& given, const PathText& destination,
                       const MergeOptions& options) {
  std::vector<std::filesystem::path> prefixes;
  for (const auto& prefix : given) prefixes.push_back(io::local_path(prefix));
  const auto to = normal_prefix(destination);
  commit::require_path(to);
  for (const auto& prefix : prefixes) commit::require_path(prefix);
  const commit::Naming naming(to.filename().string(), false);
  commit::check_checkpoint_name(naming.name);
  const auto group = serial_group();
  auto place = location_of({options.file_system, to.parent_path()}, naming);
  auto& files = *place.files;
  const auto parts = whole_prefixes(prefixes);
  std::optional<commit::OwnedName> owned;
  const auto own = [&] {
    io::create_directories(files, place.directory);
    owned.emplace(
        commit::OwnedName::take(place.files, place.directory, naming, owner_wait_seconds));
    place.atomic_rename = owned->atomic_rename();
    tell_removed(place, recover(place, {*group, {0}}, &owned->ownership()));
  };
  // If parts lie in the destination's directory, ownership is taken before they are read; otherwise
  // as late as possible, since the merge may still be refused.
  if (std::any_of(parts.begin(), parts.end(), [&](const auto& prefix) {
        return prefix.parent_path() == place.directory && is_there(files, prefix);
      })) {
    own();
  }
  const auto removals = options.remove_inputs ? own_parts(place, parts, to) : Removals();
  const auto inputs = read_inputs(files, prefixes, options);
  auto joined = join(inputs);
  if (inputs.front().big_endian) {
    throw Error(Code::unsupported, "big-endian checkpoints cannot be merged",
                "a merged index is written for little-endian data");
  }
  if (!owned) own();
  const bool replaces = require_free(files, to, options.overwrite);
  auto access = io::Status().access;
  for (const auto& input : inputs) access &= OpenCheckpoint(files, input).access();
  auto meta = joined.meta.value_or(CheckpointMeta{});
  meta.version = version();
  meta.statistics.reset();  // they are of another save
  meta.run = {};
  commit_bundle(place, *owned,
                {std::move(joined.data), std::move(joined.tensors), std::move(meta), access},
                [&]() -> std::optional<PinLock> {
                  if (!replaces) return std::nullopt;
                  // It may have been pinned meanwhile. With this lock nobody can pin it while it is
                  // replaced.
                  auto pins = PinLock::take({place.files, place.directory}, owner_wait_seconds);
                  require_not_pinned(files, to, "replaced");
                  return pins;
                });
  remove_parts(place, inputs, removals);
}

}  // namespace cairn
