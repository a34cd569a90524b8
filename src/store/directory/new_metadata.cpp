#include "store/directory/new_metadata.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/version.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "store/commit/names.hpp"
#include "store/commit/sequences.hpp"
#include "store/contents/notes.hpp"

namespace cairn {
namespace {

// What the notes of other checkpoints' runs say of this step: the last save of it.
std::optional<PastSave> noted(io::FileSystem& files, const io::Path& directory,
                              const commit::Naming& name, std::int64_t step,
                              const std::vector<CatalogEntry>& catalog) {
  std::optional<PastSave> found;
  for (const auto& entry : catalog) try {
      if (entry.step == step || !entry.damage.empty()) continue;
      const auto there = read_summary(files, directory / commit::prefix_name(name, entry.step));
      if (!there.meta) continue;
      for (const auto& save : there.meta->run.before) {
        if (save.step == step && (!found || save.sequence > found->sequence)) found = save;
      }
    } catch (const Error& error) {
      if (error.code() != Code::data_loss && error.code() != Code::not_found) throw;
    }
  return found;
}

// Its place in the order of commits: after all that may have been saved before it, whose records a
// crash may bring back. Nothing, where the numbers of its neighbours leave none.
std::optional<PastSave> find_place(io::FileSystem& files, const io::Path& directory,
                                   const commit::Naming& name, std::int64_t step) {
  const auto catalog = scan_catalog(location_of({files, directory}, name));
  PastSave place;
  std::int64_t before = 0, after = std::numeric_limits<std::int64_t>::max();
  bool passed = false;
  for (const auto& entry : catalog) {
    const auto sequence = entry.save.sequence;
    if (entry.step == step) {
      passed = true;
      place.wall_time_seconds = entry.save.wall_time_seconds;
    } else if (sequence > 0 && !passed) {
      before = std::max(before, sequence);
    } else if (sequence > 0) {
      after = std::min(after, sequence);
    }
  }
  if (const auto told = noted(files, directory, name, step, catalog);
      told && told->sequence > before && told->sequence < after) {
    return told;
  }
  // No number is free between those of its neighbours.
  if (after - before < 2) return std::nullopt;
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  place.sequence = after < none ? after - 1
                                : commit::reserve_sequences(files, directory, before) -
                                      commit::sequence_block + 1;
  return place;
}

// A checkpoint without a number is known by the UUID in its note (whose.cpp), so it keeps that one.
std::string uuid_for(io::FileSystem& files, const io::Path& prefix, const commit::Naming& name) {
  if (name.numbered) return commit::new_uuid();
  const auto notes = read_notes(files, prefix.parent_path());
  const auto note = notes.find(prefix.filename().string());
  return note == notes.end() || note->second.bundle.empty() ? commit::new_uuid()
                                                            : note->second.bundle;
}

}  // namespace

std::variant<NewMetadata, std::string> new_metadata(io::FileSystem& files, const io::Path& prefix,
                                                    const CheckpointContents& contents,
                                                    int data_file, const std::string& uuid) {
  const auto directory = prefix.parent_path();
  const auto numbered = commit::split_step(prefix.filename().string());
  const auto name =
      numbered ? commit::Naming(numbered->name) : commit::Naming(prefix.filename().string(), false);
  for (const auto& entry : files.list(directory)) {
    if (commit::parse_name(entry, name).kind != commit::ParsedName::Kind::temp_directory) continue;
    return cat("a job has left ", entry, ", which may be newer: cairn gc, or the next job, first");
  }
  for (const auto& tensor : contents.tensors) try {
      if (!tensor.problem.empty()) return cat("tensor '", tensor.key, "': ", tensor.problem);
      require_stored(tensor, {Box::whole(tensor.shape)});
    } catch (const Error&) {
      return cat("tensor '", tensor.key,
                 "' is stored in part, and what fills its gaps was told by the lost ones");
    }
  const auto place = find_place(files, directory, name, numbered ? numbered->step : 0);
  if (!place) return "its place among the other checkpoints here cannot be told";
  NewMetadata made;
  auto& meta = made.meta;
  meta.step = numbered ? numbered->step : 0;
  if (numbered) meta.name = numbered->name;
  meta.sequence = place->sequence;
  meta.parent = place->parent;
  meta.ranks = place->ranks;
  meta.wall_time_seconds = place->wall_time_seconds;
  meta.version = version();
  meta.policy = "not known: these metadata take the place of lost ones";
  meta.uuid = uuid.empty() ? uuid_for(files, prefix, name) : uuid;
  const auto text = bundle::encode_meta(meta);
  const auto stored = bundle::encode_strings({&text, 1});
  Piece slice;
  slice.file = data_file;
  slice.stored_bytes = slice.raw_bytes = static_cast<std::int64_t>(stored.bytes.size());
  slice.crc32c = stored.crc32c;
  auto tensors = contents.tensors;
  for (const auto& own : contents.own) {
    if (own.key != bundle::meta_key) tensors.push_back(own);
  }
  tensors.push_back({std::string(bundle::meta_key), DType::string, {}, false, {slice}, ""});
  made.index = bundle::build_index(contents.num_files, tensors);
  made.file = stored.bytes + made.index;
  return made;
}

}  // namespace cairn
