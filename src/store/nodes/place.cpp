#include "store/nodes/place.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/host_name.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"

namespace cairn::tier {
namespace {

constexpr std::int64_t most_map_bytes = std::int64_t{1} << 30;

}  // namespace

io::Path node_directory(const std::string& text, const std::string& node) {
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%' || i + 1 == text.size()) {
      path += text[i];
      continue;
    }
    const char what = text[++i];
    if (what == 'h') {
      path += host_name();
    } else if (what == 'n') {
      path += node.empty() ? host_name() : node;
    } else if (what == '%') {
      path += '%';
    } else {
      throw Error(Code::invalid_argument, cat("the directory of a tier is '", text, "'"),
                  cat("%", std::string(1, what), " stands for nothing"),
                  "%h is the host, %n the node, %% a percent sign.");
    }
  }
  return path;
}

io::Path node_folder(const std::string& text, std::string node) {
  const char* given = node.empty() ? std::getenv("CAIRN_NODE") : nullptr;
  return node_directory(text, given ? given : std::move(node));
}

void require_own(const io::Path& path, bool only_looks) {
  struct stat found = {};
  if (::lstat(path.c_str(), &found) != 0) return;  // the code that needs the directory reports that
  if (S_ISDIR(found.st_mode) && found.st_uid == ::geteuid()) {
    if (only_looks || (found.st_mode & 077) == 0 || ::chmod(path.c_str(), 0700) == 0) return;
  }
  throw Error(Code::invalid_argument, cat(path.string(), " is not this user's own directory"), "",
              "Name another directory for the tier.")
      .at(path.string());
}

void require_way(const io::Path& path) {
  std::error_code error;
  const auto named = std::filesystem::absolute(path, error);
  const auto real = std::filesystem::weakly_canonical(path, error);
  // Both paths are checked: the one that was given, for links, and the real one, for its
  // directories.
  for (const auto& way : {error ? path : named, error ? path : real}) {
    for (auto parent = way.parent_path(); !parent.empty(); parent = parent.parent_path()) {
      struct stat found = {};
      if (::lstat(parent.c_str(), &found) == 0 && found.st_uid != 0 &&
          found.st_uid != ::geteuid()) {
        throw Error(Code::invalid_argument, cat(path.string(), " is not safe from another user"),
                    cat(parent.string(), " belongs to user ", found.st_uid,
                        ", who could put something else in its place"),
                    "Name another directory for the tier.")
            .at(path.string());
      }
      if (parent == parent.parent_path()) break;
    }
  }
}

void require_own_node(const io::FileSystem& files, const io::Path& path) {
  if (files.identity() != io::posix_file_system()->identity()) return;
  require_way(path);
  require_own(path, true);
}

bool are_on_one_disk(const io::Path& a, const io::Path& b) {
  struct stat first = {}, second = {};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev;
}

namespace {
constexpr std::int64_t longest_note = 1 << 16;

io::Path note_of(const io::Path& node_directory, const std::string& home_id) {
  return node_directory / home_id / ".home";  // no checkpoint can have this name
}
}  // namespace

void note_home(io::FileSystem& files, const io::Path& node_directory, const std::string& home_id,
               const io::Path& home, io::FileSystem& home_files) {
  const auto path = home.is_absolute() ? home : std::filesystem::absolute(home);
  const auto parent = home_files.status(path.parent_path());
  const NotedHome is{path, parent ? parent->id.inode : 0};
  if (noted_home(files, node_directory, home_id) == is) return;
  io::replace_file(files, note_of(node_directory, home_id), cat(path.string(), "\n", is.parent));
}

std::optional<NotedHome> noted_home(io::FileSystem& files, const io::Path& node_directory,
                                    const std::string& home_id) {
  const auto path = note_of(node_directory, home_id);
  const auto bytes = io::try_read_file(files, path, longest_note);
  if (!bytes) return std::nullopt;
  const auto& text = *bytes;
  // The directory's name may contain newlines. Earlier versions noted only the name.
  const auto end = std::min(text.rfind('\n'), text.size());
  NotedHome home{text.substr(0, end)};
  if (end < text.size()) {
    const auto* last = text.data() + text.size();
    const auto [read, error] = std::from_chars(text.data() + end + 1, last, home.parent);
    if (error != std::errc() || read != last) home = {text};
  }
  return home.path.is_absolute() ? std::optional(std::move(home)) : std::nullopt;
}

std::string save_name(const SaveMap& map) { return cat(map.sequence, "-", map.uuid); }

io::Path pieces_at(const io::Path& home) {
  return home / commit::private_directory_name / commit::pieces_directory_name;
}

bool are_own(const Address& pieces) {
  for (const auto& path : {pieces.path().parent_path(), pieces.path()}) {
    if (!pieces.files()->is_link(path)) continue;
    log(LogLevel::warning, cat(path.string(), " is passed over: it is a symbolic link"));
    return false;
  }
  return true;
}

void require_no_links(io::FileSystem& files, const io::Path& home) {
  commit::require_no_links(files, home);
  const auto pieces = pieces_at(home);
  if (!io::exists(files, pieces)) return;
  for (const auto& name : files.list(pieces)) {
    if (!files.is_link(pieces / name)) continue;
    throw Error(Code::invalid_argument, cat((pieces / name).string(), " is a symbolic link"),
                "what is behind it may be another run's", "Remove the link.")
        .at((pieces / name).string());
  }
}

