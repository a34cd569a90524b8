#include "tools/repair.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/commit/state_file.hpp"
#include "store/contents/data_file.hpp"
#include "store/contents/format.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "store/contents/own_index.hpp"
#include "store/contents/replace_files.hpp"
#include "store/contents/spare.hpp"
#include "store/directory/catalog.hpp"
#include "store/directory/new_metadata.hpp"
#include "store/directory/pins.hpp"

namespace cairn {
namespace {

using EntryKind = commit::ParsedName::Kind;
constexpr std::int64_t index_limit_bytes = std::int64_t{4} << 30;
constexpr double pin_wait_seconds = 2;

class Repairer {
 public:
  Repairer(const Address& prefix, const commit::OwnedName& owned)
      : files_(*prefix.files()),
        prefix_(prefix.path()),
        name_(prefix.name()),
        owned_(owned),
        replacer_(files_, prefix_, owned.ownership()) {}

  Repair run();

 private:
  io::Path directory() const { return prefix_.parent_path(); }
  io::Path index_path() const { return commit::index_path(prefix_); }
  commit::Naming alone() const { return {name_, false}; }
  void leave(std::string why) { report_.left.push_back(std::move(why)); }
  bool may_begin();
  void stage(const io::Path&, const std::string& bytes, std::string done);
  bool plan(const OwnIndex&);
  bool plan_file(const OwnIndex&, std::int32_t number, const std::vector<FileExtent>&);
  bool plan_metadata(const OwnIndex&, std::int32_t number, const std::vector<FileExtent>&);
  template <class Use>
  void visit_others(Use);
  bool find_other(const OwnIndex&, const io::Path&, const std::vector<FileExtent>&);
  std::string whose_is(const OwnIndex&, std::int32_t number, const io::Path&);
  bool has_copy(const std::string& index);
  void save_replaced_index();
  void keep_pin();
  void carry_out(const OwnIndex&);
  void mend(const OwnIndex&);
  void refresh();

