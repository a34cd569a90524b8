#include "store/directory/catalog.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "model/key_pattern.hpp"
#include "store/commit/names.hpp"
#include "store/commit/state_file.hpp"
#include "store/contents/contents_reader.hpp"
#include "store/contents/format.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/notes.hpp"
#include "store/contents/spare.hpp"
#include "store/contents/standing.hpp"
#include "store/contents/whose.hpp"
#include "store/directory/marks.hpp"
#include "store/directory/pins.hpp"

namespace cairn {
namespace {

constexpr std::int64_t small_file_limit_bytes = std::int64_t{1} << 24;

// What others are told by a checkpoint that cannot be restored: its place, and what its run left
// behind.
void remember_lineage(io::FileSystem& files, const io::Path& directory, const commit::Naming& name,
                      CatalogEntry& entry) {
  try {
    const auto meta = find_meta_without_index(files, directory, name, entry.step);
    if (!meta) return;
    entry.save.sequence = meta->sequence;
    entry.save.wall_time_seconds = meta->wall_time_seconds;
    entry.save.parent = meta->parent;
  } catch (const Error& error) {
    if (error.code() == Code::unavailable) throw;
    log(LogLevel::warning, cat("step ", entry.step, " cannot be looked at: ", error.what()));
  }
}

// The files of the step that make it a checkpoint. Until one is read, the entry is of their format.
std::map<Format, io::FileId> find_main_files(io::FileSystem& files, const io::Path& prefix,
                                             CatalogEntry& entry) {
  std::map<Format, io::FileId> ids;
  for (const auto* format : all_formats()) {
    std::optional<io::Status> status;
    try {
      status = files.status(format->main_file(prefix));
    } catch (const Error& error) {
      if (error.code() == Code::unavailable) throw;
      entry.format = format->id();  // load_index() meets the error, and it is told
    }
    if (!status) continue;
    entry.save.wall_time_seconds = std::max(entry.save.wall_time_seconds, status->modified_seconds);
    entry.format = format->id();
    ids[format->id()] = status->id;
  }
  return ids;
}

void take_contents(CatalogEntry& entry, const IndexFile& loaded,
                   const CheckpointContents& contents) {
  entry.num_files = contents.num_files;
  entry.format = contents.format;
  entry.ours = format_of(contents.format).is_ours(&contents);
  entry.save.identity = cat("index-", hex(crc32c(loaded.bytes)));
  entry.lacks_metadata = lacks_metadata(contents) && loaded.foreign.empty();
  entry.damage = entry.lacks_metadata
                     ? cat("its metadata cannot be read, so that it is restored only if nothing "
                           "else can be: ",
                           loaded.meta_problem)
                 : loaded.foreign.empty() ? misplaced(contents)
                                          : loaded.foreign;
  if (contents.meta) {
    entry.save.sequence = contents.meta->sequence;
    entry.save.wall_time_seconds = contents.meta->wall_time_seconds;
    entry.save.ranks = contents.meta->ranks;
    entry.save.parent = contents.meta->parent;
    entry.save.metric = contents.meta->metric;
    entry.save.application = contents.meta->application;
    entry.save.identity = contents.meta->uuid;
    entry.thinned = contents.meta->thinned;
    entry.not_finite = contents.meta->not_finite;
  }
  for (const auto& tensor : contents.tensors) {
    if (tensor.problem.empty()) continue;
    entry.lacks_metadata = false;
    if (entry.damage.empty()) entry.damage = cat("tensor '", tensor.key, "': ", tensor.problem);
  }
}

// All that the files of one step tell. What cannot be read is the entry's damage and hides no other
// step; that storage does not answer is the caller's error, as a restart must take no older step.
CatalogEntry look_at(io::FileSystem& files, const io::Path& directory, const commit::Naming& name,
                     std::int64_t step, const FoundSizes* sizes, const LostCheckpoint* lost) {
  CatalogEntry entry;
  entry.step = step;
  const auto prefix = directory / commit::prefix_name(name, step);
  const auto ids = find_main_files(files, prefix, entry);
  try {
    auto loaded = load_index(files, prefix, Graph::skip, sizes);
    const auto contents = parse_contents(loaded, prefix);
    if (!loaded.foreign.empty()) remember_lineage(files, directory, name, entry);
    take_contents(entry, loaded, contents);
  } catch (const Error& error) {
    if (error.code() == Code::unavailable) throw;
    entry.damage = error.what();
    entry.unreadable = error.code() != Code::data_loss;
    if (lost) entry.format = lost->format;
    if (lost) entry.save.wall_time_seconds = lost->wall_time_seconds;
    entry.ours |= format_of(entry.format).is_ours(nullptr);
    remember_lineage(files, directory, name, entry);
  }
  if (const auto at = ids.find(entry.format); at != ids.end()) entry.file = at->second;
  if (ids.size() > 1) entry.other = other_format({files, prefix}, entry.format);
  if (entry.other && entry.save.sequence > 0) try {
      const auto meta = read_summary(files, prefix, entry.other).meta;
      entry.other_is_same = meta && meta->sequence == entry.save.sequence;
    } catch (const Error& error) {  // then it serves nobody
      if (error.code() == Code::unavailable) throw;
    }
  return entry;
}

io::Path mark_path(const io::Path& directory, const commit::Naming& name, std::int64_t step) {
  return directory / commit::private_directory_name / commit::damaged_directory_name /
         commit::prefix_name(name, step);
}

// The mark counts only for the very save that was found damaged, not for one that replaced it.
std::string damage_mark(const Location& at, const CatalogEntry& entry) {
  const auto path = mark_path(at.directory, at.naming, entry.step);
  if (!at.files->status(path)) return "";
  const auto text = io::try_read_file(*at.files, path, small_file_limit_bytes);
  if (!text) return "";
  const auto end = text->find('\n');
  if (text->substr(0, end) != entry.save.identity) return "";
  return end == text->npos ? "found damaged before" : text->substr(end + 1);
}

// With what is noted of it beside its own files.
struct MayBe {
  bool damaged, pinned, marked;
};
void add_notes(const Location& at, CatalogEntry& entry, MayBe may_be) {
  const auto mark = may_be.damaged ? damage_mark(at, entry) : "";
  if (!mark.empty()) {
    entry.damage = mark;
    entry.lacks_metadata = false;
  }
  if (may_be.pinned) entry.pin = find_pin(at, entry);
  if (may_be.marked) entry.mark = find_mark(at, entry);
}

// The prefixes of which there are notes of a kind; nothing: it cannot be told.
std::optional<std::set<std::string>> list_noted(const Location& at, const char* kind) {
  try {
    const auto names = at.files->list(at.directory / commit::private_directory_name / kind);
    return std::set<std::string>(names.begin(), names.end());
  } catch (const Error& error) {
    if (error.code() == Code::unavailable) throw;
    if (error.code() != Code::not_found) return std::nullopt;
    return std::set<std::string>();
  }
}

// A link that leads to nothing is there.
bool is_gone(io::FileSystem& files, const io::Path& path) {
  try {
    return !files.status(path) && !files.is_link(path);
  } catch (const Error& error) {  // it cannot be told
    if (error.code() == Code::unavailable) throw;
    return false;
  }
}

// What there is of a step, which may be damaged, or nothing if it is gone. What a job removes or
// replaces meanwhile only looks damaged.
std::optional<CatalogEntry> look_until_same(const Location& at, std::int64_t step,
                                            const FoundSizes* sizes, const LostCheckpoint* lost) {
  auto entry = look_at(*at.files, at.directory, at.naming, step, sizes, lost);
  if (entry.damage.empty()) return entry;
  const Address prefix(at.files, at.prefix(step));
  auto before = standing_of(prefix);
  for (int looks = 64; before.is_there && looks > 0; --looks) {
    entry = look_at(*at.files, at.directory, at.naming, step, nullptr, nullptr);
    if (entry.damage.empty()) return entry;
    auto after = standing_of(prefix);
    if (after == before) return entry;
    before = std::move(after);
  }
  if (!before.is_there && !lost) return std::nullopt;
  return entry;
}

// The steps of a directory, in no order.
class Scan {
 public:
  Scan(const Location& at, const SizesOfSteps& sizes)
      : at_(at),
        sizes_(sizes),
        damaged_(list_noted(at, commit::damaged_directory_name)),
        pinned_(list_noted(at, commit::pinned_directory_name)),
        marked_(list_noted(at, commit::marked_directory_name)) {}

