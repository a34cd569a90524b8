#include "store/directory/thin.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <set>
#include <utility>

#include "base/json.hpp"
#include "base/mutex.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/bundle/stored_graph.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "model/key_pattern.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/data_file.hpp"
#include "store/contents/format.hpp"
#include "store/contents/replace_files.hpp"

namespace cairn {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t journal_limit_bytes = std::int64_t{1} << 20;
constexpr std::int64_t copied_at_a_time = std::int64_t{4} << 20;
constexpr std::string_view save_counter_key = "save_counter/.ATTRIBUTES/VARIABLE_VALUE";

struct Gap {
  std::int64_t begin, end;
};

// One checkpoint, and what is to stay of it.
class Thinner {
 public:
  Thinner(const Location& place, std::int64_t step, const ThinRequest& request)
      : files_(*place.files), place_(place), prefix_(place.prefix(step)), request_(request) {
    contents_ = read_contents(files_, prefix_, Graph::read);
    require_thinnable();
    choose();
  }

  const CheckpointMeta& meta() const { return *contents_.meta; }
  bool any() const { return plan_.tensors > 0; }

  ThinPlan plan() {
    for (const auto& [file, bytes] : lost_bytes_) {
      const auto status = files_.status(data_path(contents_, file));
      if (status && status->names == 1) plan_.freed_bytes += bytes;
    }
    const auto extents = kept_extents();
    for (const auto& [file, gaps] : gaps_by_file(extents, false)) {
      const auto path = data_path(contents_, file);
      const auto status = files_.status(path);
      if (!status || status->names == 1) continue;
      std::int64_t bytes = 0;
      for (const auto& piece : extents.at(file)) bytes += piece.size;
      plan_.copied_bytes += bytes;
      // One file is copied at a time.
      plan_.room_bytes = std::max(plan_.room_bytes, bytes);
    }
    return plan_;
  }

  // The new index, and with it the metadata that it tells of.
  void commit(const commit::Ownership& owner) {
    CheckpointMeta meta = *contents_.meta;
    for (std::size_t i = 0; i < request_.keys.size(); ++i) {
      if (went_[i].tensors > 0) meta.thinned.push_back(went_[i]);
    }
    for (const auto& key : dropped_) meta.gaps.erase(key);
    forget_descriptions(meta);
    const auto own = std::find_if(contents_.own.begin(), contents_.own.end(),
                                  [](const auto& one) { return one.key == bundle::meta_key; });
    const auto was = own->slices.front();
    const auto path = data_path(contents_, was.file);
    // The old metadata stay where the old index finds them. The old copy of the index, behind them,
    // gives way to the new graph, metadata and index.
    auto begin = was.offset + was.stored_bytes;
    auto graph = new_graph(was.file, begin);
    const auto text = bundle::encode_meta(meta);
    const auto stored = bundle::encode_strings({&text, 1});
    const auto meta_begin = begin + std::ssize(graph);
    Piece slice;
    slice.file = was.file;
    slice.offset = meta_begin;
    slice.stored_bytes = slice.raw_bytes = static_cast<std::int64_t>(stored.bytes.size());
    slice.crc32c = stored.crc32c;
    own->slices = {slice};
    auto all = kept_;
    all.insert(all.end(), contents_.own.begin(), contents_.own.end());
    const auto index = bundle::build_index(contents_.num_files, all);
    FileReplacer replacer(files_, prefix_, owner);
    replacer.stage(path, [&](io::File& file) {
      const auto old = files_.open_read(path);
      copy_range(*old, was_begin(was), begin, file);
      const auto write = [&](std::int64_t at, const std::string& bytes) {
        if (!bytes.empty()) file.write_at(at, std::as_bytes(std::span(bytes)));
        return at + std::ssize(bytes);
      };
      write(write(write(begin, graph), stored.bytes), index);
    });
    const auto index_path = commit::index_path(prefix_);
    replacer.stage(index_path,
                   [&](io::File& file) { file.write_at(0, std::as_bytes(std::span(index))); });
    // What stands refers to the same bytes in both.
    replacer.put_in_place(path);
    replacer.put_in_place(index_path);
    replacer.end();
    contents_.tensors = std::move(kept_);
    kept_ = contents_.tensors;
  }

  // What nothing refers to any more. `all`: also of files of which nothing has gone just now.
  void release(const commit::Ownership& owner, bool all) {
    owner.check();
    const auto extents = kept_extents();
    const auto gaps = gaps_by_file(extents, all);
    bool removed = false;
    for (std::int32_t file = 0; file < contents_.num_files; ++file) {
      if (extents.contains(file)) continue;
      removed |= io::try_remove(files_, data_path(contents_, file));
    }
    if (removed) files_.sync_directory(place_.directory);
    for (const auto& [file, of_file] : gaps) {
      release(file, of_file, has_metadata(extents.at(file)), owner);
    }
  }

