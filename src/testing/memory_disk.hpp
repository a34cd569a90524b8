#pragma once
/// Shared by MemoryFileSystem, its files and its locks.
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "testing/memory.hpp"
#include "testing/memory_tree.hpp"

namespace cairn::io {

struct MemoryFileSystem::Disk {
  struct Place {
    Inode directory = 0;
    std::string name;
    Inode inode = 0;  ///< 0: no such entry
  };

  Mutex mutex;
  MemoryTree beginning CAIRN_GUARDED_BY(mutex);  ///< durable, before the first operation
  MemoryTree tree CAIRN_GUARDED_BY(mutex);       ///< as processes see it
  std::vector<MemoryOperation> record CAIRN_GUARDED_BY(mutex);
  Inode next_inode CAIRN_GUARDED_BY(mutex) = MemoryTree::root + 1;
  std::map<Inode, int> open CAIRN_GUARDED_BY(mutex);
  std::set<Inode> nameless CAIRN_GUARDED_BY(mutex);  ///< removed, but open
  std::set<Inode> linked CAIRN_GUARDED_BY(mutex);    ///< inodes that have had a second name
  std::set<Inode> locked CAIRN_GUARDED_BY(mutex);
  std::vector<Fault> faults CAIRN_GUARDED_BY(mutex);
  bool renames CAIRN_GUARDED_BY(mutex) = true;
  bool shares CAIRN_GUARDED_BY(mutex) = false;  ///< space among files
  std::int64_t capacity CAIRN_GUARDED_BY(mutex) = std::int64_t{1} << 40;
  std::function<void(const std::string&)> observer CAIRN_GUARDED_BY(mutex);
  std::function<double()> clock CAIRN_GUARDED_BY(mutex);

  static std::string text_of(const Path&);
  void observe(const std::string& text);
  /// Throws if an injected fault matches.
  void fail_if_told(const std::string& kind, const std::string& action, const Path&,
                    const Path& second = {}) CAIRN_REQUIRES(mutex);
  Inode directory(const Path&, const std::string& action) const CAIRN_REQUIRES(mutex);
  Inode find(const Path&, const std::string& action) const CAIRN_REQUIRES(mutex);  ///< 0: not there
  Place place(const Path&, const std::string& action) const CAIRN_REQUIRES(mutex);
  void carry_out(MemoryOperation) CAIRN_REQUIRES(mutex);
  void opened(Inode) CAIRN_REQUIRES(mutex);
  void closed(Inode) CAIRN_REQUIRES(mutex);
  std::int64_t names_of(Inode) const CAIRN_REQUIRES(mutex);
  /// Called when a directory has lost its entry of the inode. Without names, the inode goes when
  /// nobody has it open.
  void lost_name(Inode) CAIRN_REQUIRES(mutex);
};

}  // namespace cairn::io