int number_behind(const std::string& name, std::string_view prefix) {
  if (name.rfind(prefix, 0) != 0 || name.size() == prefix.size()) return -1;
  int number = 0;
  for (const char c : name.substr(prefix.size())) {
    // The limit keeps the next step from overflowing.
    if (c < '0' || c > '9' || number > 100'000'000) return -1;
    number = 10 * number + (c - '0');
  }
  return number;
}

namespace {

SaveMap read_map(io::FileSystem& files, const io::Path& folder) {
  constexpr std::int64_t small = std::int64_t{1} << 20;
  const auto path = folder / map_name;
  const auto file = files.open_read(path);
  if (file->size() > small) {  // a file that is too large to be a map is not read into memory
    std::byte first{};
    file->read_at(0, {&first, 1});
    if (first != std::byte{'{'}) throw Error(Code::data_loss, "it is no map").at(path.string());
  }
  return decode_map(io::read_file(*file, path, most_map_bytes));
}

// The home of a save, as its map says; "" if the map does not say it.
std::string home_of(io::FileSystem& files, const io::Path& folder) {
  try {
    return io::exists(files, folder / map_name) ? read_map(files, folder).home : "";
  } catch (const Error& error) {
    if (error.code() != Code::data_loss) throw;
    return "";
  }
}

}  // namespace

std::vector<SaveMap> list_maps(const Address& folder) {
  std::vector<SaveMap> maps;
  if (!folder.exists()) return maps;
  for (const auto& name : folder.list()) {
    try {
      if (!(folder / name / map_name).exists()) continue;
      auto map = read_map(*folder.files(), folder.path() / name);
      if (name == save_name(map)) maps.push_back(std::move(map));
    } catch (const Error& error) {
      if (error.code() == Code::unavailable) throw;
      log(LogLevel::warning, cat("passed over on this node: ", error.what()));
    }
  }
  return maps;
}

Stocked look_at_save(const Address& folder, const SaveMap& map) {
  Stocked stocked;
  const Sets sets(map);
  for (const auto& file : folder.list()) {
    const auto status = (folder / file).status();
    if (!status || status->is_directory) continue;
    const int part = number_behind(file, "part-"), parity = number_behind(file, "parity-");
    if (part >= 0 && part < map.ranks() && status->size == map.part_bytes[nth(part)]) {
      stocked.parts.push_back(part);
    }
    if (parity < 0 || parity >= map.ranks()) continue;
    const int node = map.node_of[nth(parity)];
    const auto& set = sets.set(sets.set_of(node));
    if (set.code.parity > 0 && status->size == parity_bytes(set, sets.member_of(node), parity)) {
      stocked.parities.push_back(parity);
    }
  }
  return stocked;
}

void add_copies(std::vector<LocalSave>& saves, SaveMap map, int node, Stocked stocked, int home) {
  auto at = std::find_if(saves.begin(), saves.end(),
                         [&](const auto& one) { return one.map.uuid == map.uuid; });
  if (at == saves.end()) {
    LocalSave save;
    save.map = std::move(map);
    save.home = home;
    at = saves.insert(saves.end(), std::move(save));
  }
  for (auto* list : {&stocked.parts, &stocked.parities}) {
    std::erase_if(*list, [&](int rank) { return rank < 0 || rank >= at->map.ranks(); });
  }
  at->copies.push_back({node, std::move(stocked.parts), std::move(stocked.parities)});
}

void supersede(std::vector<LocalSave>& saves, std::int64_t parent, std::int64_t sequence) {
  for (auto& save : saves) {
    save.superseded =
        save.superseded || (save.map.sequence > parent && save.map.sequence < sequence);
  }
}

void resolve_saves(std::vector<LocalSave>& saves) {
  for (auto& save : saves) save.choose_copies();
  std::sort(saves.begin(), saves.end(),
            [](const auto& a, const auto& b) { return a.map.sequence > b.map.sequence; });
  // The parent of each save tells which of the older ones its run has left behind.
  for (std::size_t i = 0; i < saves.size(); ++i) {
    supersede(saves, saves[i].map.parent, saves[i].map.sequence);
  }
}

bool remove_save(io::FileSystem& files, const io::Path& folder, bool sync) {
  try {
    if (files.is_link(folder)) {  // a link is not Cairn's, so what it leads to stays
      files.remove(folder);
      return true;
    }
    io::try_remove(files, folder / map_name);
    if (sync) files.sync_directory(folder);
    for (const auto& file : files.list(folder)) files.remove(folder / file);
    files.remove_directory(folder);
    return true;
  } catch (const Error& error) {
    log(LogLevel::warning, cat("a checkpoint on this node stays: ", error.what()));
    return false;
  }
}

void remove_own_save(io::FileSystem& files, const io::Path& folder, const std::string& home) {
  const auto its = files.is_link(folder) ? std::string() : home_of(files, folder);
  if (its.empty() || its == home) {
    remove_save(files, folder);
  } else {
    log(LogLevel::warning, cat(folder.string(), " stays: it belongs to another directory"));
  }
}

}  // namespace cairn::tier
