#include "store/commit/staging_directory.hpp"

#include <unistd.h>

#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "store/commit/removal.hpp"

namespace cairn::commit {
namespace {

using Kind = ParsedName::Kind;

constexpr std::int64_t most_index_bytes = std::int64_t{4} << 30;

// Whether the index that was set aside is the file that was meant.
bool is_file(io::FileSystem& files, const RetiredIndex& retired, const io::FileId& meant) {
  if (retired.file) {
    if (const auto id = retired.file->id()) return *id == meant;
  }
  const auto status = files.status(retired.path);
  return status && status->id == meant;
}

std::vector<std::string> retired_in(io::FileSystem& files, const io::Path& staging) {
  auto entries = files.list(staging);
  std::erase_if(entries, [](const auto& entry) {
    return parse_temp_name(entry).kind != Kind::retired_index;
  });
  return entries;
}

}  // namespace

Staging::Staging(std::shared_ptr<io::FileSystem> files, io::Path directory, Naming name,
                 const Ownership& owner)
    : files_(std::move(files)),
      directory_(std::move(directory)),
      name_(std::move(name)),
      owner_(owner),
      process_(::getpid()) {}

Staging::~Staging() {
  // In a forked child, the copy does nothing.
  if (::getpid() == process_) end();
}

io::Path Staging::path() const { return directory_ / staging_directory_name(name_, uuid_); }

const std::string& Staging::make(const DataFiles& data) {
  if (!is_made()) make_directory();
  if (data.stripes != stripes_) spread(*files_, path(), data);
  stripes_ = data.stripes;
  return uuid_;
}

void Staging::make_directory() {
  uuid_ = new_uuid();
  try {
    // It becomes durable with the first save.
    files_->create_directory(path());
    opened_ = files_->open_directory(path());
    // A successor that comes after this check sees the directory, and renames it.
    owner_.check();
  } catch (...) {
    const auto made = path();
    forget();
    discard_empty(*files_, made);
    throw;
  }
  stripes_ = 0;
  durable_ = false;
}

void Staging::make_durable() {
  if (durable_) return;
  files_->sync_directory(directory_);
  durable_ = true;
}

// By the rule of removal.hpp: looks at the index, renames it, looks again, and gives it back if it
// is another one. It needs no check of the ownership, since the rename fails after a successor has
// come.
bool Staging::retire_index(std::int64_t step, const std::optional<io::FileId>& meant) {
  const auto entry = index_name(prefix_name(name_, step));
  const auto index = directory_ / entry, aside = path() / retired_name(step);
  const auto there = look_at(*files_, directory_, entry);
  if (!there) return true;
  if (meant && there->id != meant) return false;
  auto retired = std::make_shared<RetiredIndex>();
  retired->step = step;
  retired->path = aside;
  try {
    files_->rename(index, aside);
    retired->file = files_->open_sole(aside);
    if (!is_file(*files_, *retired, *there->id)) {
      give_back_retired(aside, index);
      return false;
    }
    opened_->sync();
  } catch (const Error& error) {
    // Perhaps a successor has renamed the staging directory: then this throws busy.
    if (error.code() == Code::not_found) owner_.check();
    give_back_retired(aside, index);
    throw;
  } catch (...) {
    give_back_retired(aside, index);
    throw;
  }
  // open_sole returns nothing for a file with several names: such a file must not be overwritten.
  retired_ = retired->file ? std::move(retired) : nullptr;
  return true;
}

std::shared_ptr<RetiredIndex> Staging::take_retired(std::int64_t step) {
  if (retired_ && retired_->step >= step) forget_retired();
  return std::exchange(retired_, nullptr);
}

void Staging::forget_retired() {
  const auto retired = std::exchange(retired_, nullptr);
  if (!retired) return;
  sync_state_file();
  retired->file.reset();
  io::try_remove(*files_, retired->path);
}

void Staging::give_back_retired(const io::Path& aside, const io::Path& index) const noexcept {
  try {
    files_->rename_new(aside, index);
    files_->sync_directory(directory_);
  } catch (const std::exception& error) {
    try {
      log(LogLevel::warning, cat(index.string(), " may be set aside: ", error.what()));
    } catch (...) {  // only a log message is lost
    }
  } catch (...) {  // a file system that throws other types: the same as if the process had died
  }
}

void Staging::sync_state_file() {
  if (!pending_) return;
  opened_->sync();
  files_->sync_directory(directory_);
  pending_ = false;
}

void Staging::leave() noexcept {
  retired_.reset();
  try {
    sync_state_file();
  } catch (...) {  // the index in the directory tells the same as the state file would
  }
  pending_ = false;
  forget();
}

void Staging::forget() noexcept {
  uuid_.clear();
  opened_.reset();
  durable_ = false;
}

void Staging::end() noexcept {
  if (!is_made()) return;
  try {
    owner_.check();
  } catch (...) {
    return leave();
  }
  try {
    retired_.reset();
    sync_state_file();
    const auto directory = path();
    forget();
    for (const auto& entry : files_->list(directory)) {
      if (parse_temp_name(entry).kind != Kind::foreign) io::try_remove(*files_, directory / entry);
    }
    files_->remove_directory(directory);
  } catch (const Error& error) {
    forget();
    if (error.code() == Code::not_found) return;  // the directory has another owner
    try {
      log(LogLevel::info, cat("the next owner has to remove what is left: ", error.what()));
    } catch (...) {  // only a log message is lost
    }
  } catch (...) {  // the same as if the process had died
    forget();
  }
}

std::optional<io::FileId> overwrite(const RetiredIndex& retired, const io::Content& content) {
  const auto size = content.write_to(*retired.file);
  if (retired.file->size() != size) retired.file->resize(size);
  retired.file->sync();
  auto id = retired.file->id();
  retired.file->close();
  return id;
}

void take_staging(io::FileSystem& files, const io::Path& directory, const Naming& name,
                  const Ownership& owner,
                  const std::function<bool(const std::string& bytes)>& is_foreign) {
  bool any = false;
  for (const auto& entry : files.list(directory)) {
    const auto parsed = parse_name(entry, name);
    if (!is_staging(parsed)) continue;
    Transaction whole{directory, name, parsed.step, parsed.uuid};
    whole.keeper = parsed.keeper;
    // Without renames there is no former owner that a rename could stop. The check comes after the
    // listing: what was listed while the directory was ours does not belong to a later owner.
    if (owner.atomic_rename()) {
      owner.check();
      keep(files, whole, owner);
    }
    any = true;
    bool any_retired = false;
    try {
      for (const auto& retired : retired_in(files, whole.temp())) {
        any_retired = true;
        // An owner may have set aside another program's index, and have died before it saw that.
        const auto path = whole.temp() / retired;
        if (!is_foreign(io::read_file(files, path, most_index_bytes))) continue;
        const auto step = parse_temp_name(retired).step;
        files.rename_new(path, directory / index_name(prefix_name(name, step)));
      }
    } catch (const Error& error) {
      log(LogLevel::warning, cat("what ", entry, " holds stays: ", error.what()));
      // Its entries are unknown. If it is a directory, it may hold a retired index.
      const auto there = files.status(whole.temp());
      any_retired = there && there->is_directory;
    }
    // The owner may have died before the rename of the retired index was durable. Recovery will
    // remove that index's data, so the rename must be durable first.
    if (any_retired) files.sync_directory(whole.temp());
  }
  if (any) files.sync_directory(directory);
}

namespace {

// The staging directories that hold the index of this checkpoint.
std::vector<io::Path> holders_of(io::FileSystem& files, const io::Path& directory,
                                 const std::vector<std::string>& listing, const Naming& name,
                                 std::int64_t step) {
  std::vector<io::Path> found;
  for (const auto& entry : listing) {
    if (!is_staging(parse_name(entry, name))) continue;
    try {
      auto holder = directory / entry;
      if (io::exists(files, holder / retired_name(step))) found.push_back(std::move(holder));
    } catch (const Error& error) {
      // Its owner has removed it meanwhile.
      if (error.code() != Code::not_found) throw;
    }
  }
  return found;
}

}  // namespace

bool was_retired(io::FileSystem& files, const io::Path& directory,
                 const std::vector<std::string>& listing, const Naming& name, std::int64_t step) {
  return !holders_of(files, directory, listing, name, step).empty();
}

void make_retired_durable(io::FileSystem& files, const io::Path& directory,
                          const std::vector<std::string>& listing, const Naming& name,
                          std::int64_t step) {
  for (const auto& holder : holders_of(files, directory, listing, name, step)) {
    files.sync_directory(holder);
  }
}

}  // namespace cairn::commit