  std::vector<CatalogEntry> entries() {
    // A job may save and remove faster than this reads, so that what was listed is gone when it is
    // read. Then something newer is there, and the directory is listed again: else an old pinned
    // checkpoint could look like the newest.
    bool vanished = true;
    for (int looks = 64; vanished && looks > 0; --looks) {
      vanished = false;
      std::vector<std::string> others;  // another program's, or gone
      for (const auto& file : at_.files->list(at_.directory)) {
        const auto parsed = commit::parse_name(file, at_.naming);
        for (const auto* format : all_formats()) {
          if (parsed.kind != format->main_kind() || seen_.count(parsed.step)) continue;
          if (format->may_be_one(*at_.files, at_.directory / file)) {
            vanished |= !add(parsed.step, nullptr);
          } else {
            others.push_back(file);
          }
        }
      }
      vanished |= !are_listed(others);
    }
    const auto lost = find_lost_steps(*at_.files, at_.directory, at_.naming);
    for (const auto& [step, one] : lost) add(step, &one);
    return std::move(entries_);
  }
  std::vector<CatalogEntry> entries_of(const std::vector<std::int64_t>& steps) {
    for (const auto step : steps) add(step, nullptr);
    return std::move(entries_);
  }

 private:
  bool are_listed(const std::vector<std::string>& files) const {
    if (files.empty()) return true;
    const auto names = at_.files->list(at_.directory);
    const std::set<std::string_view> now(names.begin(), names.end());
    return std::all_of(files.begin(), files.end(),
                       [&](const auto& file) { return now.contains(file); });
  }

