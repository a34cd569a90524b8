#include "tools/repair.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "commit/state_file.hpp"
#include "contents/contents_reader.hpp"
#include "contents/format.hpp"
#include "contents/hdf5_reader.hpp"
#include "contents/lost.hpp"
#include "contents/spare.hpp"
#include "directory/catalog.hpp"
#include "format/bundle/meta.hpp"
#include "format/bundle/strings.hpp"
#include "tools/no_more_open.hpp"

namespace cairn {
namespace {

using EntryKind = commit::ParsedName::Kind;
constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;

// A slice in a data file, with all that must be the same for another file to serve in its place.
struct Piece {
  std::int64_t offset = 0, size = 0;
  std::uint32_t crc32c = 0;
  DType dtype{};
  std::int64_t count = 0;  // of strings
  std::string key;
  Dims shape;
  Box box;
  bool operator==(const Piece& other) const {
    return std::tie(offset, size, crc32c, dtype, key, shape, box.start, box.extent) ==
           std::tie(other.offset, other.size, other.crc32c, other.dtype, other.key, other.shape,
                    other.box.start, other.box.extent);
  }
};
using Pieces = std::map<std::int32_t, std::vector<Piece>>;  // by data file, ascending

Pieces pieces_of(const CheckpointContents& contents) {
  Pieces all;
  for (const auto* tensors : {&contents.tensors, &contents.own}) {
    for (const auto& tensor : *tensors) {
      for (const auto& slice : tensor.slices) {
        all[slice.file].push_back({slice.offset, slice.size, slice.crc32c, tensor.dtype,
                                   slice.box.count(), tensor.key, tensor.shape, slice.box});
      }
    }
  }
  for (auto& [file, pieces] : all) {
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
      return std::tie(a.offset, a.size, a.key) < std::tie(b.offset, b.size, b.key);
    });
  }
  return all;
}

template <class Use>
void read(const io::File& file, std::int64_t begin, std::int64_t end, Use use) {
  std::string bytes;
  for (auto at = begin; at < end; at += piece_bytes) {
    bytes.resize(static_cast<std::size_t>(std::min(piece_bytes, end - at)));
    file.read_at(at, std::as_writable_bytes(std::span(bytes)));
    use(std::string_view(bytes));
  }
}

bool holds(const io::File& file, const Piece& piece, bool big_endian) {
  if (piece.dtype == DType::variant) return false;  // nobody can tell
  if (piece.size > file.size()) return false;
  if (piece.dtype == DType::string) {
    std::string bytes(static_cast<std::size_t>(piece.size), '\0');
    if (!bytes.empty()) file.read_at(piece.offset, std::as_writable_bytes(std::span(bytes)));
    bundle::decode_strings(bytes, piece.count, piece.crc32c, big_endian);
    return true;
  }
  std::uint32_t crc = 0;
  read(file, piece.offset, piece.offset + piece.size,
       [&](std::string_view bytes) { crc = crc32c(bytes, crc); });
  return crc == piece.crc32c;
}

// Whether the file holds these slices, zeros between them, and nothing behind them but the tail.
bool is_sound(io::FileSystem& files, const io::Path& path, const std::vector<Piece>& pieces,
              bool big_endian, std::string_view tail = {}) try {
  const auto file = files.open_read(path);
  std::int64_t at = 0;
  const auto is_zero = [&](std::int64_t end) {
    bool zero = true;
    read(*file, at, end, [&](std::string_view bytes) {
      zero = zero && bytes.find_first_not_of('\0') == bytes.npos;
    });
    return zero;
  };
  for (const auto& piece : pieces) {
    if (!is_zero(piece.offset) || !holds(*file, piece, big_endian)) return false;
    at = std::max(at, piece.offset + piece.size);
  }
  if (file->size() != at + static_cast<std::int64_t>(tail.size())) return false;
  bool same = true;
  read(*file, at, file->size(), [&](std::string_view bytes) {
    same = same && tail.starts_with(bytes);
    tail.remove_prefix(std::min(tail.size(), bytes.size()));
  });
  return same;
} catch (const Error& error) {
  if (error.code() != Code::data_loss && error.code() != Code::not_found) throw;
  return false;
}

class Repairer {
 public:
  Repairer(io::FileSystem& files, const io::Path& prefix, const commit::OwnedName& owned)
      : files_(files), prefix_(prefix), name_(prefix.filename().string()), owned_(owned) {}

  Repair run();

