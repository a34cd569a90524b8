#include "store/commit/recycled.hpp"

#include <limits>
#include <optional>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"

namespace cairn::commit {
namespace {

// Making a new file of less than this is as fast as overwriting one.
constexpr std::int64_t recycled_from_bytes = 4096;

io::Path folder(const io::Path& directory) {
  return directory / private_directory_name / recycled_directory_name;
}

struct Found {
  io::Path path;
  std::int64_t number;
};

// Lists the folder, in which files of other names may wait, too.
std::vector<Found> waiting(io::FileSystem& fs, const io::Path& directory, const Naming& naming) {
  std::vector<Found> all;
  if (!fs.status(folder(directory))) return all;
  for (const auto& entry : fs.list(folder(directory))) {
    const auto parsed = parse_recycled_name(entry);
    if (parsed && parsed->naming.name == naming.name &&
        parsed->naming.numbered == naming.numbered) {
      all.push_back({folder(directory) / entry, parsed->number});
    }
  }
  return all;
}

// Where the file of this number waits for the save, if one does.
std::optional<io::Path> waiting_path(const Transaction& save, int number) {
  const auto& takes = save.files.takes;
  if (takes && number >= takes->num_files) return std::nullopt;
  return takes ? save.directory /
                     data_name(prefix_name(save.name, takes->step), number, takes->num_files)
               : folder(save.directory) / recycled_name(save.name, number);
}

// Renames the waiting file of this number to the save's part. False if there is none.
bool move_waiting(io::FileSystem& fs, const Transaction& save, int number) {
  const auto source = waiting_path(save, number);
  if (!source) return false;
  const auto part = save.part(number);
  try {
    fs.rename(*source, part);
  } catch (const Error& error) {
    // A server may carry out a rename and still report an error.
    if (error.code() == Code::not_found || !io::exists(fs, part)) return false;
  }
  return true;
}

// Opens the waiting file of this number under the name of the save's part, cut off at most_bytes.
// Null if none waits, or if it cannot be opened or its bytes have another name, even if only this
// node still knows that name (recycled.hpp): then only the name of the part is removed. `held`:
// what is known of the file; nothing if another has its name.
std::unique_ptr<io::File> try_take(io::FileSystem& fs, const Transaction& save, int number,
                                   std::int64_t most_bytes, std::optional<BlockHashes>& held) {
  if (!move_waiting(fs, save, number)) return nullptr;
  const auto part = save.part(number);
  try {
    auto file = fs.open_sole(part);
    if (file && !save.files.takes && io::exists(fs, save.data(number))) file.reset();
    if (file) {
      if (held && file->id() != held->id) held.reset();
      if (file->size() > most_bytes) file->resize(most_bytes);
      return file;
    }
  } catch (const Error& error) {
    log(LogLevel::info, cat("a data file cannot be recycled: ", error.what()));
  }
  fs.remove(part);
  return nullptr;
}

// A new file that shares the space of the newest checkpoint's file of this number. Null if it
// cannot be made.
std::unique_ptr<io::File> try_clone(io::FileSystem& fs, const Transaction& save, int number,
                                    std::int64_t most_bytes, KnownBlocks& known,
                                    std::optional<BlockHashes>& held) {
  const auto choice = save.files.skip_unchanged;
  const auto part = save.part(number);
  // The temp directory is in the directory of the checkpoints.
  if (choice == SkipUnchanged::automatic && fs.shares_space(save.directory)) {
    known.may_share_space();
  }
  if (known.one_in(choice, most_bytes) != 1) return nullptr;
  const auto original = known.newest(number, save.files.most_names);
  if (!original) return nullptr;
  auto file = fs.create_clone(original->file.path, part);
  known.cloned(file != nullptr);
  if (!file) return nullptr;
  // Looked at afterwards: until then it had not changed.
  if (!KnownBlocks::is_unchanged(fs, original->file)) {
    file->close();
    fs.remove(part);
    return nullptr;
  }
  if (file->size() > most_bytes) file->resize(most_bytes);
  held = original->hashes;
  return file;
}

}  // namespace

void prepare_recycling(io::FileSystem& fs, const io::Path& directory) {
  // The folder may be there but not durable, if the process that made it died.
  if (!io::exists(fs, folder(directory))) fs.create_directory(folder(directory));
  fs.sync_directory(directory / private_directory_name);
}

void recycle(io::FileSystem& fs, const io::Path& directory, const Naming& naming,
             std::int64_t number, const io::Path& data, Waiting& waits) {
  const auto slot = folder(directory) / recycled_name(naming, number);
  try {
    const auto status = fs.status(data);
    const auto there = fs.status(slot);
    const bool still_known = status && there && there->id.inode == status->id.inode;
    if (status && status->size >= recycled_from_bytes && fs.has_one_name(data) && !still_known) {
      // This may replace a file that is still waiting because its save made a new one instead.
      fs.rename(data, slot);
      return waits.put(number, status->size);
    }
  } catch (const Error& error) {
    waits.forget();  // the rename may have been carried out all the same
    log(LogLevel::info, cat("a data file is removed, not recycled: ", error.what()));
  }
  io::try_remove(fs, data);
}

std::int64_t trim_recycled(io::FileSystem& fs, const io::Path& directory, const Naming& naming,
                           std::int64_t data_files, Waiting& waits) {
  auto known = waits.files();
  if (!known) {
    known.emplace();
    for (const auto& [path, number] : waiting(fs, directory, naming)) {
      const auto status = fs.status(path);
      if (status) known->emplace(number, status->size);
    }
  }
  // If anything below throws, the next call lists the folder.
  waits.forget();
  std::int64_t bytes = 0;
  for (auto one = known->begin(); one != known->end();) {
    if (one->first < data_files) {
      bytes += one->second;
      ++one;
    } else {
      io::try_remove(fs, folder(directory) / recycled_name(naming, one->first));
      one = known->erase(one);
    }
  }
  if (!known->empty()) {
    fs.sync_directory(directory);  // makes the removal of their former names durable
    fs.sync_directory(folder(directory));
  }
  waits.set(*std::move(known));
  return bytes;
}

void Waiting::forget() {
  const MutexLock guard(mutex_);
  files_.reset();
}

void Waiting::put(std::int64_t number, std::int64_t bytes) {
  const MutexLock guard(mutex_);
  if (files_) (*files_)[number] = bytes;
}

std::optional<Waiting::Files> Waiting::files() const {
  const MutexLock guard(mutex_);
  return files_;
}

void Waiting::set(Files files) {
  const MutexLock guard(mutex_);
  files_ = std::move(files);
}

std::vector<io::Path> list_recycled(io::FileSystem& fs, const io::Path& directory,
                                    const Naming& naming) {
  std::vector<io::Path> all;
  for (const auto& one : waiting(fs, directory, naming)) {
    all.push_back(one.path.lexically_relative(directory));
  }
  return all;
}

void clear_recycled(io::FileSystem& fs, const io::Path& directory, const Naming& naming) noexcept {
  try {
    for (const auto& one : waiting(fs, directory, naming)) fs.remove(one.path);
  } catch (...) {  // the next owner removes them
  }
}

bool write_over(io::FileSystem& fs, const Transaction& save, int number, const io::Content& bytes) {
  if (!save.files.takes) return false;
  std::optional<BlockHashes> none;
  const auto file = try_take(fs, save, number, std::numeric_limits<std::int64_t>::max(), none);
  if (!file) return false;
  const auto size = bytes.write_to(*file);
  if (file->size() > size) file->resize(size);
  file->sync();
  file->close();
  return true;
}

// Nothing is changed before its hashes are forgotten. The rename is such a change: it hides others.
PartFile make_part(io::FileSystem& fs, const Transaction& save, int number, std::int64_t most_bytes,
                   KnownBlocks* known) {
  PartFile part;
  if (save.files.recycle) {
    const auto from = waiting_path(save, number);
    if (known && from) part.held = known->take(fs, *from);
    part.file = try_take(fs, save, number, most_bytes, part.held);
  }
  part.recycled = part.file != nullptr;
  if (!part.file) part.held.reset();
  if (!part.file && known) {
    part.file = try_clone(fs, save, number, most_bytes, *known, part.held);
    part.cloned = part.file != nullptr;
  }
  if (!part.file) part.file = fs.create(save.part(number));
  if (known && part.recycled) known->writes_over();
  if (known && !part.held && save.files.skip_unchanged == SkipUnchanged::automatic) {
    part.before = known->sample_before(number);
  }
  part.known = known;
  part.skip_unchanged = save.files.skip_unchanged;
  part.read_every = save.files.read_every;
  part.path = save.part(number);
  part.file->stream(save.files.direct_io);
  if (most_bytes < std::numeric_limits<std::int64_t>::max()) part.file->expect(most_bytes);
  return part;
}

bool share_part(io::FileSystem& fs, const Transaction& save, int number, const io::Path& data) {
  const auto part = save.part(number);
  if (save.files.recycle && move_waiting(fs, save, number)) fs.remove(part);
  if (io::exists(fs, save.data(number))) return false;  // the file may have had this name
  return fs.try_link(data, part);
}

}  // namespace cairn::commit
