#include "testing/memory_tree.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace cairn::io {

MemoryTree::MemoryTree() {
  auto node = std::make_shared<MemoryNode>();
  node->directory = true;
  nodes_[root] = std::move(node);
}

const MemoryNode* MemoryTree::find(Inode inode) const {
  const auto found = nodes_.find(inode);
  return found == nodes_.end() ? nullptr : found->second.get();
}

Inode MemoryTree::lookup(Inode directory, const std::string& name) const {
  const auto* node = find(directory);
  if (node == nullptr) return 0;
  const auto entry = node->entries.find(name);
  return entry == node->entries.end() ? 0 : entry->second;
}

std::int64_t MemoryTree::names_of(Inode wanted) const {
  std::int64_t names = 0;
  for (const auto& one : nodes_) {
    for (const auto& [name, inode] : one.second->entries) names += inode == wanted;
  }
  return names;
}

MemoryNode& MemoryTree::writable(Inode inode) {
  auto& node = nodes_.at(inode);
  if (node.use_count() > 1) node = std::make_shared<MemoryNode>(*node);
  return *node;
}

bool MemoryTree::apply(const MemoryOperation& operation, std::size_t limit, double now,
                       std::size_t first) {
  switch (operation.kind) {
    case OperationKind::sync:
    case OperationKind::sync_directory:
      return true;
    case OperationKind::link:
      if (find(operation.inode) == nullptr || find(operation.directory) == nullptr) return false;
      // As in create(): a name that is still taken belongs to something whose removal was lost.
      writable(operation.directory).entries[operation.name] = operation.inode;
      change(operation.inode);
      return true;
    case OperationKind::rename:
      return rename(operation);
    case OperationKind::remove:
    case OperationKind::remove_directory:
      return remove(operation);
    case OperationKind::write:
      return write(operation, limit, now, first);
    case OperationKind::resize: {
      auto* const node = writable_file(operation.inode);
      if (!node) return false;
      resize(*node, static_cast<std::size_t>(operation.offset));
      node->modified_seconds = now;
      change(operation.inode);
      return true;
    }
    case OperationKind::create:
    case OperationKind::create_directory:
      return create(operation, now);
  }
  return false;
}

// The file's node, with bytes that no other tree shares; null: the file is gone.
MemoryNode* MemoryTree::writable_file(Inode inode) {
  if (find(inode) == nullptr) return nullptr;
  auto& node = writable(inode);
  if (node.bytes.use_count() > 1) node.bytes = std::make_shared<std::string>(*node.bytes);
  return &node;
}

bool MemoryTree::write(const MemoryOperation& operation, std::size_t limit, double now,
                       std::size_t first) {
  auto* const node = writable_file(operation.inode);
  if (!node) return false;
  const auto count = std::min(limit, operation.bytes->size());
  const auto offset = static_cast<std::size_t>(operation.offset);
  if (node->bytes->size() < offset + count) resize(*node, offset + count);
  if (first < count) {
    node->bytes->replace(offset + first, count - first, *operation.bytes, first, count - first);
  }
  node->modified_seconds = now;
  change(operation.inode);
  return true;
}

// A name that is still taken belongs to something whose removal was lost. The entry of a directory
// holds one inode: the later one.
bool MemoryTree::create(const MemoryOperation& operation, double now) {
  if (find(operation.directory) == nullptr) return false;
  auto node = std::make_shared<MemoryNode>();
  node->directory = operation.kind == OperationKind::create_directory;
  if (!node->directory) node->bytes = std::make_shared<std::string>();
  node->modified_seconds = now;
  node->change = ++changes_;
  nodes_[operation.inode] = std::move(node);
  writable(operation.directory).entries[operation.name] = operation.inode;
  return true;
}

bool MemoryTree::rename(const MemoryOperation& operation) {
  const Inode moved = lookup(operation.directory, operation.name);
  const auto* directory = find(operation.to_directory);
  if (moved == 0 || directory == nullptr) return false;
  const Inode replaced = lookup(operation.to_directory, operation.to_name);
  if (replaced == moved) return true;
  if (contains(moved, operation.to_directory)) return false;
  if (replaced != 0) {
    const auto *from = find(moved), *to = find(replaced);
    if (from->directory != to->directory || !to->entries.empty()) return false;
  }
  writable(operation.directory).entries.erase(operation.name);
  writable(operation.to_directory).entries[operation.to_name] = moved;
  change(moved);
  return true;
}

bool MemoryTree::remove(const MemoryOperation& operation) {
  const Inode removed = lookup(operation.directory, operation.name);
  if (removed == 0) return false;
  const auto* node = find(removed);
  const bool directory = operation.kind == OperationKind::remove_directory;
  if (node->directory != directory || !node->entries.empty()) return false;
  writable(operation.directory).entries.erase(operation.name);
  change(removed);
  return true;
}

bool MemoryTree::contains(Inode directory, Inode wanted) const {
  if (directory == wanted) return true;
  for (const auto& [name, inode] : find(directory)->entries) {
    if (contains(inode, wanted)) return true;
  }
  return false;
}

void MemoryTree::change(Inode inode) { writable(inode).change = ++changes_; }

void MemoryTree::rot(Inode inode, std::size_t offset) {
  auto& byte = writable_file(inode)->bytes->at(offset);
  byte = static_cast<char>(~byte);
}

void MemoryTree::resize(MemoryNode& node, std::size_t bytes) {
  bytes_ += static_cast<std::int64_t>(bytes) - static_cast<std::int64_t>(node.bytes->size());
  node.bytes->resize(bytes);
}

void MemoryTree::forget(const MemoryNode& node) {
  if (node.bytes) bytes_ -= static_cast<std::int64_t>(node.bytes->size());
}

void MemoryTree::erase(Inode inode) {
  const auto found = nodes_.find(inode);
  if (found == nodes_.end()) return;
  forget(*found->second);
  nodes_.erase(found);
}

void MemoryTree::erase_unreachable() {
  std::set<Inode> reached;
  std::vector<Inode> open = {root};
  while (!open.empty()) {
    const Inode inode = open.back();
    open.pop_back();
    reached.insert(inode);
    for (const auto& [name, child] : find(inode)->entries) open.push_back(child);
  }
  std::erase_if(nodes_, [&](const auto& node) {
    if (reached.contains(node.first)) return false;
    forget(*node.second);
    return true;
  });
}

}  // namespace cairn::io