 private:
  io::Path directory() const { return prefix_.parent_path(); }
  io::Path staged(const io::Path& file) const {
    return directory() / commit::private_directory_name / commit::repair_directory_name /
           file.filename();
  }
  bool may_begin();
  bool repair_index();
  std::optional<std::string> spare_of_damaged_index();
  void repair_files();
  bool repair_meta_file(const io::Path& path, const std::vector<Piece>&);
  bool repair_from_others(const io::Path& path, const std::vector<Piece>&);
  void stage(const io::Path& path, const std::function<void(io::File&)>& write);
  unsigned access() const;
  void put_in_place(const io::Path& path);
  void refresh();

  io::FileSystem& files_;
  io::Path prefix_;
  std::string name_;
  const commit::OwnedName& owned_;
  Repair report_;
  IndexFile loaded_;
  CheckpointContents contents_;
};

void Repairer::stage(const io::Path& path, const std::function<void(io::File&)>& write) {
  const auto at = staged(path);
  if (!io::exists(files_, at.parent_path())) io::create_directories(files_, at.parent_path());
  io::remove_if_there(files_, at);
  const auto file = files_.create(at);
  files_.limit_access(at, access());
  write(*file);
  file->sync();
  file->close();
  files_.sync_directory(at.parent_path());
}

// All files of the checkpoint that are there.
unsigned Repairer::access() const {
  std::vector<io::Path> paths;
  for (const auto& entry : files_.list(directory())) {
    const auto kind = commit::parse_name(entry, {name_, false}).kind;
    if (commit::is_main(kind) || kind == EntryKind::data) paths.push_back(directory() / entry);
  }
  return access_of(files_, paths);
}

// What was staged gets its name.
void Repairer::put_in_place(const io::Path& path) {
  owned_.check();
  if (owned_.atomic_rename()) {
    files_.rename(staged(path), path);
  } else {
    io::remove_if_there(files_, path);
    io::link_or_copy(files_, staged(path), path);
    files_.sync_directory(directory());
    files_.remove(staged(path));
  }
  files_.sync_directory(directory());
}

// What a save has left undone says more of the files here than a repair could.
bool Repairer::may_begin() {
  for (const auto& entry : files_.list(directory())) {
    if (commit::parse_name(entry, {name_, false}).kind != EntryKind::temp_directory) continue;
    report_.left.push_back(
        cat("a save of it did not finish (", entry, "): cairn gc, or the next job, settles that"));
    return false;
  }
  return true;
}

// The copy of an index that is there, if nothing here may be of another save.
std::optional<std::string> Repairer::spare_of_damaged_index() {
  const commit::Naming name(name_, false);
  std::set<std::int64_t> counts;
  for (const auto& entry : files_.list(directory())) {
    const auto parsed = commit::parse_name(entry, name);
    if (parsed.kind == EntryKind::data) counts.insert(parsed.count);
  }
  auto spares = find_spares(files_, directory(), name, 0);
  const auto split = commit::split_step(name_);
  std::erase_if(spares, [&](const auto& spare) {
    return split && spare.meta.step != 0 && spare.meta.step != split->step;
  });
  if (spares.size() == 1 && counts.size() == 1 && !files_.status(commit::hdf5_path(prefix_))) {
    return std::move(spares.front().index);
  }
  report_.left.push_back(cat(commit::index_name(name_), " is damaged, and ",
                             spares.empty() ? "no data file holds a sound copy of it"
                                            : "what is there is of several saves"));
  return std::nullopt;
}

// Whether the index is whole now.
bool Repairer::repair_index() {
  try {
    loaded_ = load_index(files_, prefix_);
    return true;
  } catch (const Error& error) {
    if (error.code() != Code::data_loss) throw;
  }
  const auto index = directory() / commit::index_name(name_);
  std::optional<std::string> bytes;
  const auto lost = find_lost_at(files_, prefix_);
  if (lost) {
    if (lost->spare.empty()) report_.left.push_back(lost->why);
    if (!lost->spare.empty()) bytes = lost->spare;
  } else if (files_.status(index)) {
    bytes = spare_of_damaged_index();
  } else {
    report_.left.push_back("an HDF5 file has no copy of anything: nothing of it can be put back");
  }
  if (!bytes) return false;
  stage(index, [&](io::File& file) { file.write_at(0, std::as_bytes(std::span(*bytes))); });
  put_in_place(index);
  report_.done.push_back(cat(index.filename().string(), " was put back from its spare copy"));
  loaded_ = load_index(files_, prefix_);
  return true;
}

