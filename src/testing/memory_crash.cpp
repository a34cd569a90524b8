#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "testing/memory.hpp"
#include "testing/memory_disk.hpp"

namespace cairn::io {
namespace {

using Kind = OperationKind;

std::vector<std::size_t> not_durable(const std::vector<MemoryOperation>& record,
                                     std::size_t stop_after) {
  std::vector<std::size_t> indices;
  std::set<Inode> synced_later;
  for (std::size_t i = stop_after; i-- > 0;) {
    const auto& operation = record[i];
    Inode needed = operation.directory;
    switch (operation.kind) {
      case Kind::sync:
      case Kind::sync_directory:
        synced_later.insert(operation.inode);
        continue;
      case Kind::write:
      case Kind::resize:
        needed = operation.inode;
        break;
      case Kind::rename:
        needed = operation.to_directory;
        break;
      default:
        break;
    }
    if (!synced_later.contains(needed)) indices.push_back(i);
  }
  std::reverse(indices.begin(), indices.end());
  return indices;
}

void require_count(std::size_t stop_after, std::size_t count) {
  if (stop_after > count) {
    throw Error(Code::invalid_argument, cat("there was no operation number ", stop_after),
                cat("only ", count, " are recorded"));
  }
}

}  // namespace

std::size_t MemoryFileSystem::operation_count() const {
  const MutexLock guard(disk_->mutex);
  return disk_->record.size();
}

std::string MemoryFileSystem::operation_text(std::size_t index) const {
  const MutexLock guard(disk_->mutex);
  return disk_->record.at(index).text;
}

void MemoryFileSystem::mark() {
  const MutexLock guard(disk_->mutex);
  disk_->beginning = disk_->tree;
  disk_->record.clear();
}

std::vector<std::size_t> MemoryFileSystem::unsynced(std::size_t stop_after) const {
  const MutexLock guard(disk_->mutex);
  require_count(stop_after, disk_->record.size());
  return not_durable(disk_->record, stop_after);
}

std::shared_ptr<MemoryFileSystem> MemoryFileSystem::crash(std::size_t stop_after,
                                                          const CrashChoice& choice) const {
  auto after = std::make_shared<MemoryFileSystem>();
  const MutexLock guard(disk_->mutex);
  require_count(stop_after, disk_->record.size());
  const auto open = not_durable(disk_->record, stop_after);
  const std::set<std::size_t> undecided(open.begin(), open.end());
  const std::set<std::size_t> except(choice.except.begin(), choice.except.end());
  if (choice.tear && (!undecided.contains(choice.tear->operation) ||
                      disk_->record[choice.tear->operation].kind != Kind::write)) {
    throw Error(Code::invalid_argument,
                cat("operation ", choice.tear->operation, " is no write that can be torn"));
  }
  const MutexLock fresh(after->disk_->mutex);
  auto& tree = after->disk_->tree;
  tree = disk_->beginning;
  for (std::size_t i = 0; i < stop_after; ++i) {
    std::size_t limit = std::string::npos, first = 0;
    if (choice.tear && choice.tear->operation == i) {
      const auto size = disk_->record[i].bytes->size(), part = std::min(choice.tear->bytes, size);
      choice.tear->last ? first = size - part : limit = part;
    } else if (undecided.contains(i) && choice.keep == except.contains(i)) {
      continue;
    }
    tree.apply(disk_->record[i], limit, 0, first);
  }
  tree.erase_unreachable();
  after->disk_->beginning = tree;
  after->disk_->next_inode = disk_->next_inode;
  after->disk_->linked = disk_->linked;
  after->disk_->capacity = disk_->capacity;
  after->disk_->renames = disk_->renames;
  after->disk_->shares = disk_->shares;
  after->disk_->clock = disk_->clock;
  return after;
}

std::vector<CrashChoice> MemoryFileSystem::crash_choices(std::size_t stop_after,
                                                         std::int64_t block_bytes) const {
  const MutexLock guard(disk_->mutex);
  require_count(stop_after, disk_->record.size());
  const auto open = not_durable(disk_->record, stop_after);
  std::vector<CrashChoice> choices = {{.keep = true, .except = {}, .tear = {}}};
  if (open.empty()) return choices;
  choices.push_back({.keep = false, .except = {}, .tear = {}});
  // With one or two undecided operations, some of the single choices are the same.
  for (const bool keep : {true, false}) {
    if (open.size() < (keep ? 2u : 3u)) continue;
    for (const std::size_t i : open) choices.push_back({.keep = keep, .except = {i}, .tear = {}});
  }
  for (const std::size_t i : open) {
    const auto& operation = disk_->record[i];
    if (operation.kind != Kind::write) continue;
    const auto size = static_cast<std::int64_t>(operation.bytes->size());
    const auto tear = [&](std::int64_t bytes, bool last = false) {
      choices.push_back({.keep = true,
                         .except = {},
                         .tear = CrashChoice::Tear{i, static_cast<std::size_t>(bytes), last}});
    };
    const auto first = block_bytes - operation.offset % block_bytes;
    for (auto bytes = first; bytes < size; bytes += block_bytes) tear(bytes);
    if (first < size) tear(size - first, true);
    if (first >= size && size > 1) tear(size / 2);
  }
  return choices;
}

std::string MemoryFileSystem::describe(std::size_t stop_after, const CrashChoice& choice) const {
  const MutexLock guard(disk_->mutex);
  require_count(stop_after, disk_->record.size());
  const auto text = [&](std::size_t i) CAIRN_REQUIRES(disk_->mutex) {
    return cat("#", i, " ", disk_->record.at(i).text);
  };
  std::string words = stop_after == 0 ? "stopped before the first operation"
                                      : "stopped after " + text(stop_after - 1);
  words += choice.keep ? "; what was not durable is kept" : "; what was not durable is lost";
  for (const auto i : choice.except) words += ", but for " + text(i);
  if (choice.tear) {
    words += cat("; only ", choice.tear->bytes, choice.tear->last ? " last" : "", " bytes of ",
                 text(choice.tear->operation));
  }
  return words;
}

void MemoryFileSystem::inject(Fault fault) {
  const MutexLock guard(disk_->mutex);
  disk_->faults.push_back(std::move(fault));
}

void MemoryFileSystem::clear_faults() {
  const MutexLock guard(disk_->mutex);
  disk_->faults.clear();
}

void MemoryFileSystem::rot(const Path& path, std::int64_t offset) {
  const MutexLock guard(disk_->mutex);
  disk_->tree.rot(disk_->find(path, "open file"), static_cast<std::size_t>(offset));
}

void MemoryFileSystem::share_space() {
  const MutexLock guard(disk_->mutex);
  disk_->shares = true;
}

void MemoryFileSystem::refuse_renames() {
  const MutexLock guard(disk_->mutex);
  disk_->renames = false;
}

void MemoryFileSystem::set_capacity(std::int64_t bytes) {
  const MutexLock guard(disk_->mutex);
  disk_->capacity = bytes;
}

void MemoryFileSystem::set_observer(std::function<void(const std::string&)> observer) {
  const MutexLock guard(disk_->mutex);
  disk_->observer = std::move(observer);
}

void MemoryFileSystem::set_clock(std::function<double()> clock) {
  const MutexLock guard(disk_->mutex);
  disk_->clock = std::move(clock);
}

}  // namespace cairn::io
