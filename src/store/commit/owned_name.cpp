// A process takes the ownership of a directory once; all names that it saves there share it.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "store/commit/ownership.hpp"

namespace cairn::commit {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Whether a file name could belong to both namings.
bool share_files(const Naming& a, const Naming& b) {
  if (a.numbered == b.numbered) return a.name == b.name;
  return parse_prefix(a.numbered ? b.name : a.name, a.numbered ? a : b).has_value();
}

// A directory that this process owns, or that one of its threads is about to own.
struct Held {
  // Expired when the last holder of a name here is gone.
  std::weak_ptr<Ownership> ownership;
  std::vector<std::weak_ptr<const Naming>> names;
  pid_t taking = 0;  // the process whose thread is taking it: a forked child has no such thread
  /// The name, held by another part of this process, under which the files of `name` could be saved
  /// too. A copy, so that it does not keep that name held.
  std::optional<Naming> in_the_way_of(const Naming& name) const {
    for (const auto& other : names) {
      const auto held = other.lock();
      if (held && share_files(*held, name)) return *held;
    }
    return std::nullopt;
  }
};

struct Table {
  Mutex mutex;
  // Signalled whenever a thread has ended its attempt to become the owner.
  std::condition_variable attempted;
  std::map<std::pair<const io::FileSystem*, io::Path>, Held> directories CAIRN_GUARDED_BY(mutex);
};

Table& table() {
  static Table the_one;
  return the_one;
}

// The pause between two attempts. On a file system without locks each attempt writes files, so it
// is longer there.
Seconds pause(io::FileSystem& files, const io::Path& directory) {
  const auto owner = read_owner(files, directory);
  return Seconds(owner && owner->by_heartbeat ? 1.0 : 0.05);
}

// The error for a program that already holds the directory itself.
Error in_use_here(const Naming& name, const Error& busy) {
  return Error(Code::busy, "the checkpoint directory is in use by this very process",
               cat("another manager of it saves under the name '", name.name, "' there"),
               "Use that one, let it go before, save under another name, or open read-only.")
      .at(busy.path());
}

}  // namespace

// Takes a share in the ownership that this process has already, or else becomes the owner. If the
// directory or the name is busy, it waits and tries again until the time is up. It waits here and
// not in Ownership::take, so that another thread of this process can try in between.
OwnedName OwnedName::take(std::shared_ptr<io::FileSystem> files, const io::Path& directory,
                          const Naming& name, double wait_seconds,
                          const OwnershipOptions& options) {
  auto& all = table();
  const auto key = std::make_pair(files->identity(), directory);
  const auto self = ::getpid();
  const auto start = Clock::now();
  const auto rest = [&] { return Seconds(wait_seconds) - Seconds(Clock::now() - start); };
  OwnedName mine;
  mine.name_ = std::make_shared<const Naming>(name);
  for (;;) {
    std::optional<Naming> ours;  // held in this copy of the library, and in conflict with the name
    {
      MutexLock guard(all.mutex);
      // One thread at a time tries. If it becomes the owner, it is so for all of them.
      while (all.directories[key].taking == self) guard.wait(all.attempted);
      std::erase_if(all.directories, [&](const auto& entry) {
        return entry.second.taking != self && entry.second.ownership.expired();
      });
      auto& held = all.directories[key];
      auto owned = held.ownership.lock();
      // A forked child has its parent's table, but does not own the directory.
      const bool is_here = owned && owned->record().pid == self;
      if (is_here) ours = held.in_the_way_of(name);
      if (is_here && !ours) {
        std::erase_if(held.names, [](const auto& other) { return other.expired(); });
        held.names.push_back(mine.name_);
        mine.ownership_ = std::move(owned);
      } else {
        held.taking = self;
      }
    }
    if (mine.ownership_) {
      mine.ownership_->check();
      if (!options.atomic_rename) mine.ownership_->forgo_renames();
      return mine;
    }
    std::exception_ptr failure;
    bool again = false;
    try {
      mine.ownership_ = std::make_shared<Ownership>(Ownership::take(files, directory, 0, options));
    } catch (const Error& error) {
      failure = std::current_exception();
      again = error.code() == Code::busy && rest() > Seconds(0);
      if (ours && error.code() == Code::busy)
        failure = std::make_exception_ptr(in_use_here(*ours, error));
    } catch (...) {
      failure = std::current_exception();
    }
    {
      const MutexLock guard(all.mutex);
      auto& held = all.directories[key];
      held.taking = 0;
      if (mine.ownership_) held = {mine.ownership_, {mine.name_}};
    }
    all.attempted.notify_all();
    if (mine.ownership_) return mine;
    if (!again) std::rethrow_exception(failure);
    std::this_thread::sleep_for(std::min(rest(), pause(*files, directory)));
  }
}

void remove_traces(const Address& private_directory) {
  auto& files = *private_directory.files();
  const auto& own = private_directory.path();
  const auto lock = files.try_lock(own / lock_name);
  if (!lock) return;
  using Kind = ParsedName::Kind;
  std::vector<std::string> empty, small;  // directories, and small files that any owner makes
  for (const auto& name : files.list(own)) {
    const auto kind = parse_private_name(name).kind;
    if (kind == Kind::recycled_directory || kind == Kind::pinned_directory) {
      empty.push_back(name);
    } else if (kind == Kind::room || kind == Kind::pin_lock || kind == Kind::sequences ||
               kind == Kind::status) {
      small.push_back(name);
    } else if (kind != Kind::lock) {
      // Something is kept here that is worth more than a trace.
      return;
    }
  }
  for (const auto& name : empty) files.remove_directory(own / name);
  for (const auto& name : small) files.remove(own / name);
  files.remove(own / lock_name);
  files.remove_directory(own);
}

}  // namespace cairn::commit
