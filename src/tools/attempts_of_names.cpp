// What a file system makes of names: creation, renames, links, locks, and what others see of them.
#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "tools/file_system_attempts.hpp"

namespace cairn::attempts {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t most_bytes = std::int64_t{8} << 20;

// Whether a call is refused with this code. Any other error is thrown.
bool refused(Code code, const std::function<void()>& call) {
  try {
    call();
    return false;
  } catch (const Error& error) {
    if (error.code() != code) throw;
    return true;
  }
}

// Whether a call fails, for whatever reason.
bool fails(const std::function<void()>& call) {
  try {
    call();
    return false;
  } catch (const Error&) {
    return true;
  }
}

}  // namespace

Result good(std::string found) { return {Fitness::good, std::move(found)}; }
Result bad(std::string found) { return {Fitness::unfit, std::move(found)}; }
Result without(std::string found, std::string way_out) {
  return {Fitness::without, std::move(found), std::move(way_out)};
}

double wait_until(const Place& place, const std::function<bool()>& is_so) {
  const auto begin = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  double wrong = 0;
  while (!is_so()) {
    wrong = passed();
    if (wrong > place.options.patience_seconds) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return wrong;
}

std::string delay_text(double seconds) {
  return seconds < 0.5 ? "at once" : cat(fixed_text(seconds, 1), " s later");
}

void put(const Place& place, const std::string& name, const std::string& text) {
  const auto file = place.files()->create(place.at(name));
  file->write_at(0, std::as_bytes(std::span(text)));
  file->close();
}

void overwrite(const Place& place, const std::string& name, const std::string& text) {
  const auto file = place.files()->open_write(place.at(name));
  file->write_at(0, std::as_bytes(std::span(text)));
  file->close();
}

std::string read(const Place& place, const std::string& name) {
  return io::read_file(*place.files(), place.at(name), most_bytes);
}

Result long_name(const Place& place) {
  put(place, std::string(255, 'n'), "n");
  return good("one was made");
}

Result exclusive(const Place& place) {
  auto& files = *place.files();
  if (place.other.run("read ours") != "missing") return bad("a file was there that nobody made");
  put(place, "ours", "1");
  auto answer = place.other.run("create ours");
  if (answer != "there") return bad("another process made an existing file anew: " + answer);
  answer = place.other.run("create theirs");
  if (answer != "made") return bad("another process cannot make a file: " + answer);
  if (!refused(Code::already_exists, [&] { files.create(place.at("theirs")); })) {
    return bad("an existing file of another process was made anew");
  }
  files.create_directory(place.at("made"));
  if (!refused(Code::already_exists, [&] { files.create_directory(place.at("made")); })) {
    return bad("an existing directory was made anew");
  }
  return good("the second maker is refused");
}

Result sync(const Place& place) {
  io::write_file(*place.files(), place.at("synced"), "1");
  place.files()->sync_directory(place.directory.path());
  return good("they succeed; what a power failure leaves cannot be seen from here");
}

Result close_to_open(const Place& place) {
  const auto sees = [&](const char* text) {
    return wait_until(place, [&] { return place.other.run("read seen") == text; });
  };
  // The name was looked up before, and the old bytes were read: caches may keep both.
  if (place.other.run("read seen") != "missing") return bad("a file was there that nobody made");
  put(place, "seen", "1");
  const auto made = sees("1");
  overwrite(place, "seen", "2");
  const auto written = sees("2");
  put(place, "seen.new", "3");
  place.files()->rename(place.at("seen.new"), place.at("seen"));
  const auto renamed = sees("3");
  if (const auto answer = place.other.run("overwrite seen 4"); answer != "written") {
    return bad("another process cannot write: " + answer);
  }
  const auto theirs = wait_until(place, [&] { return read(place, "seen") == "4"; });
  const auto lists = [&] {
    const auto names = place.files()->list(place.directory.path());
    return std::find(names.begin(), names.end(), "listed") != names.end();
  };
  if (lists()) return bad("a file was there that nobody made");
  place.other.run("put listed 1");
  const auto listed = wait_until(place, lists);
  const char* late =
      "Mount with lookupcache=none (NFS) or fopen-keep-cache=false (GlusterFS) and short caches of"
      " attributes, or saves fail when a rank does not find a file, and restarts read old bytes"
      " and drop good checkpoints.";
  for (const auto& [what, seconds] :
       {std::pair("a new file", made), std::pair("new bytes", written),
        std::pair("a renamed file", renamed), std::pair("bytes", theirs),
        std::pair("the name of a file", listed)}) {
    if (seconds < 0) return bad(cat(what, " of another process cannot be seen"));
  }
  if (const auto slowest = std::max({made, written, renamed, theirs, listed}); slowest >= 0.5) {
    return {Fitness::option, cat("it does so ", delay_text(slowest)), late};
  }
  return good("new files, new bytes and renames are seen at once");
}

Result rename(const Place& place) {
  put(place, "watched", watched_text("begin"));
  auto answer = place.other.run("watch watched last");
  if (answer != "watching") return bad(answer);
  const auto begin = Clock::now();
  int done = 0;
  const auto replace = [&](const std::string& line) {
    put(place, "watched.new", watched_text(line));
    place.files()->rename(place.at("watched.new"), place.at("watched"));
  };
  const std::chrono::duration<double> limit(place.options.renames_seconds);
  try {
    while (done < place.options.renames && Clock::now() - begin < limit) replace(cat(++done));
    replace("last");
  } catch (const Error&) {  // the other process waits for this text
    place.files()->remove(place.at("watched"));
    put(place, "watched", watched_text("last"));
    place.other.run("watched");
    throw;
  }
  answer = place.other.run("watched");
  if (!answer.starts_with("missing 0 torn 0 ")) {
    return bad(cat("in ", done, " renames another process found the name: ", answer));
  }
  return good(cat(done, " renames while another process read: ", answer));
}

Result rename_new(const Place& place) {
  auto& files = *place.files();
  put(place, "old", "old");
  put(place, "new", "new");
  if (!refused(Code::already_exists, [&] { files.rename_new(place.at("new"), place.at("old")); }) ||
      read(place, "old") != "old") {
    return bad("it replaced a file");
  }
  files.rename_new(place.at("new"), place.at("newer"));
  if (read(place, "newer") != "new") return bad("it gave the name to other bytes");
  return good("it is refused where the name is there");
}

Result directories(const Place& place) {
  auto& files = *place.files();
  files.create_directory(place.at("full"));
  put(place, "full/file", "1");
  if (!fails([&] { files.remove_directory(place.at("full")); }))
    return bad("a full one was removed");
  files.rename(place.at("full"), place.at("moved"));
  const auto seen = [&] { return place.other.run("read moved/file") == "1"; };
  if (wait_until(place, seen) < 0) return bad("what is in a renamed one cannot be seen");
  files.remove(place.at("moved/file"));
  files.remove_directory(place.at("moved"));
  return good("so it is");
}

Result open_file(const Place& place) {
  auto& files = *place.files();
  files.create_directory(place.at("open"));
  put(place, "open/held", "first");
  put(place, "open/next", "second");
  if (const auto answer = place.other.run("hold open/held"); answer != "open") return bad(answer);
  files.rename(place.at("open/next"), place.at("open/held"));
  const auto renamed = place.other.run("held");
  place.other.run("drop");
  // Another host's cache may lead to the first one still.
  wait_until(place, [&] { return place.other.run("read open/held") == "second"; });
  if (const auto answer = place.other.run("hold open/held"); answer != "open") return bad(answer);
  files.remove(place.at("open/held"));
  const auto removed = place.other.run("held");
  const auto left = files.list(place.at("open"));
  place.other.run("drop");
  for (const auto& [answer, wanted] : {std::pair(renamed, "first"), std::pair(removed, "second")}) {
    if (answer == wanted) continue;
    if (answer.starts_with("failed: ")) return bad(answer.substr(8));
    return {Fitness::unfit, cat("an open file has the bytes of another: ", answer),
            "Do not keep checkpoints here."};
  }
  if (!left.empty()) {
    return without(cat("it does, under another name until it is closed: ", left.front()),
                   "Folders that Cairn empties may stay until then, which it says.");
  }
  return good("its bytes stay, after a rename and a removal");
}

Result links(const Place& place) {
  auto& files = *place.files();
  put(place, "first", "linked");
  if (!files.try_link(place.at("first"), place.at("second"))) {
    return without("there are none", "Frozen tensors are written again in each checkpoint.");
  }
  if (read(place, "second") != "linked") return bad("the second name has other bytes");
  const auto counted = [&](const char* names) {
    return wait_until(place, [&] { return place.other.run("names first") == names; }) >= 0;
  };
  if (!counted("2") || files.has_one_name(place.at("first"))) {
    return bad("a file with two names counts as one with one name");
  }
  files.remove(place.at("second"));
  if (!counted("1")) return bad("a name that was removed counts");
  return good("they are made, and counted");
}

Result locks(const Place& place) {
  const char* no_locks =
      "Owners are told apart by their record: a crashed one's directory is free after 120 s.";
  std::unique_ptr<io::Lock> lock;
  if (refused(Code::unsupported, [&] { lock = place.files()->try_lock(place.at("lock")); })) {
    return without("there are none", no_locks);
  }
  if (!lock) return bad("a lock that nobody has taken is taken");
  if (place.files()->try_lock(place.at("lock"))) return bad("a process locks one file twice");
  auto answer = place.other.run("lock lock");
  if (answer == "unsupported") return without("another process has none", no_locks);
  if (answer != "busy") {
    const auto found = cat("they do not exclude another process: ", answer);
    return place.options.other_host
               ? without(found,
                         "The owner's record excludes other hosts: a crashed owner's"
                         " directory is free after 60 s.")
               : bad(found);
  }
  lock.reset();
  if (wait_until(place, [&] { return place.other.run("lock lock") == "taken"; }) < 0) {
    return bad("a lock that was released is still taken");
  }
  if (place.files()->try_lock(place.at("lock")))
    return bad("another process's lock does not exclude");
  return good("they exclude another process");
}

Result end_of_lock(const Place& place) {
  const auto answer = place.other.run("lock dying");
  place.other.end();
  if (answer == "unsupported") return without("there are none", "See above.");
  if (answer != "taken") return bad(answer);
  const auto after =
      wait_until(place, [&] { return place.files()->try_lock(place.at("dying")) != nullptr; });
  return after < 0 ? bad("the lock of a process that has ended is still taken")
                   : good(cat("they do so, ", delay_text(after)));
}

}  // namespace cairn::attempts