  io::FileSystem& files_;
  io::Path prefix_;
  std::string name_;
  const commit::OwnedName& owned_;
  FileReplacer replacer_;
  Repair report_;
  std::vector<io::Path> staged_;   // in the order in which they get their names
  std::vector<std::string> done_;  // what each of them does, in words
  // Uuid of the save, if the files that are there do not tell it.
  std::string identity_;
  std::optional<io::Path> set_aside_;  // a copy of the index that is replaced
};

// A save that did not finish needs a recovery, which knows more of its files than a repair does.
bool Repairer::may_begin() {
  for (const auto& entry : files_.list(directory())) {
    if (commit::parse_name(entry, alone()).kind != EntryKind::temp_directory) continue;
    leave(
        cat("a save of it did not finish (", entry, "): cairn gc, or the next job, settles that"));
    return false;
  }
  return true;
}

void Repairer::stage(const io::Path& path, const std::string& bytes, std::string done) {
  replacer_.stage(path, [&](io::File& file) { file.write_at(0, std::as_bytes(std::span(bytes))); });
  staged_.push_back(path);
  done_.push_back(std::move(done));
}

// Prepares the files that make the checkpoint whole. Returns whether it can be made whole.
bool Repairer::plan(const OwnIndex& index) {
  if (!index.stands) {
    stage(index_path(), index.bytes,
          cat(commit::index_name(name_), " was put back from its spare copy"));
    if (index.contents.meta) identity_ = index.contents.meta->uuid;
  }
  bool whole = true;
  std::optional<std::pair<std::int32_t, std::vector<FileExtent>>> metadata;
  for (auto& [number, pieces] : extents_of(index.contents)) {
    if (!index.fits && has_metadata(pieces)) {
      metadata.emplace(number, pieces);
    } else if (!plan_file(index, number, pieces)) {
      whole = false;
    }
  }
  if (index.fits) return whole;
  if (!metadata) leave("the index does not say where the metadata are");
  if (!whole) leave("nothing is taken from others while the metadata do not fit the index");
  return whole && metadata && plan_metadata(index, metadata->first, metadata->second);
}

// Prepares a data file that differs from what the index says. Returns false if its bytes are found
// nowhere.
bool Repairer::plan_file(const OwnIndex& index, std::int32_t number,
                         const std::vector<FileExtent>& pieces) {
  const auto path = data_path(index.contents, number);
  const auto name = path.filename().string();
  if (is_sound(files_, path, pieces, index.contents, index.tail(pieces))) return true;
  if (const auto other = whose_is(index, number, path); !other.empty()) {
    leave(cat(name, " holds what belongs to ", other, ": move it there"));
  } else if (has_metadata(pieces)) {
    // In this file only the copy of the index can be made again.
    if (begins_with(files_, path, pieces)) {
      const auto size = pieces.back().end();
      replacer_.stage(path, [&](io::File& file) {
        write_over(*files_.open_read(path), size, file);
        file.write_at(size, std::as_bytes(std::span(index.bytes)));
      });
      staged_.push_back(path);
      done_.push_back(cat("the spare copy of the index in ", name, " was made again"));
      return true;
    }
    leave(cat(name, " cannot be made again"));
  } else if (!index.fits) {
    leave(cat(name, " is damaged, missing or another checkpoint's"));
  } else if (find_other(index, path, pieces)) {
    return true;
  } else {
    leave(cat(name,
              " is damaged or missing, and no other checkpoint here has a file with the same "
              "slices"));
  }
  return false;
}

// Calls `use` for the other checkpoints in the directory, until it returns false.
template <class Use>
void Repairer::visit_others(Use use) {
  for (const auto& entry : files_.list(directory())) {
    const auto other = commit::split_main_file(directory() / entry);
    if (!other || other->prefix.filename() == name_) continue;
    const auto& format = format_of(other->kind);
    if (!format.has_data_files()) continue;
    std::optional<CheckpointContents> contents;
    try {
      contents = read_contents_as(format.id(), files_, other->prefix);
    } catch (const Error&) {
      continue;  // a checkpoint that cannot be read is of no use here
    }
    if (!use(*contents)) return;
  }
}

bool Repairer::find_other(const OwnIndex& index, const io::Path& path,
                          const std::vector<FileExtent>& pieces) {
  bool found = false;
  visit_others([&](const CheckpointContents& other) {
    if (other.big_endian != index.contents.big_endian) return true;
    for (const auto& [number, its] : extents_of(other)) {
      if (its != pieces) continue;
      const auto from = data_path(other, number);
      if (!is_sound(files_, from, pieces, other)) continue;
      const auto at = replacer_.stage(path, [&](io::File& file) {
        const auto source = files_.open_read(from);
        std::int64_t end = 0;
        for (const auto& piece : pieces) end = std::max(end, piece.end());
        write_over(*source, end, file);
        // What comes from a bucket ends with the id of its own save.
        const auto id = source->size() > end ? save_id(index.contents) : "";
        if (!id.empty()) file.write_at(end, std::as_bytes(std::span(id)));
      });
      if (!is_sound(files_, at, pieces, index.contents)) continue;
      staged_.push_back(path);
      done_.push_back(cat(path.filename().string(), " was copied from ", from.filename().string(),
                          ", whose slices are the same"));
      found = true;
      return false;
    }
    return true;
  });
  return found;
}

// A data file that is wrong for this index may be sound for another checkpoint. Returns the name of
// that one, or "".
std::string Repairer::whose_is(const OwnIndex& index, std::int32_t number, const io::Path& path) {
  const auto fits = [&](const std::string& bytes) {
    if (bytes == index.bytes) return false;
    auto loaded = look_into(files_, prefix_, bytes, Graph::skip);
    const OwnIndex other{bytes, parse_contents(loaded, prefix_)};
    if (other.contents.num_files != index.contents.num_files) return false;
    const auto all = extents_of(other.contents);
    const auto at = all.find(number);
    return at != all.end() &&
           is_sound(files_, path, at->second, other.contents, other.tail(at->second));
  };
  for (const auto& spare : find_spares({files_, prefix_})) {
    if (fits(spare.index)) return cat(spare.meta.name, "-", spare.meta.step);
  }
  if (index.replaces && fits(io::read_file(files_, index_path(), index_limit_bytes))) {
    return "the index that stands there";
  }
  std::string found;  // if the file is not just a copy of one that it has
  visit_others([&](const CheckpointContents& other) {
    for (const auto& [its, pieces] : extents_of(other)) {
      if (has_metadata(pieces) || !is_sound(files_, path, pieces, other)) continue;
      const auto there = data_path(other, its);
      if (!is_sound(files_, there, pieces, other)) found = there.filename().string();
    }
    return found.empty();
  });
  return found;
}

// Prepares new metadata, if all tensors are whole and the metadata are lost.
bool Repairer::plan_metadata(const OwnIndex& index, std::int32_t number,
                             const std::vector<FileExtent>& pieces) {
  const auto path = data_path(index.contents, number);
  const auto name = path.filename().string();
  const auto refuse = [&](const std::string& why) {
    leave(cat("no new metadata: ", why));
    return false;
  };
  if (begins_with(files_, path, pieces)) {
    return refuse(cat(name, " is whole, but this version of Cairn cannot read it"));
  }
  if (const auto other = whose_is(index, number, path); !other.empty()) {
    return refuse(cat(name, " holds what belongs to ", other, ": move it there"));
  }
  if (pieces.size() > 1) return refuse(cat(name, " had tensors, too"));
  std::string same;
  visit_others([&](const CheckpointContents& other) {
    const auto bytes =
        io::try_read_file(files_, commit::index_path(other.prefix), index_limit_bytes);
    if (bytes == index.bytes) same = io::Path(other.prefix).filename().string();
    return same.empty();
  });
  if (!same.empty()) return refuse(cat("its index is that of ", same));
  auto made = new_metadata(files_, prefix_, index.contents, number,
                           index.save_id.empty() ? "" : uuid_of(index.save_id));
  if (const auto* why = std::get_if<std::string>(&made)) return refuse(*why);
  const auto& now = std::get<NewMetadata>(made);
  identity_ = now.meta.uuid;
  // The index gets its name first: the old index together with the new metadata would look like
  // another checkpoint's.
  stage(index_path(), now.index, cat(commit::index_name(name_), " was written anew"));
  stage(path, now.file,
        cat("new metadata were written: step ", now.meta.step, ", commit ", now.meta.sequence,
            "; what else the lost ones told (metric, descriptions, savers) is gone"));
  return true;
}

// Returns whether this index has a copy elsewhere. An index without a copy is set aside and kept:
// it may be all that is left of another checkpoint.
bool Repairer::has_copy(const std::string& index) {
  const auto split = commit::split_step(name_);
  const auto naming = split ? commit::Naming(split->name) : alone();
  for (const auto& entry : files_.list(directory())) try {
      const auto main = commit::split_main_file(entry);
      const bool is_index = main && main->kind == EntryKind::index && main->prefix != name_;
      if (!is_index && commit::parse_name(entry, naming).kind != EntryKind::data) continue;
      const auto file = files_.open_read(directory() / entry);
      const auto size = static_cast<std::int64_t>(index.size());
      if (file->size() < size || (is_index && file->size() != size)) continue;
      std::string end(index.size(), '\0');
      file->read_at(file->size() - size, std::as_writable_bytes(std::span(end)));
      if (end == index) return true;
    } catch (const Error& error) {
      if (error.code() != Code::data_loss && error.code() != Code::not_found) throw;
    }
  return false;
}

void Repairer::save_replaced_index() {
  const auto index = io::read_file(files_, index_path(), index_limit_bytes);
  if (has_copy(index)) return;
  auto aside = directory() / commit::replaced_index_name(name_);
  const bool is_taken = io::exists(files_, aside);
  if (!is_taken || io::try_read_file(files_, aside, index_limit_bytes) != index) {
    if (is_taken) aside += cat('-', commit::new_uuid());
    io::copy(files_, index_path(), aside);
    files_.sync_directory(directory());
    set_aside_ = aside;
  }
  done_.push_back(cat("the index that stood there, of which there is no other copy, is ",
                      aside.filename().string()));
}

// A pin names one save. If it names the save that is here, it is renewed for what replaces that.
void Repairer::keep_pin() {
  const auto place = location_of({files_, directory()}, alone());
  auto catalog = scan_catalog(place);
  if (identity_.empty() || catalog.empty() || catalog.front().pin == Pin::none) return;
  auto& entry = catalog.front();
  entry.ours = true;
  entry.save.identity = identity_;
  const auto lock = PinLock::take({files_, directory()}, pin_wait_seconds);
  add_pin(place, entry);
}

void Repairer::carry_out(const OwnIndex& index) {
  if (index.replaces) save_replaced_index();
  keep_pin();
  try {
    for (const auto& path : staged_) replacer_.put_in_place(path);
    report_.after = verify_format(index.contents.format, {files_, prefix_});
  } catch (...) {
    replacer_.put_back();
    throw;
  }
}

// Removes the mark of damage, so that restarts try the step again, and updates the state file,
// since the step may be the newest one now.
void Repairer::refresh() {
  const auto marks = directory() / commit::private_directory_name;
  const auto mark = marks / commit::damaged_directory_name / name_;
  if (report_.after.verdict() == Verdict::whole && io::exists(files_, mark)) {
    files_.remove(mark);
    files_.sync_directory(mark.parent_path());
  }
  const auto split = commit::split_step(name_);
  const auto state = commit::read_state_file(files_, directory());
  if (!split || !state) return;
  const bool listed =
      std::any_of(state->all_paths.begin(), state->all_paths.end(),
                  [&](const auto& path) { return io::Path(path).filename() == name_; });
  if (!listed) return;
  const auto place = location_of({files_, directory()}, split->name);
  update_state_file(place, scan_catalog(place), &owned_.ownership());
}

void Repairer::mend(const OwnIndex& index) {
  const bool whole = plan(index);
  // If there is no readable index, one is put back even if not everything is whole.
  const bool index_alone = !whole && !index.stands && !index.replaces;
  if (index_alone) staged_.resize(1), done_.resize(1);
  if (staged_.empty() || !(whole || index_alone)) return;
  carry_out(index);
  if (index_alone || report_.after.verdict() == Verdict::whole) {
    report_.done = std::move(done_);
    return;
  }
  replacer_.put_back();
  if (set_aside_) io::try_remove(files_, *set_aside_);
  leave("it would not be whole by what there is: all is as it was");
}

Repair Repairer::run() {
  if (may_begin()) {
    const auto found = find_own_index({files_, prefix_});
    if (const auto* index = std::get_if<OwnIndex>(&found)) {
      mend(*index);
    } else {
      leave(std::get<std::string>(found));
    }
  }
  replacer_.end();
  const bool mended = !report_.done.empty();
  if (!mended || files_.status(commit::hdf5_path(prefix_))) {
    report_.after = verify_checkpoint({files_, prefix_});
  }
  if (mended) refresh();
  return std::move(report_);
}

}  // namespace

Repair repair_checkpoint(const Address& prefix, const commit::OwnedName& owned) {
  return Repairer(prefix, owned).run();
}

bool may_be_repaired(const Address& prefix) {
  try {
    return !open_checkpoint(prefix)->own.empty();
  } catch (const Error& error) {
    if (error.code() != Code::data_loss) throw;
  }
  return !find_spares(prefix).empty() || was_own_hdf5(*prefix.files(), prefix.path());
}

}  // namespace cairn