  // Returns false if it is gone.
  bool add(std::int64_t step, const LostCheckpoint* lost) {
    if (seen_.contains(step)) return true;
    const auto found = sizes_.find(step);
    const auto* sizes = found == sizes_.end() ? nullptr : &found->second;
    auto entry = look_until_same(at_, step, sizes, lost);
    if (!entry) return false;
    seen_.insert(step);
    const auto prefix = commit::prefix_name(at_.naming, step);
    const auto may_be = [&](const auto& noted) { return !noted || noted->contains(prefix); };
    add_notes(at_, *entry, {may_be(damaged_), may_be(pinned_), may_be(marked_)});
    entries_.push_back(*std::move(entry));
    return true;
  }

  const Location& at_;
  const SizesOfSteps& sizes_;
  // Listed once, so that a step without marks costs no look at them.
  const std::optional<std::set<std::string>> damaged_, pinned_, marked_;
  std::set<std::int64_t> seen_;  // a step may be there in both formats
  std::vector<CatalogEntry> entries_;
};

// Where the state file lists entries, the first at 1. Absolute and relative paths end alike.
class StatePlaces {
 public:
  StatePlaces(const std::optional<commit::StateFile>& state, const commit::Naming& name)
      : name_(name) {
    if (!state) return;
    for (const auto& path : state->all_paths) {
      listed_[io::Path(path).filename().string()] = ++newest_;
    }
  }
  // 0: nowhere.
  int of(const CatalogEntry& entry) const {
    const auto at = listed_.find(commit::prefix_name(name_, entry.step));
    return at == listed_.end() ? 0 : at->second;
  }
  // The last path in the state file is the newest that can be restored, which may not be the last
  // in the order of commits: so its time decides.
  bool is_before(const CatalogEntry& a, const CatalogEntry& b) const {
    if (of(a) == 0 || of(b) == 0) return a.step < b.step;
    return of(a) == newest_ ? a.save.wall_time_seconds < b.save.wall_time_seconds : of(a) < of(b);
  }

