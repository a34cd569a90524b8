#include "store/commit/ownership.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>
#include <tuple>

#include "base/host_name.hpp"
#include "base/no_thread.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "store/commit/names.hpp"
#include "store/commit/room.hpp"

namespace cairn::commit {
namespace {

using Seconds = std::chrono::duration<double>;

double now() { return Seconds(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string process_namespace() {
  std::error_code error;
  const auto target = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  return error ? "" : target.string();
}

OwnerRecord own_record() {
  OwnerRecord record;
  record.token = new_uuid();
  record.host = host_name();
  if (record.host.empty()) record.host = "unknown";
  record.kernel = boot_identity();
  record.pid = ::getpid();
  record.processes = process_namespace();
  // PMIX_NAMESPACE identifies processes that were started together where there is no batch system.
  for (const char* name : {"SLURM_JOB_ID", "PMIX_NAMESPACE"}) {
    const char* job = std::getenv(name);
    if (job && record.job.empty()) record.job = job;
  }
  record.start_seconds = now();
  return record;
}

// Whether the owner is on another machine, or was on this one before a reboot. Host names count
// only if nothing else is known: many hosts are called localhost.
bool is_elsewhere(const OwnerRecord& owner, const OwnerRecord& self) {
  if (owner.kernel.empty() || self.kernel.empty()) return owner.host != self.host;
  return owner.kernel != self.kernel;
}

// Whether the owner is known to be dead. False also if that cannot be known from here.
bool is_dead(const OwnerRecord& owner, const OwnerRecord& self) {
  if (is_elsewhere(owner, self) || owner.processes.empty() || owner.processes != self.processes ||
      owner.pid <= 0) {
    return false;
  }
  return ::kill(static_cast<pid_t>(owner.pid), 0) != 0 && errno == ESRCH;
}

io::Path no_rename_path(const io::Path& directory) {
  return directory / private_directory_name / no_rename_name;
}

}  // namespace

OwnershipOptions& default_ownership() {
  static OwnershipOptions options;
  return options;
}

bool says_no_rename(const Address& directory) {
  return directory.at(no_rename_path(directory.path())).exists();
}

struct Ownership::Impl {
  std::shared_ptr<io::FileSystem> files;
  io::Path directory, private_directory, temporary;
  OwnershipOptions options;
  OwnerRecord record;
  std::unique_ptr<io::Lock> lock;
  bool locks_work = true;
  bool taken = false;
  bool recorded = true;  // else there was no room for our record, and no other owner has one
  bool alone = true;
  bool may_be_dead = false;           // the owner on another host that the last attempt found
  std::optional<double> beat_before;  // when that owner's record had been renewed, as first seen
  std::chrono::steady_clock::time_point watched_since;  // when we first saw it
  std::atomic<bool> renames = true;
  std::jthread heart;

  // Writes the record under a name of our own, so that it is complete before it gets its real name.
  void prepare_record() {
    record.heartbeat_seconds = now();
    record.by_heartbeat = !locks_work;
    if (io::exists(*files, temporary)) files->remove(temporary);
    write_with_room(*files, directory, temporary, print_owner(record));
  }

  // Writes over the record of an owner whose lock proves that it is dead.
  bool write_over_record() {
    const auto owner = read_owner(*files, directory);
    if (!renames || !owner || !proves_it(*owner)) return false;
    alone = is_dead(*owner, record);
    return write_in(*files, private_directory / owner_name, temporary, print_owner(record));
  }

  // A tool that makes room may begin without a record, if no owner has one there. It may lose the
  // directory at any time: whoever comes with a record becomes the owner.
  bool may_do_without_record(const Error& error) const {
    if (!options.may_lack_record || error.code() != Code::no_space) return false;
    const auto owner = read_owner(*files, directory);
    if (!owner) return true;
    throw Error(error.code(), error.problem(), error.reason(),
                cat(error.way_out(),
                    " Where there is no room for an owner's record, nobody's may "
                    "be there, and one is, of ",
                    describe(*owner), "."))
        .at(error.path());
  }

  // Our prepared record may become a missing room file, for which it is renamed.
  void drop_temporary() {
    renames ? give_room(*files, directory, temporary) : files->remove(temporary);
  }

  void publish_record() {
    const auto owner = private_directory / owner_name;
    if (renames) {
      try {
        files->rename(temporary, owner);
      } catch (const Error& error) {
        if (error.code() != Code::unsupported) throw;
        log(LogLevel::info, cat("no renames in ", directory.string(), ": ", error.what()));
        forgo_renames();
      }
    }
    if (!renames) {
      if (io::exists(*files, owner)) files->remove(owner);
      // of several such processes, the first to create it wins
      io::write_file(*files, owner, print_owner(record));
      files->remove(temporary);
    }
    files->sync_directory(private_directory);
  }

  // A heartbeat; false if the record is no longer ours. It writes to the file that it has just
  // read, so it never changes a record by which another owner has replaced ours meanwhile. It
  // writes in place and changes only digits of the time, so that readers always see a record that
  // parses.
  bool renew_record() {
    const auto file = files->open_write(private_directory / owner_name);
    std::string there(static_cast<std::size_t>(std::min(file->size(), largest_owner_record_bytes)),
                      ' ');
    file->read_at(0, std::as_writable_bytes(std::span(there)));
    const auto owner = parse_owner(there);
    if (!owner || owner->token != record.token) return false;
    record.heartbeat_seconds = now();
    const auto text = print_owner(record);
    file->write_at(0, std::as_bytes(std::span(text)));
    if (!locks_work) file->sync();
    file->close();
    return true;
  }

  void forgo_renames() {
    renames = false;
    if (says_no_rename({files, directory})) return;
    io::write_file(*files, no_rename_path(directory), "");
    files->sync_directory(private_directory);
  }

  bool is_ours() const {
    const auto owner = read_owner(*files, directory);
    return owner && owner->token == record.token;
  }

  // Whether our kernel lock proves that this owner is dead. It does so only for an owner on this
  // host that itself had a lock.
  bool proves_it(const OwnerRecord& owner) const {
    return locks_work && !owner.by_heartbeat && !is_elsewhere(owner, record);
  }

  // Whether the owner's heart still beats, as far as can be told. Needs our prepared record.
  bool is_alive(const OwnerRecord& owner) {
    if (is_dead(owner, record)) return false;
    const auto its = files->status(private_directory / owner_name);
    const auto ours = files->status(temporary);
    if (!its || !ours) return true;  // somebody else is at work here: try again
    const bool by_lock = locks_work && !owner.by_heartbeat;
    if (ours->modified_seconds - its->modified_seconds >=
        (by_lock ? options.lock_stale_seconds : options.stale_seconds)) {
      return false;
    }
    const auto now = std::chrono::steady_clock::now();
    if (!beat_before) {
      beat_before = its->modified_seconds;
      watched_since = now;
    }
    may_be_dead = by_lock && *beat_before == its->modified_seconds;
    // If a server's clock was set back, the record looks young for hours. So the time for which
    // this process has watched it counts, too.
    return !may_be_dead || now - watched_since < Seconds(options.lock_stale_seconds);
  }

  bool try_take() {
    try {
      lock = files->try_lock(private_directory / lock_name);
      locks_work = true;
    } catch (const Error& error) {
      if (error.code() != Code::unsupported) throw;
      locks_work = false;
    }
    if (locks_work && !lock) return false;
    try {
      taken = claim();
    } catch (const Error& error) {
      // Without locks, another process was faster: it removed what we had prepared, or made the
      // record.
      if (locks_work || (error.code() != Code::not_found && error.code() != Code::already_exists)) {
        drop_temporary_quietly();
        throw;
      }
    }
    if (!taken) lock.reset();
    return taken;
  }

  // With the kernel lock, if locks work. Puts our record in the place of another only if that owner
  // is proved dead or has been silent for too long.
  bool claim() {
    try {
      prepare_record();
    } catch (const Error& error) {
      if (error.code() == Code::no_space && write_over_record()) {
        publish_record();
        return true;
      }
      recorded = !may_do_without_record(error);
      if (recorded) throw;
      return true;
    }
    const auto owner = read_owner(*files, directory);
    may_be_dead = false;
    alone = !owner || is_dead(*owner, record);
    if (owner && !proves_it(*owner) && is_alive(*owner)) {
      drop_temporary();
      return false;
    }
    publish_record();
    if (locks_work && (!owner || proves_it(*owner))) return true;
    // Another process may be taking over at the same time, or shortly after: wait, then look again.
    std::this_thread::sleep_for(Seconds(options.overlap_seconds));
    return is_ours();
  }

  void drop_temporary_quietly() {
    try {
      if (io::exists(*files, temporary)) drop_temporary();
    } catch (const Error& error) {  // the next owner removes it
      log(LogLevel::warning, cat("cannot clean up: ", error.what()));
    }
  }

  // Removes temporaries of earlier owners, from a folder in which other processes may be replacing
  // pins and marks, too.
  void remove_leftovers(const io::Path& place) {
    for (const auto& name : files->list(place)) {
      const auto parsed = parse_private_name(name);
      switch (parsed.kind) {
        case ParsedName::Kind::pinned_directory:
        case ParsedName::Kind::damaged_directory:
        case ParsedName::Kind::marked_directory:
          if (place == private_directory) remove_leftovers(place / name);
          continue;
        case ParsedName::Kind::runs_temporary:  // of an earlier version
          break;
        case ParsedName::Kind::owner_temporary:
          if (parsed.uuid != record.token) break;
          continue;
        default:
          continue;
      }
      try {
        files->remove(place / name);
      } catch (const Error& error) {
        if (error.code() != Code::not_found) throw;  // it belonged to a process that is still alive
      }
    }
  }

  void beat(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock guard(mutex);
    for (;;) {
      wake.wait_for(guard, stop, Seconds(options.heartbeat_seconds), [] { return false; });
      if (stop.stop_requested()) return;
      try {
        if (renew_record()) continue;
        log(LogLevel::error,
            cat("the directory ", directory.string(), " was taken over by another process"));
        return;
      } catch (const std::exception& error) {
        log(LogLevel::warning, cat("the owner's heartbeat failed: ", error.what()));
      }
    }
  }

  void tell_of_waiting() const {
    const auto owner = read_owner(*files, directory);
    log(LogLevel::warning,
        cat("the checkpoint directory ", directory.string(), " was owned by ",
            owner ? describe(*owner) : "another job",
            ", and its lock is free, which proves nothing about another host: waiting for up to ",
            options.lock_stale_seconds, " seconds for a sign of life"));
  }

  // Whether the record is this process's own. Whoever asks owns nothing here, as far as this copy
  // of the library knows.
  bool is_this_process(const OwnerRecord& owner) const {
    return owner.pid == record.pid && owner.processes == record.processes &&
           !is_elsewhere(owner, record);
  }

  [[noreturn]] void throw_busy() const {
    const auto owner = read_owner(*files, directory);
    std::string whose = "is in use", way_out;
    std::string who = owner ? "its owner is " + describe(*owner) : "its owner left no record";
    if (owner && is_this_process(*owner)) {
      whose = "is in use by this very process";
      who = cat("another copy of the library in it is the owner, ", describe(*owner));
      way_out =
          "Two shared objects have one each: link both to one libcairn.so, or hand one manager to "
          "both, or give each a directory of its own.";
    } else if (owner && !owner->job.empty() && owner->job == record.job) {
      whose = "is in use by this very job";
      who += cat(", this is process ", record.pid, " on host ", record.host);
      way_out =
          "Give each component of a job a directory of its own, or make one manager of all their "
          "ranks; wait for a program of this job that still ends.";
    } else {
      way_out = "End that job or wait for it, use another directory, or open read-only.";
    }
    if (!locks_work || (owner && owner->by_heartbeat)) {
      way_out += cat(" If it is dead: this file system has no locks, so wait ",
                     options.stale_seconds, " seconds.");
    }
    throw Error(Code::busy, cat("the checkpoint directory ", whose), who, way_out)
        .at(directory.string());
  }

  // Another process may have become the owner since the refresh. So the record is first renamed to
  // a name of our own.
  void remove_record() {
    const auto owner = private_directory / owner_name;
    if (!renames) return files->remove(owner);
    files->rename(owner, temporary);
    const auto taken_away =
        parse_owner(io::read_file(*files, temporary, largest_owner_record_bytes));
    if (taken_away && taken_away->token != record.token) return files->rename_new(temporary, owner);
    drop_temporary();
  }

  void release() noexcept {
    try {
      if (heart.joinable()) {
        heart.request_stop();
        heart.join();
      }
      if (taken && is_ours()) remove_record();
    } catch (const std::exception& error) {
      try {
        log(LogLevel::warning, cat("cannot give up ", directory.string(), ": ", error.what()));
      } catch (...) {  // a message is not worth ending the process for
      }
    } catch (...) {  // a file system that throws other types: the same as if the process had died
    }
  }
};

Ownership::Ownership(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Ownership::Ownership(Ownership&&) noexcept = default;

Ownership& Ownership::operator=(Ownership&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

Ownership::~Ownership() {
  if (!impl_) return;
  if (impl_->record.pid != ::getpid()) {
    static_cast<void>(impl_.release());  // a forked child has neither our thread nor our ownership
    return;
  }
  impl_->release();
}

Ownership Ownership::take(std::shared_ptr<io::FileSystem> files, const io::Path& directory,
                          double wait_seconds, const OwnershipOptions& options) {
  require_path(directory);
  auto impl = std::make_unique<Impl>();
  impl->files = std::move(files);
  impl->directory = directory;
  impl->private_directory = directory / private_directory_name;
  impl->options = options;
  impl->record = own_record();
  impl->temporary = impl->private_directory / owner_temporary_name(impl->record.token);
  require_no_links(*impl->files, directory);
  io::create_directories(*impl->files, impl->private_directory);
  impl->renames = options.atomic_rename && !says_no_rename({impl->files, directory});

  const auto start = std::chrono::steady_clock::now();
  bool told = false;
  while (!impl->try_take()) {
    if (impl->may_be_dead) {
      if (!std::exchange(told, true)) impl->tell_of_waiting();
      std::this_thread::sleep_for(Seconds(std::min(1.0, options.heartbeat_seconds / 10)));
      continue;
    }
    const Seconds rest = Seconds(wait_seconds) - (std::chrono::steady_clock::now() - start);
    if (rest <= Seconds(0)) impl->throw_busy();
    const Seconds pause(impl->locks_work ? 0.05 : 1.0);
    std::this_thread::sleep_for(std::min(rest, pause));
  }
  Ownership ownership(std::move(impl));
  if (!ownership.impl_->recorded) return ownership;
  ownership.impl_->remove_leftovers(ownership.impl_->private_directory);
  if (!options.atomic_rename) ownership.forgo_renames();
  if (ownership.atomic_rename()) keep_room(*ownership.impl_->files, directory);
  try {
    ownership.impl_->heart =
        std::jthread([self = ownership.impl_.get()](std::stop_token stop) { self->beat(stop); });
  } catch (const std::system_error& error) {
    throw no_thread("that renews the owner's record", error).at(directory.string());
  }
  return ownership;
}

void Ownership::check() const {
  const auto owner = read_owner(*impl_->files, impl_->directory);
  if (impl_->recorded ? owner && owner->token == impl_->record.token : !owner) return;
  if (!owner) require_there();
  throw Error(Code::busy, "the checkpoint directory is no longer owned by this job",
              owner ? "its owner is " + describe(*owner) : "the owner record is gone",
              "This job commits and removes nothing here any more; whether its last save counts is "
              "for the present owner to say (cairn ls). Let one job at a time save here.")
      .at(impl_->directory.string());
}

void Ownership::require_there() const {
  const auto& [files, directory] = std::tie(impl_->files, impl_->directory);
  if (io::exists(*files, impl_->private_directory)) return;
  const auto* what = io::exists(*files, directory)
                         ? "what is Cairn's own in the checkpoint directory was removed"
                         : "the checkpoint directory was removed";
  throw Error(Code::not_found, cat(what, " while this job had it open"),
              cat("there is no ", impl_->private_directory.string()),
              "Open a new manager, which makes it anew.")
      .at(directory.string());
}

const OwnerRecord& Ownership::record() const { return impl_->record; }
bool Ownership::alone() const { return impl_->alone; }
bool Ownership::atomic_rename() const { return impl_->renames; }
void Ownership::forgo_renames() { impl_->forgo_renames(); }

}  // namespace cairn::commit
