// CheckpointsIterator: waits for checkpoints that another program saves in a directory. Only rank 0
// looks at the directory and calls the application's functions `stop` and `on_timeout`; it tells
// the others what to do.
#include "cairn/checkpoints_iterator.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <tuple>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "group/call_group.hpp"
#include "group/collectives.hpp"
#include "session/job/prefix.hpp"
#include "session/newest.hpp"
#include "store/contents/format.hpp"
#include "store/contents/open_checkpoint.hpp"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;

double elapsed(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// Without the application's own `wait`, ranks pause at least so long between two looks.
constexpr double shortest_wait = 1e-3;

// The result of one look at the directory.
enum class Found : int { nothing, found, end };
struct Looked {
  Found found{};
  std::string path;
  double seconds = 0;  // until the next look
};

}  // namespace

struct CheckpointsIterator::Impl {
  // A checkpoint. Its uuid tells it from others that had the same path.
  struct Seen {
    std::string path, uuid;
    std::optional<io::Status> file;

    // Whether this very file was seen before: then its uuid need not be read again.
    bool has_file(const std::string& a_path, const std::optional<io::Status>& now) const {
      return path == a_path && file && now && file->id == now->id &&
             file->modified_seconds == now->modified_seconds;
    }
  };

  std::shared_ptr<CallGroup> group;
  Address directory{nullptr, {}};
  IteratorOptions options;
  // Only on rank 0:
  Seen last;
  std::optional<Clock::time_point> returned;

  // Rank 0. The path of the newest checkpoint; "" if there is none, or if it was returned before. A
  // checkpoint whose index cannot be read is returned, too, so that its restore reports the error.
  std::string look() {
    const auto path = newest_by_state_file(directory);
    if (path.empty()) return "";
    const auto file = status_of(path);
    if (!file || last.has_file(path, file)) return "";
    Seen now{path, uuid_of(path), file};
    // An index file that was copied or touched, with the same uuid, is no new checkpoint.
    const bool same = now.path == last.path && !now.uuid.empty() && now.uuid == last.uuid;
    last = std::move(now);
    return same ? "" : path;
  }
  // Of the index of a bundle, or of an HDF5 file.
  std::optional<io::Status> status_of(const std::string& path) const {
    for (const auto format : {Format::bundle, Format::hdf5}) {
      if (auto status = directory.at(format_of(format).main_file(path)).status()) return status;
    }
    return std::nullopt;
  }
  // "" if the checkpoint cannot be read, or another program made it. Such a checkpoint counts as
  // new whenever its file changes.
  std::string uuid_of(const std::string& path) const {
    try {
      const auto checkpoint = open_checkpoint(directory.at(path));
      return checkpoint->meta ? checkpoint->meta->uuid : "";
    } catch (const Error&) {
      return "";
    }
  }

  // Collective. Rank 0 looks and tells the others.
  Looked look_together(Clock::time_point& begun) {
    const auto message = from_root(*group, [&] {
      const bool early = returned && elapsed(*returned) < options.min_interval_seconds;
      auto path = early ? "" : look();
      auto found = path.empty() ? Found::nothing : Found::found;
      if (found == Found::nothing && ends(begun)) {
        path = look();  // may have been saved before the end was known
        found = path.empty() ? Found::end : Found::found;
      }
      if (found == Found::found) returned = Clock::now();
      return pack(Looked{found, std::move(path), seconds_to_wait(begun)});
    });
    return unpack<Looked>(message);
  }

  // Rank 0. Not longer than the rest of the timeout.
  double seconds_to_wait(Clock::time_point begun) const {
    if (!options.timeout_seconds) return options.poll_seconds;
    const auto left = *options.timeout_seconds - elapsed(begun);
    return std::clamp(left, std::min(shortest_wait, options.poll_seconds), options.poll_seconds);
  }

  // Rank 0. Whether to stop: `begun` is set to now if on_timeout asks for another period.
  bool ends(Clock::time_point& begun) const {
    if (options.stop && call_user_code("IteratorOptions::stop", options.stop)) return true;
    if (!options.timeout_seconds || elapsed(begun) < *options.timeout_seconds) return false;
    if (!options.on_timeout) return true;
    begun = Clock::now();
    return call_user_code("IteratorOptions::on_timeout", options.on_timeout);
  }

  // Collective. All ranks sleep; otherwise they would wait for messages of the one that does.
  void wait(double seconds) const {
    if (options.wait) {
      run_and_agree(
          *group, [&] { call_user_code("IteratorOptions::wait", [&] { options.wait(seconds); }); });
    } else {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    }
  }
};

CheckpointsIterator::CheckpointsIterator(std::shared_ptr<Group> group, PathText directory,
                                         IteratorOptions options)
    : impl_(std::make_unique<Impl>()) {
  if (!group) throw Error(Code::invalid_argument, "the group of a CheckpointsIterator is null");
  auto& self = *impl_;
  self.group = CallGroup::of(std::move(group));
  self.options = std::move(options);
  collective_call(*self.group, "CheckpointsIterator::CheckpointsIterator", [&] {
    self.group->check_entry();
    self.directory = run_and_agree(*self.group, [&] {
      const auto& o = self.options;
      for (const auto& [name, value] : {std::pair("min_interval_seconds", o.min_interval_seconds),
                                        std::pair("timeout_seconds", o.timeout_seconds.value_or(0)),
                                        std::pair("poll_seconds", o.poll_seconds)}) {
        if (value >= 0 && value < 1e9) continue;
        throw Error(Code::invalid_argument, cat("IteratorOptions::", name, " is ", value), "",
                    "Give seconds, from 0 on.");
      }
      if (o.poll_seconds < shortest_wait && !o.wait) {
        throw Error(
            Code::invalid_argument, cat("IteratorOptions::poll_seconds is ", o.poll_seconds),
            "ranks would look at the directory without a pause", "Give a millisecond at least.");
      }
      return Address(o.file_system, checked_directory(directory));
    });
    require_same(*self.group, "the directory", self.directory.string());
    require_same(*self.group, "IteratorOptions::poll_seconds", cat(self.options.poll_seconds));
  });
}

CheckpointsIterator::~CheckpointsIterator() = default;
CheckpointsIterator::CheckpointsIterator(CheckpointsIterator&&) noexcept = default;
CheckpointsIterator& CheckpointsIterator::operator=(CheckpointsIterator&&) noexcept = default;

std::optional<std::string> CheckpointsIterator::next() {
  auto& self = *impl_;
  return collective_call(*self.group, "CheckpointsIterator::next",
                         [&]() -> std::optional<std::string> {
                           for (auto begun = Clock::now();;) {
                             self.group->check_entry();
                             auto [found, path, seconds] = self.look_together(begun);
                             if (found == Found::end) return std::nullopt;
                             if (found == Found::found) return std::move(path);
                             self.wait(seconds);
                           }
                         });
}

}  // namespace cairn