 private:
  const commit::Naming& name_;
  std::map<std::string, int> listed_;
  int newest_ = 0;
};

// Readable checkpoints of ours are ordered by sequence. One without a readable sequence goes behind
// its predecessor by the state file, or else by step.
void sort_entries(std::vector<CatalogEntry>& entries, const StatePlaces& places) {
  std::map<std::int64_t, double> order;
  for (const auto& entry : entries) order[entry.step] = static_cast<double>(entry.save.sequence);
  for (const auto& entry : entries) {
    if (entry.save.sequence > 0 || entry.damage.empty()) continue;
    for (const auto& other : entries) {
      if (other.save.sequence > 0 && places.is_before(other, entry))
        order[entry.step] =
            std::max(order[entry.step], static_cast<double>(other.save.sequence) + 0.5);
    }
  }
  const auto rank = [&](const CatalogEntry& entry) {
    return std::make_tuple(order[entry.step], places.of(entry), entry.save.wall_time_seconds,
                           entry.step);
  };
  std::sort(entries.begin(), entries.end(),
            [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

// By commit order. For a damaged entry only the state file tells when it was saved.
std::vector<CatalogEntry> in_order(const Location& at, std::vector<CatalogEntry> entries) {
  const auto state = commit::read_state_file(*at.files, at.directory);
  const StatePlaces places(state, at.naming);
  for (auto& entry : entries) {
    const int place = places.of(entry);
    if (entry.save.sequence > 0 || entry.damage.empty() || place == 0) continue;
    const auto i = static_cast<std::size_t>(place) - 1;
    if (i < state->timestamps.size()) entry.save.wall_time_seconds = state->timestamps[i];
  }
  sort_entries(entries, places);
  mark_superseded(entries);
  return entries;
}

bool is_another(io::FileSystem& files, const io::Path& path, const io::FileId& than) {
  try {
    const auto now = files.status(path);
    return now && now->id != than;
  } catch (const Error& error) {  // it cannot be told
    if (error.code() == Code::unavailable) throw;
    return false;
  }
}

// What looking at listed steps again may change.
struct Doubt {
  bool is_gone = false, is_replaced = false;  // a step that looked damaged
};
Doubt doubt_of(const Location& at, const std::vector<CatalogEntry>& entries) {
  Doubt doubt;
  for (const auto& entry : entries) {
    if (entry.damage.empty()) continue;
    const auto path = format_of(entry.format).main_file(at.prefix(entry.step));
    const bool gone = is_gone(*at.files, path);
    doubt.is_gone |= gone;
    doubt.is_replaced |= !gone && entry.file && is_another(*at.files, path, *entry.file);
  }
  return doubt;
}

}  // namespace

const Thinned* CatalogEntry::find_thinned(std::string_view key) const {
  return cairn::find_thinned(thinned, key);
}

CatalogEntry look_at_step(const Location& at, std::int64_t step) {
  auto entry = look_until_same(at, step, nullptr, nullptr);
  if (!entry) entry = look_at(*at.files, at.directory, at.naming, step, nullptr, nullptr);
  add_notes(at, *entry, {true, true, true});
  return *std::move(entry);
}

// A step that a job removes or replaces meanwhile only looks damaged.
std::optional<std::vector<CatalogEntry>> look_at_listed(const Location& at, StepList& list) {
  auto steps = list.steps_that_count(at);
  for (int looks = 64; steps; --looks) {
    auto entries = look_at_steps(at, *steps);
    const auto doubt = doubt_of(at, entries);
    if (looks == 0 || (!doubt.is_gone && !doubt.is_replaced)) return entries;
    auto now = list.steps_that_count(at);
    if (!doubt.is_replaced && now == steps) return entries;
    steps = std::move(now);
  }
  return std::nullopt;
}

std::vector<CatalogEntry> scan_catalog(const Location& at, const SizesOfSteps& sizes) {
  if (auto* list = step_list_of(*at.files)) {
    if (auto entries = look_at_listed(at, *list)) return *std::move(entries);
  }
  if (!at.files->status(at.directory)) return {};
  return in_order(at, Scan(at, sizes).entries());
}

std::vector<CatalogEntry> look_at_steps(const Location& at,
                                        const std::vector<std::int64_t>& steps) {
  const SizesOfSteps unknown;
  return in_order(at, Scan(at, unknown).entries_of(steps));
}

void enter(std::vector<CatalogEntry>& entries, CatalogEntry entry) {
  std::erase_if(entries, [&](const auto& one) { return one.step == entry.step; });
  // Entries that could not be read have no number, and stay where they were found.
  auto behind = entries.end();
  while (behind != entries.begin() && std::prev(behind)->save.sequence > entry.save.sequence) {
    --behind;
  }
  entries.insert(behind, std::move(entry));
  mark_superseded(entries);
}

std::vector<const CatalogEntry*> restorable(const std::vector<CatalogEntry>& entries) {
  std::vector<const CatalogEntry*> found;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (!entry->superseded && entry->damage.empty()) found.push_back(&*entry);
  }
  return found;
}

void mark_damaged(const Location& at, const CatalogEntry& entry, const std::string& reason) {
  const auto path = mark_path(at.directory, at.naming, entry.step);
  io::create_directories(*at.files, path.parent_path());
  commit::replace_file(*at.files, at.directory, path, entry.save.identity + "\n" + reason);
}

std::optional<commit::StateFile> state_file_of(const commit::Naming& naming,
                                               const std::vector<CatalogEntry>& given) {
  // A commit that may not survive a power failure is not listed: gone, it would count as lost.
  std::vector<CatalogEntry> durable;
  const auto is_volatile = [](const auto& entry) { return entry.volatile_commit; };
  const bool any = std::any_of(given.begin(), given.end(), is_volatile);
  if (any)
    std::remove_copy_if(given.begin(), given.end(), std::back_inserter(durable), is_volatile);
  const auto& entries = any ? durable : given;
  const auto live = restorable(entries);
  if (live.empty()) return std::nullopt;
  commit::StateFile state;
  const auto add = [&](const CatalogEntry& entry) {
    state.all_paths.push_back(commit::prefix_name(naming, entry.step));
    state.timestamps.push_back(entry.save.wall_time_seconds);
  };
  for (const auto& entry : entries) {
    if (&entry != live.front())
      add(entry);  // damaged ones too: their place is known from here only
  }
  // The newest is the last in the file (StateFile).
  add(*live.front());
  state.model_checkpoint_path = state.all_paths.back();
  return state;
}

bool update_state_file(const Location& at, const std::vector<CatalogEntry>& entries,
                       const commit::Ownership* owner, std::optional<commit::StateFile>* last,
                       const io::Path* staged) {
  auto told = state_file_of(at.naming, entries);
  if (!told) return false;
  auto& state = *told;
  auto old = last ? std::exchange(*last, std::nullopt) : std::nullopt;
  if (old) state.last_preserved = old->last_preserved;
  if (!old || *old == state) {  // the file may say something else by now
    old = commit::read_state_file(*at.files, at.directory);
    if (old) state.last_preserved = old->last_preserved;
  }
  const bool writes = !old || *old != state;
  if (writes && staged) {
    commit::rename_state_file(*at.files, at.directory, state, *staged);
  } else if (writes) {
    commit::write_state_file(*at.files, at.directory, at.naming, state, owner);
  }
  if (last) *last = state;
  return writes;
}

void refresh_notes(const Location& at, const std::vector<CatalogEntry>& entries) {
  for (const auto& entry : entries) {
    const bool told = at.naming.numbered ? !format_of(entry.format).has_data_files()
                                         : commit::is_uuid(entry.save.identity);
    if (!entry.ours || !told) continue;
    note_saved(*at.files, at.prefix(entry.step), at.naming.numbered, entry.format,
               entry.save.identity);
  }
}

}  // namespace cairn
