#pragma once
/// The files and directories of the double in memory, and the operations that change them. The cost
/// of a copy grows with the number of files; their bytes are shared until they are written.
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace cairn::io {

using Inode = std::uint64_t;

enum class OperationKind {
  create,
  write,
  resize,
  sync,
  link,
  rename,
  remove,
  create_directory,
  remove_directory,
  sync_directory
};

/// An operation in terms of inodes: a file keeps its identity if directories above it move.
struct MemoryOperation {
  OperationKind kind;
  Inode inode = 0;      ///< made, written, synced (also a directory) or given a name
  Inode directory = 0;  ///< where `name` is made, removed or renamed from
  std::string name = {};
  Inode to_directory = 0;  ///< of a rename
  std::string to_name = {};
  std::int64_t offset = 0;  ///< of a write; of a resize the new size
  std::shared_ptr<const std::string> bytes = {};
  std::string text = {};  ///< "write /d/f [0, 4096)"
};

struct MemoryNode {
  bool directory = false;
  std::map<std::string, Inode> entries;  ///< of a directory
  std::shared_ptr<std::string> bytes;    ///< of a file
  double modified_seconds = 0;
  std::int64_t change = 0;  ///< the number of the last change of its bytes or names
};

class MemoryTree {
 public:
  static constexpr Inode root = 1;
  MemoryTree();

  /// Null if it is not there.
  const MemoryNode* find(Inode) const;
  /// The inode of this name in the directory; 0: none.
  Inode lookup(Inode directory, const std::string& name) const;
  /// How many entries of directories lead to it.
  std::int64_t names_of(Inode) const;

  /// Carries the operation out; of a write only the bytes from `first` up to `limit`. Returns false
  /// and changes nothing if something that it needs is missing (after a crash that lost an earlier
  /// operation).
  bool apply(const MemoryOperation&, std::size_t limit = std::string::npos, double now = 0,
             std::size_t first = 0);
  void erase(Inode);
  void erase_unreachable();  ///< nodes that no name leads to
  /// Flips all bits of a byte, as a bad disk does: nothing else changes.
  void rot(Inode, std::size_t offset);

  std::int64_t bytes_used() const { return bytes_; }

 private:
  MemoryNode* writable_file(Inode);
  bool write(const MemoryOperation&, std::size_t limit, double now, std::size_t first);
  bool create(const MemoryOperation&, double now);
  bool rename(const MemoryOperation&);
  bool remove(const MemoryOperation&);
  bool contains(Inode directory, Inode wanted) const;
  MemoryNode& writable(Inode);
  void change(Inode);
  void resize(MemoryNode&, std::size_t bytes);
  void forget(const MemoryNode&);  ///< subtracts its bytes from the sum

  std::map<Inode, std::shared_ptr<MemoryNode>> nodes_;
  std::int64_t bytes_ = 0;  // of all files
  std::int64_t changes_ = 0;
};

}  // namespace cairn::io
