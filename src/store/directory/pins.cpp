#include "store/directory/pins.hpp"

#include <chrono>
#include <set>
#include <thread>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"
#include "store/commit/state_file.hpp"

namespace cairn {
namespace {

constexpr std::int64_t pin_limit_bytes = 4096;

io::Path private_directory(const io::Path& directory) {
  return directory / commit::private_directory_name;
}

io::Path pin_path(const io::Path& directory, const commit::Naming& name, std::int64_t step) {
  return private_directory(directory) / commit::pinned_directory_name /
         commit::prefix_name(name, step);
}

// The checksum covers the prefix, too: a pin that was copied to another step is damaged there.
std::string pin_text(const std::string& prefix, const std::string& identity) {
  return cat(identity, '\n', hex(crc32c(cat(prefix, '\n', identity))), '\n');
}

// The save that a pin means; nothing if these are not the bytes of a pin of this prefix.
std::optional<std::string> read_pin(io::FileSystem& files, const io::Path& path) {
  const auto text = io::try_read_file(files, path, pin_limit_bytes);
  if (!text) return std::nullopt;
  auto identity = text->substr(0, text->find('\n'));
  if (*text != pin_text(path.filename().string(), identity)) return std::nullopt;
  return identity;
}

// Without an inode. A second name takes none, and of this file nothing is ever written.
void link_lock_file(io::FileSystem& files, const io::Path& path) {
  for (const auto& name : files.list(path.parent_path())) {
    if (commit::parse_private_name(name).kind != commit::ParsedName::Kind::sequences) continue;
    if (files.try_link(path.parent_path() / name, path)) return;
  }
}

// What cannot be taken again, for whatever reason, is opened anew.
io::Lock::Again try_idle(const std::unique_ptr<io::Lock>& idle) {
  try {
    return idle ? idle->try_again() : io::Lock::Again::gone;
  } catch (const Error&) {
    return io::Lock::Again::gone;
  }
}

}  // namespace

PinLock& PinLock::operator=(PinLock&& other) noexcept {
  std::swap(lock_, other.lock_);
  std::swap(file_, other.file_);
  return *this;
}

PinLock::~PinLock() {
  if (!lock_ || !file_ || !lock_->let_go()) return;
  const MutexLock guard(file_->mutex_);
  file_->idle_ = std::move(lock_);
}

// Tries the file that is still open from last time, then a new one; if that cannot be made, once
// more with what it lacks. `unsupported` gives a PinLock that holds no lock.
std::optional<PinLock> PinLock::try_take(io::FileSystem& files, const io::Path& directory,
                                         File* file) {
  PinLock held(file);
  const auto path = private_directory(directory) / commit::pin_lock_name;
  try {
    if (file) {
      const MutexLock guard(file->mutex_);
      const auto again = try_idle(file->idle_);
      if (again == io::Lock::Again::busy) return std::nullopt;
      if (again == io::Lock::Again::held) {
        held.lock_ = std::move(file->idle_);
        return held;
      }
      file->idle_.reset();
    }
    commit::require_no_links(files, directory);
    try {
      held.lock_ = files.try_lock(path);
    } catch (const Error& error) {
      if (error.code() == Code::no_space) {
        link_lock_file(files, path);
      } else if (error.code() == Code::not_found) {
        io::create_directories(files, path.parent_path());
      } else {
        throw;
      }
      held.lock_ = files.try_lock(path);
    }
  } catch (const Error& error) {
    if (error.code() != Code::unsupported) throw;
    return held;
  }
  if (!held.lock_) return std::nullopt;
  return held;
}

PinLock PinLock::take(const Address& directory, double wait_seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(wait_seconds);
  for (;;) {
    if (auto held = try_take(*directory.files(), directory.path())) return std::move(*held);
    if (Clock::now() >= end) {
      throw Error(Code::busy, cat("the pins of ", directory.string(), " are in use"),
                  "another process pins or removes checkpoints", "Try again.")
          .at(directory.string());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Pin find_pin(const Location& at, const CatalogEntry& entry) {
  const auto path = pin_path(at.directory, at.naming, entry.step);
  if (!at.files->status(path)) return Pin::none;
  const auto identity = read_pin(*at.files, path);
  if (!identity) return Pin::damaged;
  // What cannot be read may be what is meant, and must not keep jobs from the directory; so may be
  // what is there in another format.
  const bool may_be = !entry.damage.empty() || entry.other || *identity == entry.save.identity;
  return may_be ? Pin::holds : Pin::none;
}

void require_unpinned(const Location& place, const CatalogEntry& there) {
  if (!is_pinned(place, there)) return;
  throw Error(Code::already_exists,
              cat("step ", there.step, " in ", place.directory.string(), " is pinned"),
              "a pinned checkpoint is not replaced", "Unpin it, or save another step.")
      .at(place.prefix(there.step).string());
}

bool is_pinned(const Location& at, const CatalogEntry& entry) {
  return find_pin(at, entry) != Pin::none;
}

bool is_pinned(const Address& prefix) {
  const auto alone = location_of(prefix.at(prefix.path().parent_path()), {prefix.name(), false});
  if (!alone.files->status(pin_path(alone.directory, alone.naming, 0))) return false;
  const auto entries = scan_catalog(alone);
  return !entries.empty() && entries.front().pin != Pin::none;
}

std::string pin_problem(const Address& prefix) {
  const auto pin = prefix.at(pin_path(prefix.path().parent_path(), {prefix.name(), false}, 0));
  if (!pin.exists() || read_pin(*pin.files(), pin.path())) return "";
  return "its pin is damaged, and counts: pin it again, or unpin it";
}

void refresh_pins(const Location& at, std::vector<CatalogEntry>& entries) {
  const auto pins = private_directory(at.directory) / commit::pinned_directory_name;
  std::set<std::string> there;
  try {
    for (auto& pin : at.files->list(pins)) there.insert(std::move(pin));
  } catch (const Error& error) {
    if (error.code() != Code::not_found) throw;  // nothing was ever pinned
  }
  for (auto& entry : entries) {
    entry.pin = there.count(commit::prefix_name(at.naming, entry.step)) != 0 ? find_pin(at, entry)
                                                                             : Pin::none;
  }
}

void add_pin(const Location& at, const CatalogEntry& entry) {
  auto& files = *at.files;
  const auto name = commit::prefix_name(at.naming, entry.step);
  if (!entry.ours && entry.damage.empty()) {
    throw Error(Code::invalid_argument, cat(name, " need not be pinned"),
                "Cairn did not save it and never removes it")
        .at((at.directory / name).string());
  }
  const auto path = pin_path(at.directory, at.naming, entry.step);
  io::create_directories(files, path.parent_path());
  const auto there = files.status(path);
  if (there && read_pin(files, path) == entry.save.identity) {
    // Not written anew, which may lose it where there are no renames. Whoever made it may have died
    // before it was durable.
    files.open_read(path)->sync();
    files.sync_directory(path.parent_path());
    return;
  }
  commit::replace_file(files, at.directory, path,
                       pin_text(path.filename().string(), entry.save.identity), true);
}

bool remove_pin(const Location& at, std::int64_t step) {
  const auto path = pin_path(at.directory, at.naming, step);
  if (!at.files->status(path)) return false;
  at.files->remove(path);
  at.files->sync_directory(path.parent_path());
  return true;
}

}  // namespace cairn
