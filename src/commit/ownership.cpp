#include "commit/ownership.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "commit/names.hpp"

namespace cairn::commit {
namespace {

using Seconds = std::chrono::duration<double>;

double now() { return Seconds(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string process_namespace() {
  std::error_code error;
  const auto target = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  return error ? "" : target.string();
}

OwnerRecord own_record() {
  OwnerRecord record;
  record.token = new_uuid();
  record.host = host_name();
  record.pid = ::getpid();
  record.processes = process_namespace();
  if (const char* job = std::getenv("SLURM_JOB_ID")) record.job = job;
  record.start_seconds = now();
  return record;
}

// Known to be dead; false if it cannot be known from here.
bool is_dead(const OwnerRecord& owner, const OwnerRecord& self) {
  if (owner.host != self.host || owner.processes.empty() || owner.processes != self.processes ||
      owner.pid <= 0) {
    return false;
  }
  return ::kill(static_cast<pid_t>(owner.pid), 0) != 0 && errno == ESRCH;
}

io::Path no_rename_path(const io::Path& directory) {
  return directory / private_directory_name / no_rename_name;
}

}  // namespace

bool says_no_rename(io::FileSystem& files, const io::Path& directory) {
  return io::exists(files, no_rename_path(directory));
}

struct Ownership::Impl {
  std::shared_ptr<io::FileSystem> files;
  io::Path directory, private_directory, temporary;
  OwnershipOptions options;
  OwnerRecord record;
  std::unique_ptr<io::Lock> lock;
  bool locks_work = true;
  bool taken = false;
  std::atomic<bool> renames = true;
  std::jthread heart;

  // The record is complete under a name of our own before it gets its real one.
  void prepare_record() {
    record.heartbeat_seconds = now();
    record.by_heartbeat = !locks_work;
    if (io::exists(*files, temporary)) files->remove(temporary);
    io::write_file(*files, temporary, print_owner(record));
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
      io::write_file(*files, owner, print_owner(record));  // one of several is the first
      files->remove(temporary);
    }
    files->sync_directory(private_directory);
  }

  // A heartbeat without a rename. In place: only digits of the time change, so whoever reads it now
  // sees a record that parses.
  void renew_record() {
    record.heartbeat_seconds = now();
    const auto text = print_owner(record);
    const auto file = files->open_write(private_directory / owner_name);
    file->write_at(0, std::as_bytes(std::span(text)));
    file->sync();
    file->close();
  }

  void forgo_renames() {
    renames = false;
    if (says_no_rename(*files, directory)) return;
    io::write_file(*files, no_rename_path(directory), "");
    files->sync_directory(private_directory);
  }

  bool is_ours() const {
    const auto owner = read_owner(*files, directory);
    return owner && owner->token == record.token;
  }

  // An owner whose heart still beats, as far as can be told. To be called with a prepared record.
  bool is_alive(const OwnerRecord& owner) const {
    if (is_dead(owner, record)) return false;
    const auto its = files->status(private_directory / owner_name);
    const auto ours = files->status(temporary);
    if (!its || !ours) return true;  // somebody else is at work here: look again
    return ours->modified_seconds - its->modified_seconds < options.stale_seconds;
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
      // Without locks, whoever was faster removes what others prepared, or made the record.
      if (locks_work || (error.code() != Code::not_found && error.code() != Code::already_exists)) {
        drop_temporary_quietly();
        throw;
      }
    }
    if (!taken) lock.reset();
    return taken;
  }

  bool claim() {
    prepare_record();
    const auto owner = read_owner(*files, directory);
    // A kernel lock proves that an owner by lock is gone; nothing of the kind for one without.
    if (owner && (!locks_work || owner->by_heartbeat) && is_alive(*owner)) {
      files->remove(temporary);
      return false;
    }
    publish_record();
    if (locks_work) return true;
    // Another may take over at the same time, and a little later.
    std::this_thread::sleep_for(Seconds(options.settle_seconds));
    return is_ours();
  }