 private:
  void require_thinnable() {
    const auto refuse = [&](Code code, const std::string& reason, const std::string& way_out) {
      throw Error(code, cat(prefix_.string(), " cannot be thinned"), reason, way_out)
          .at(prefix_.string());
    };
    if (!format_of(contents_.format).has_data_files()) {
      refuse(Code::unsupported, "an HDF5 file is one file, in which all tensors lie",
             "Save bundles, or convert it without these keys.");
    }
    if (contents_.own.empty()) {
      refuse(Code::unsupported, "Cairn did not save it", "Convert it without these keys.");
    }
    if (!contents_.meta) {
      refuse(Code::data_loss, "its metadata cannot be read", "cairn verify tells what is damaged.");
    }
    if (!place_.atomic_rename) {
      refuse(Code::unsupported, "the directory relies on no rename", "Copy it to another one.");
    }
    if (!contents_.graph_problem.empty()) {
      refuse(Code::data_loss, contents_.graph_problem, "cairn verify tells what is damaged.");
    }
  }

  // Which pattern fits; as many as there are: none.
  std::size_t pattern_of(const std::string& key) const {
    const auto& patterns = request_.keys;
    const auto at = std::find_if(patterns.begin(), patterns.end(),
                                 [&](const auto& pattern) { return means_key(pattern, key); });
    return static_cast<std::size_t>(at - patterns.begin());
  }

  void choose() {
    std::set<std::string> stay{std::string(object_graph_key), std::string(save_counter_key)};
    for (const auto& [name, keys] : contents_.meta->savers) stay.insert(keys.begin(), keys.end());
    for (const auto& pattern : request_.keys) went_.push_back({pattern, 0, 0, request_.after});
    bool any_stays = false;
    for (auto& tensor : contents_.tensors) {
      const auto by = stay.contains(tensor.key) ? went_.size() : pattern_of(tensor.key);
      if (by == went_.size()) {
        if (!tensor.problem.empty()) {
          throw Error(Code::data_loss, cat(prefix_.string(), " is not thinned"),
                      cat("tensor '", tensor.key, "' is damaged: ", tensor.problem),
                      "cairn verify tells what is damaged.")
              .at(prefix_.string())
              .of_tensor(tensor.key);
        }
        any_stays |= !stay.contains(tensor.key);
        kept_.push_back(tensor);
        continue;
      }
      auto& went = went_[by];
      ++went.tensors;
      ++plan_.tensors;
      dropped_.insert(tensor.key);
      for (const auto& slice : tensor.slices) {
        went.bytes += slice.stored_bytes;
        plan_.bytes += slice.stored_bytes;
        lost_bytes_[slice.file] += slice.stored_bytes;
        lost_files_.insert(slice.file);
      }
    }
    if (any() && !any_stays) {
      throw Error(Code::invalid_argument, cat("nothing would be left of ", prefix_.string()),
                  "all of its tensors have such keys",
                  "Remove whole checkpoints with cairn gc --max-to-keep.")
          .at(prefix_.string());
    }
  }

  // Without what has gone, as bytes at this place of the metadata's file; and its entry. Empty:
  // there is none, or it tells of nothing that goes.
  std::string new_graph(std::int32_t file, std::int64_t offset) {
    if (!contents_.graph) return "";
    auto graph = *contents_.graph;
    bool changes = false;
    for (const auto& key : dropped_) changes |= graph.forget(key);
    const auto entry = std::find_if(kept_.begin(), kept_.end(),
                                    [](const auto& one) { return one.key == object_graph_key; });
    // It lies in the file that is written anew where it was changed before.
    const bool moves = entry != kept_.end() && entry->slices.front().file == file;
    if (entry == kept_.end() || (!changes && !moves)) return "";
    const auto text = bundle::encode_object_graph(graph);
    auto stored = bundle::encode_strings({&text, 1});
    Piece slice;
    slice.file = file;
    slice.offset = offset;
    slice.stored_bytes = slice.raw_bytes = static_cast<std::int64_t>(stored.bytes.size());
    slice.crc32c = stored.crc32c;
    lost_files_.insert(entry->slices.front().file);
    entry->slices = {slice};
    return std::move(stored.bytes);
  }

