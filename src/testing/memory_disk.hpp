#pragma once
/// What MemoryFileSystem, its files and its locks share.
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "testing/memory.hpp"
#include "testing/memory_tree.hpp"

namespace cairn::io {

/// All members but observe() are called with `mutex` held.
struct MemoryFileSystem::Disk {
  struct Place {
    Inode directory = 0;
    std::string name;
    Inode inode = 0;  ///< 0: no such entry
  };

  std::mutex mutex;
  MemoryTree beginning;  ///< durable, before the first operation
  MemoryTree tree;       ///< as processes see it
  std::vector<MemoryOperation> record;
  Inode next_inode = MemoryTree::root + 1;
  std::map<Inode, int> open;
  std::set<Inode> nameless;  ///< removed, but open
  std::set<Inode> linked;    ///< that have had a second name
  std::set<Inode> locked;
  std::vector<Fault> faults;
  bool renames = true;
  std::int64_t capacity = std::int64_t{1} << 40;
  std::function<void(const std::string&)> observer;
  std::function<double()> clock;

  static std::string text_of(const Path&);
  void observe(const std::string& text);
  /// Throws if an injected fault matches.
  void fail_if_told(const std::string& kind, const std::string& action, const Path&,
                    const Path& second = {});
  Inode directory(const Path&, const std::string& action) const;
  Inode find(const Path&, const std::string& action) const;  ///< 0: not there
  Place place(const Path&, const std::string& action) const;
  void carry_out(MemoryOperation);
  void opened(Inode);
  void closed(Inode);
  std::int64_t names_of(Inode) const;
  void lost_name(Inode);  ///< a directory has no entry of it any more, where it had one
};

}  // namespace cairn::io
