#include "store/bucket/lease.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <optional>
#include <thread>
#include <utility>

#include "base/host_name.hpp"
#include "base/mutex.hpp"
#include "base/no_thread.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// A record is renewed so many times while a successor waits, so that a late one does not lose it.
constexpr double renewals = 4;
constexpr double least_pause = 0.05;
constexpr std::string_view free_record = "nobody\n";

double now_seconds() {
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string directory_of(const io::Path& record) {
  return record.parent_path().parent_path().string();
}

// `there`: the record that is there instead of this owner's.
Error not_owned(const io::Path& record, const std::optional<bucket::Requests::Got>& there) {
  if (!there) {
    return Error(Code::busy, cat("nobody owns ", directory_of(record), " any more"),
                 cat("its owner's record, ", record.filename().string(), ", was removed"),
                 "Start the job again, and leave what .cairn holds alone.")
        .at(record.string());
  }
  const auto owner = commit::parse_owner(there->bytes);
  return Error(Code::busy, cat(directory_of(record), " has another owner"),
               owner ? commit::describe(*owner) : "it has left already",
               owner ? "Let that job end, or save elsewhere." : "Start this job again.")
      .at(record.string());
}

}  // namespace

struct Lease::Impl {
  Impl(BucketFiles& given, io::Path path) : files(given), record(std::move(path)) {}

  BucketFiles& files;
  const io::Path record;
  const std::string key = BucketFiles::key_of(record);
  commit::OwnerRecord me = {};
  double pause = 0;  // seconds between renewals; 0: none

  mutable Mutex mutex;
  std::condition_variable changed;
  std::string tag CAIRN_GUARDED_BY(mutex);
  Clock::time_point renewed CAIRN_GUARDED_BY(mutex) = {};
  bool is_lost CAIRN_GUARDED_BY(mutex) = false, ends CAIRN_GUARDED_BY(mutex) = false;
  std::thread heart = {};

  bool put(const bucket::Condition& condition) {
    me.heartbeat_seconds = now_seconds();
    const auto begun = Clock::now();
    auto got = files.client()->put(key, bytes_of(commit::print_owner(me)), condition);
    if (!got) return false;
    const MutexLock guard(mutex);
    tag = *std::move(got);
    renewed = begun;
    return true;
  }

  // Waits whether an owner is alive: throws busy if it renews its record. Returns the record, or
  // nothing if somebody has removed it.
  std::optional<bucket::Requests::Got> wait_for_owner(bucket::Requests::Got there,
                                                      double seconds) const {
    const auto owner = commit::parse_owner(there.bytes);
    const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
    log(LogLevel::warning,
        cat(directory_of(record), " is or was owned by ",
            owner ? commit::describe(*owner) : "another job", ": waiting for up to ", seconds,
            " seconds for a sign of life (write.owner_wait_seconds)"));
    while (Clock::now() < until) {
      const auto left = Seconds(until - Clock::now()).count();
      std::this_thread::sleep_for(Seconds(std::min(pause, left)));
      auto now = files.client()->get(key);
      if (!now || now->bytes == free_record) return now;
      if (now->tag != there.tag) throw not_owned(record, now);
    }
    return there;
  }

  // Whether the record is this owner's after all: the answer to an earlier put may have been lost.
  bool is_there(std::optional<bucket::Requests::Got>& there) {
    there = files.client()->get(key);
    const auto owner = there ? commit::parse_owner(there->bytes) : std::nullopt;
    if (!owner || owner->token != me.token) return false;
    const MutexLock guard(mutex);
    tag = there->tag;
    return true;
  }

  void beat() {
    bool is_told = false;  // that the record is not renewed
    MutexLock lock(mutex);
    for (;;) {
      const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(pause));
      while (!ends && Clock::now() < until) lock.wait_until(changed, until);
      if (ends) return;
      const auto last = tag;
      lock.unlock();
      bool is_mine = true;
      std::optional<bucket::Requests::Got> there;
      try {
        is_mine = put(bucket::Condition::same(last)) || is_there(there);
        is_told = false;
      } catch (const std::exception& error) {
        const bool is_first = !std::exchange(is_told, true);
        if (is_first) {
          log(LogLevel::warning,
              cat("the record ", record.string(), " is not renewed: ", error.what()));
        }
      }
      lock.lock();
      if (is_mine) continue;
      is_lost = true;
      const auto why = not_owned(record, there);
      log(LogLevel::warning, cat(why.problem(), ": ", why.reason(), ". ", why.way_out()));
      return;
    }
  }
};

io::Path Lease::path_of(const Location& place) {
  const auto& naming = place.naming;
  return place.directory / commit::private_directory_name /
         cat(commit::owner_name, naming.numbered ? "." : "-single.", naming.name);
}

std::string Lease::owner_of(BucketFiles& files, const Location& place) {
  const auto there = files.client()->get(BucketFiles::key_of(path_of(place)));
  const auto owner = there ? commit::parse_owner(there->bytes) : std::nullopt;
  return owner ? commit::describe(*owner) : "";
}

Lease::Lease(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::unique_ptr<Lease> Lease::take(BucketFiles& files, const io::Path& record,
                                   double wait_seconds) {
  auto impl = std::make_unique<Impl>(files, record);
  auto& self = *impl;
  self.me.token = commit::uuid_text(commit::random_uuid());
  self.me.host = host_name();
  self.me.pid = ::getpid();
  self.me.start_seconds = now_seconds();
  self.me.by_heartbeat = true;
  self.pause = wait_seconds > 0 ? std::max(least_pause, wait_seconds / renewals) : 0;

  auto there = files.client()->get(self.key);
  if (there && there->bytes != free_record && wait_seconds > 0) {
    there = self.wait_for_owner(*std::move(there), wait_seconds);
  }
  const auto condition = there ? bucket::Condition::same(there->tag) : bucket::Condition::absent();
  if (!self.put(condition)) throw not_owned(record, files.client()->get(self.key));
  std::unique_ptr<Lease> lease(new Lease(std::move(impl)));
  if (self.pause > 0) try {
      self.heart = std::thread([&self] { self.beat(); });
    } catch (const std::system_error& error) {
      throw no_thread("that renews the owner's record", error);
    }
  return lease;
}

Lease::~Lease() {
  auto& self = *impl_;
  {
    const MutexLock guard(self.mutex);
    self.ends = true;
  }
  self.changed.notify_all();
  if (self.heart.joinable()) self.heart.join();
  const MutexLock guard(self.mutex);
  if (self.is_lost) return;
  try {
    self.files.client()->put(self.key, bytes_of(free_record), bucket::Condition::same(self.tag));
  } catch (...) {
    log(LogLevel::info, cat("the record ", self.record.string(), " stays"));
  }
}

void Lease::check() const {
  {
    const MutexLock guard(impl_->mutex);
    // A process that was stopped has not renewed it for long.
    const bool is_new = Clock::now() - impl_->renewed < Seconds(2 * impl_->pause);
    if (!impl_->is_lost && impl_->pause > 0 && is_new) return;
  }
  const auto there = impl_->files.client()->get(impl_->key);
  const auto owner = there ? commit::parse_owner(there->bytes) : std::nullopt;
  if (!owner || owner->token != impl_->me.token) throw not_owned(impl_->record, there);
}

}  // namespace cairn