  // Of what has gone, and of groups of which nothing is left: a program that finds a group
  // described takes it for one that was saved empty.
  void forget_descriptions(CheckpointMeta& meta) const {
    const auto any_below = [](const auto& keys, const std::string& group) {
      const auto at = keys.lower_bound(group + '/');
      return at != keys.end() && at->starts_with(group + '/');
    };
    std::set<std::string> left;
    for (const auto& tensor : kept_) left.insert(tensor.key);
    std::erase_if(meta.descriptions.by_key, [&](const auto& said) {
      const auto& key = said.first;
      if (left.contains(key)) return false;
      return dropped_.contains(key) || (any_below(dropped_, key) && !any_below(left, key));
    });
  }

  // Of what the standing index needs of the metadata's file the beginning: a graph may be in front.
  std::int64_t was_begin(const Piece& meta) const {
    auto begin = meta.offset;
    for (const auto& tensor : contents_.tensors) {
      for (const auto& slice : tensor.slices) {
        if (slice.file == meta.file) begin = std::min(begin, slice.offset);
      }
    }
    return begin;
  }

  FileExtents kept_extents() const {
    CheckpointContents kept;
    kept.tensors = kept_;
    kept.own = contents_.own;
    return extents_of(kept);
  }

  // Of each file that stays what lies between what stays, and the end.
  std::map<std::int32_t, std::vector<Gap>> gaps_by_file(const FileExtents& extents,
                                                        bool all) const {
    std::map<std::int32_t, std::vector<Gap>> gaps;
    for (const auto& [file, pieces] : extents) {
      if (!all && !lost_files_.contains(file) && !has_metadata(pieces)) continue;
      auto& of_file = gaps[file];
      std::int64_t at = 0;
      for (const auto& piece : pieces) {
        if (piece.offset > at) of_file.push_back({at, piece.offset});
        at = std::max(at, piece.end());
      }
      of_file.push_back({at, at});  // where it ends
    }
    return gaps;
  }

  // `is_metadata`: with the index at its end.
  void release(std::int32_t file, const std::vector<Gap>& gaps, bool is_metadata,
               const commit::Ownership& owner) {
    const auto path = data_path(contents_, file);
    const auto status = files_.status(path);
    if (!status) return;
    const auto end = is_metadata ? status->size : gaps.back().begin;
    if (gaps.size() == 1 && status->size == end) return;
    if (status->names == 1 && punch(path, gaps, end)) return;
    // Somebody else's file is not touched, and of this one what is needed is copied.
    FileReplacer replacer(files_, prefix_, owner);
    replacer.stage(path, [&](io::File& copy) {
      const auto old = files_.open_read(path);
      std::int64_t at = 0;
      for (const auto& gap : gaps) {
        copy_range(*old, at, gap.begin, copy);
        at = gap.end;
      }
      if (is_metadata) copy_range(*old, at, end, copy);
      copy.resize(end);
    });
    replacer.put_in_place(path);
    replacer.end();
  }

  bool punch(const io::Path& path, const std::vector<Gap>& gaps, std::int64_t end) {
    const auto file = files_.open_write(path);
    for (const auto& gap : gaps) {
      if (gap.end > gap.begin && !file->punch(gap.begin, gap.end - gap.begin)) return false;
    }
    if (file->size() > end) file->resize(end);
    file->sync();
    file->close();
    return true;
  }

  static void copy_range(const io::File& from, std::int64_t begin, std::int64_t end, io::File& to) {
    std::vector<std::byte> bytes;
    for (auto at = begin; at < end; at += copied_at_a_time) {
      bytes.resize(static_cast<std::size_t>(std::min(copied_at_a_time, end - at)));
      from.read_at(at, bytes);
      to.write_at(at, bytes);
    }
  }