// Only the copy of the index in it can be made again.
bool Repairer::repair_meta_file(const io::Path& path, const std::vector<Piece>& pieces) {
  const auto end = pieces.back().offset + pieces.back().size;
  try {
    const auto from = files_.open_read(path);
    if (from->size() < end) return false;  // and the disk is not filled with what is not there
    stage(path, [&](io::File& file) {
      std::int64_t at = 0;
      read(*from, 0, end, [&](std::string_view bytes) {
        file.write_at(at, std::as_bytes(std::span(bytes)));
        at += static_cast<std::int64_t>(bytes.size());
      });
      file.write_at(end, std::as_bytes(std::span(loaded_.bytes)));
    });
  } catch (const Error& error) {
    if (error.code() != Code::data_loss && error.code() != Code::not_found) throw;
    return false;
  }
  if (!is_sound(files_, staged(path), pieces, false, loaded_.bytes)) return false;
  put_in_place(path);
  report_.done.push_back(
      cat("the spare copy of the index in ", path.filename().string(), " was made again"));
  return true;
}

bool Repairer::repair_from_others(const io::Path& path, const std::vector<Piece>& pieces) {
  for (const auto& entry : files_.list(directory())) {
    const auto other = commit::split_main_file(directory() / entry);
    if (!other || other->prefix.filename() == name_) continue;
    const auto& format = format_of(other->kind);
    if (!format.has_data_files()) continue;
    std::optional<CheckpointContents> contents;
    try {
      contents = read_contents_as(format.id(), files_, other->prefix);
    } catch (const Error&) {
      continue;  // what cannot be read serves nobody
    }
    if (contents->big_endian != contents_.big_endian) continue;
    for (const auto& [number, its] : pieces_of(*contents)) {
      if (its != pieces) continue;
      const auto from = data_path(*contents, number);
      if (!is_sound(files_, from, pieces, contents_.big_endian)) continue;
      stage(path, [&](io::File& file) {
        const auto source = files_.open_read(from);
        std::int64_t at = 0;
        read(*source, 0, source->size(), [&](std::string_view bytes) {
          file.write_at(at, std::as_bytes(std::span(bytes)));
          at += static_cast<std::int64_t>(bytes.size());
        });
      });
      if (!is_sound(files_, staged(path), pieces, contents_.big_endian)) continue;
      put_in_place(path);
      report_.done.push_back(cat(path.filename().string(), " was copied from ",
                                 from.filename().string(), ", whose slices are the same"));
      return true;
    }
  }
  return false;
}

void Repairer::repair_files() {
  for (const auto& [number, pieces] : pieces_of(contents_)) {  // no save of ours leaves a file out
    const bool has_meta = std::any_of(pieces.begin(), pieces.end(),
                                      [](const auto& p) { return p.key == bundle::meta_key; });
    const auto path = data_path(contents_, number);
    const std::string_view tail = has_meta ? loaded_.bytes : std::string_view();
    if (is_sound(files_, path, pieces, contents_.big_endian, tail)) continue;
    if (has_meta ? repair_meta_file(path, pieces) : repair_from_others(path, pieces)) continue;
    report_.left.push_back(
        cat(path.filename().string(), has_meta ? " cannot be made again"
                                               : " is damaged or missing, and no other checkpoint "
                                                 "here has a file with the same slices"));
  }
}

// What was found damaged is to be tried again, and may be the newest now.
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
  update_state_file(files_, directory(), split->name,
                    scan_catalog(files_, directory(), split->name), &owned_.ownership());
}

Repair Repairer::run() {
  const auto folder = staged(name_).parent_path();
  if (may_begin() && repair_index()) {
    contents_ = parse_contents(loaded_, prefix_);
    if (format_of(contents_.format).has_data_files() && !contents_.own.empty()) repair_files();
  }
  if (io::exists(files_, folder)) {
    for (const auto& entry : files_.list(folder)) files_.remove(folder / entry);
    files_.remove_directory(folder);
  }
  report_.after = verify_checkpoint(files_, prefix_);
  if (!report_.done.empty()) refresh();
  return std::move(report_);
}

}  // namespace

Repair repair_checkpoint(io::FileSystem& files, const io::Path& prefix,
                         const commit::OwnedName& owned) {
  return Repairer(files, prefix, owned).run();
}

bool may_be_repaired(io::FileSystem& files, const io::Path& prefix) {
  try {
    return !read_contents(files, prefix).own.empty();
  } catch (const Error& error) {
    if (error.code() != Code::data_loss) throw;
  }
  const commit::Naming name(prefix.filename().string(), false);
  return !find_spares(files, prefix.parent_path(), name, 0).empty() || was_own_hdf5(files, prefix);
}

}  // namespace cairn