  void drop_temporary_quietly() {
    try {
      if (io::exists(*files, temporary)) files->remove(temporary);
    } catch (const Error& error) {  // the next owner removes it
      log(LogLevel::warning, cat("cannot clean up: ", error.what()));
    }
  }

  void remove_leftovers() {
    for (const auto& name : files->list(private_directory)) {
      const auto parsed = parse_private_name(name);
      if (parsed.kind != ParsedName::Kind::owner_temporary || parsed.uuid == record.token) continue;
      try {
        files->remove(private_directory / name);
      } catch (const Error& error) {
        if (error.code() != Code::not_found) throw;  // it was of one that is still alive
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
        if (!is_ours()) {
          log(LogLevel::error,
              cat("the directory ", directory.string(), " was taken over by another process"));
          return;
        }
        if (renames) {
          prepare_record();
          publish_record();
        } else {
          renew_record();
        }
      } catch (const std::exception& error) {
        log(LogLevel::warning, cat("the owner's heartbeat failed: ", error.what()));
      }
    }
  }

  [[noreturn]] void throw_busy() const {
    const auto owner = read_owner(*files, directory);
    const std::string who = owner ? "its owner is " + describe(*owner) : "its owner left no record";
    std::string way_out = "End that job or wait for it, use another directory, or open read-only.";
    if (!locks_work || (owner && owner->by_heartbeat)) {
      way_out += cat(" If it is dead: this file system has no locks, so wait ",
                     options.stale_seconds, " seconds.");
    }
    throw Error(Code::busy, "the checkpoint directory is in use", who, way_out)
        .at(directory.string());
  }

  void release() noexcept {
    try {
      if (heart.joinable()) {
        heart.request_stop();
        heart.join();
      }
      if (taken && is_ours()) files->remove(private_directory / owner_name);
    } catch (const std::exception& error) {
      try {
        log(LogLevel::warning, cat("cannot give up ", directory.string(), ": ", error.what()));
      } catch (...) {  // a message is not worth the process
      }
    } catch (...) {  // a file system that throws other things: as if the process had died
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
    static_cast<void>(impl_.release());  // a forked child has neither our thread nor our rights
    return;
  }
  impl_->release();
}

Ownership Ownership::take(std::shared_ptr<io::FileSystem> files, const io::Path& directory,
                          double wait_seconds, const OwnershipOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->files = std::move(files);
  impl->directory = directory;
  impl->private_directory = directory / private_directory_name;
  impl->options = options;
  impl->record = own_record();
  impl->temporary = impl->private_directory / owner_temporary_name(impl->record.token);
  io::create_directories(*impl->files, impl->private_directory);
  impl->renames = options.atomic_rename && !says_no_rename(*impl->files, directory);

  const auto start = std::chrono::steady_clock::now();
  while (!impl->try_take()) {
    const Seconds rest = Seconds(wait_seconds) - (std::chrono::steady_clock::now() - start);
    if (rest <= Seconds(0)) impl->throw_busy();
    const Seconds pause(impl->locks_work ? 0.05 : 1.0);
    std::this_thread::sleep_for(std::min(rest, pause));
  }
  Ownership ownership(std::move(impl));
  ownership.impl_->remove_leftovers();
  if (!options.atomic_rename) ownership.forgo_renames();
  if (!ownership.impl_->locks_work) {
    ownership.impl_->heart =
        std::jthread([self = ownership.impl_.get()](std::stop_token stop) { self->beat(stop); });
  }
  return ownership;
}

void Ownership::check() const {
  const auto owner = read_owner(*impl_->files, impl_->directory);
  if (owner && owner->token == impl_->record.token) return;
  throw Error(Code::busy, "the checkpoint directory is no longer owned by this job",
              owner ? "its owner is " + describe(*owner) : "the owner record is gone",
              "Nothing was committed. Let one job at a time save here.")
      .at(impl_->directory.string());
}

const OwnerRecord& Ownership::record() const { return impl_->record; }
bool Ownership::atomic_rename() const { return impl_->renames; }
void Ownership::forgo_renames() { impl_->forgo_renames(); }

}  // namespace cairn::commit