  io::FileSystem& files_;
  const Location& place_;
  io::Path prefix_;
  const ThinRequest& request_;
  CheckpointContents contents_;
  std::vector<StoredTensor> kept_;
  std::set<std::string> dropped_;                    // keys
  std::set<std::int32_t> lost_files_;                // that something has gone of
  std::map<std::int32_t, std::int64_t> lost_bytes_;  // of what goes, by file
  std::vector<Thinned> went_;                        // by pattern
  ThinPlan plan_;
};

io::Path journal_path(const Location& place) {
  return place.directory / commit::private_directory_name / commit::thinning_name(place.naming);
}

struct Journal {
  std::int64_t step = 0;
  std::string uuid;
  ThinRequest request;
};

void write_journal(const Location& place, const Journal& journal) {
  const Json json = {{"step", journal.step},
                     {"uuid", journal.uuid},
                     {"keys", journal.request.keys},
                     {"after", journal.request.after}};
  const auto path = journal_path(place);
  io::replace_file(*place.files, path, dump_json(json, NotUtf8::replaced),
                   path.parent_path() / commit::owner_temporary_name(commit::new_uuid()));
}

void remove_journal(const Location& place) {
  const auto path = journal_path(place);
  if (io::try_remove(*place.files, path)) place.files->sync_directory(path.parent_path());
}

std::optional<Journal> read_journal(const Location& place) {
  if (!place.files->status(journal_path(place))) return std::nullopt;
  const auto text = io::try_read_file(*place.files, journal_path(place), journal_limit_bytes);
  if (!text) return std::nullopt;
  const auto json = parse_json(*text, false);
  Journal journal;
  try {
    json.at("step").get_to(journal.step);
    json.at("uuid").get_to(journal.uuid);
    json.at("keys").get_to(journal.request.keys);
    json.at("after").get_to(journal.request.after);
  } catch (const Json::exception&) {
    return Journal{-1, "", {}};  // of a later version, or damaged
  }
  return journal;
}

void require_room(const Location& place, const ThinPlan& plan) {
  if (plan.room_bytes == 0) return;
  const auto free = place.files->free_bytes(place.directory);
  if (free >= plan.room_bytes) return;
  throw Error(Code::no_space, "there is no room to thin a checkpoint",
              cat("a file of it has other names, and is written anew: that takes ", plan.room_bytes,
                  " bytes, and ", free, " are free"),
              "Make room, or remove whole checkpoints with cairn gc --max-to-keep.")
      .at(place.directory.string());
}

// Two names in one directory stage what they replace in the same place: one thread at a time is
// there, of those of this process.
class AloneIn {
 public:
  explicit AloneIn(const Location& place) : key_(place.files.get(), place.directory) {
    MutexLock lock(mutex);
    while (!taken.insert(key_).second) lock.wait(given_back);
  }
  ~AloneIn() {
    const MutexLock lock(mutex);
    taken.erase(key_);
    given_back.notify_all();
  }
  AloneIn(const AloneIn&) = delete;
  AloneIn& operator=(const AloneIn&) = delete;

 private:
  using Key = std::pair<const io::FileSystem*, io::Path>;
  static inline Mutex mutex;
  static inline std::set<Key> taken CAIRN_GUARDED_BY(mutex);
  static inline std::condition_variable given_back;
  const Key key_;
};

}  // namespace

ThinPlan plan_thinning(const Location& place, std::int64_t step, const ThinRequest& request) {
  return Thinner(place, step, request).plan();
}

namespace {

// What a thinning has left undone; with the mutex.
void finish(const Location& place, const Journal& journal, const commit::Ownership& owner) {
  const bool is_there =
      journal.step >= 0 && has_checkpoint({*place.files, place.prefix(journal.step)});
  if (is_there) {
    Thinner thinner(place, journal.step, journal.request);
    if (thinner.meta().uuid == journal.uuid) {
      // If the new index is in place, no key fits any more, and only data is left to go.
      if (thinner.any()) thinner.commit(owner);
      thinner.release(owner, true);
      log(LogLevel::info,
          cat("step ", journal.step, ": letting tensors go, which had begun, is done"));
    }
  }
  remove_journal(place);
}

}  // namespace

ThinPlan thin(const Location& place, std::int64_t step, const ThinRequest& request,
              const commit::Ownership& owner) {
  const AloneIn alone(place);
  // One that failed half way comes first: only the last one is told of.
  if (const auto journal = read_journal(place)) finish(place, *journal, owner);
  Thinner thinner(place, step, request);
  if (!thinner.any()) return {};
  const auto plan = thinner.plan();
  require_room(place, plan);
  owner.check();
  write_journal(place, {step, thinner.meta().uuid, request});
  thinner.commit(owner);
  thinner.release(owner, false);
  remove_journal(place);
  return plan;
}

void finish_thinning(const Location& place, const commit::Ownership& owner) {
  try {
    const auto journal = read_journal(place);
    // A crash may have brought it back when all else was done.
    const auto staged =
        place.directory / commit::private_directory_name / commit::repair_directory_name;
    if (!journal && !io::exists(*place.files, staged)) return;
    const AloneIn alone(place);
    FileReplacer(*place.files, place.directory / place.naming.name, owner).end();
    if (journal) finish(place, *journal, owner);
  } catch (const Error& error) {
    log(LogLevel::warning, cat("tensors that were to go stay until later: ", error.what()));
  }
}

std::string unfinished_thinning(const Location& place) {
  const auto journal = read_journal(place);
  if (!journal || journal->step < 0) return "";
  return commit::prefix_name(place.naming, journal->step);
}

}  // namespace cairn
