// A node: "TREE", type 1, level, entries, the nodes on its left and right; then a key, a child, a
// key, and so on, up to a last key. A key is the size of a chunk, its filter mask, and where it
// begins in each dimension; in the last one, that of the bytes of an element, it is 0. All nodes of
// a level but the last one are full.
#include "layout/hdf5/chunk_tree.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::hdf5 {
namespace {

constexpr std::uint64_t no_address = ~std::uint64_t{0};
// Bits 0 and 1: a dataset has at most two filters.
constexpr std::uint32_t no_filters = 3;
constexpr std::int64_t header_bytes = 24;

std::int64_t divided(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

class Tree {
 public:
  Tree(const Dims& shape, const Dims& chunk, std::int64_t item_bytes,
       std::span<const ChunkPlace> chunks, std::int64_t root, std::int64_t room)
      : chunk_(chunk), item_(item_bytes), chunks_(chunks), root_(root), next_(room) {
    for (std::size_t d = 0; d < shape.size(); ++d) along_.push_back(divided(shape[d], chunk[d]));
  }

  std::vector<Extent> encode() {
    std::vector<std::int64_t> children;
    for (const auto& one : chunks_) children.push_back(one.offset);
    // Chunks below each child of the present level; the last child may have fewer.
    std::int64_t below = 1;
    for (std::uint8_t level = 0;; ++level, below *= tree_branches) {
      const auto nodes = divided(std::ssize(children), tree_branches);
      std::vector<std::int64_t> places;
      for (std::int64_t n = 0; n < nodes; ++n) places.push_back(place(nodes == 1));
      for (std::int64_t n = 0; n < nodes; ++n) put_node(level, n, places, children, below);
      if (nodes == 1) break;
      children = std::move(places);
    }
    std::swap(nodes_.front(), nodes_.back());
    return std::move(nodes_);
  }

 private:
  std::int64_t place(bool is_root) {
    if (is_root) return root_;
    const auto at = next_;
    next_ += tree_node_bytes(chunk_.size());
    return at;
  }

  template <class T>
  void put(T number) {
    for (std::size_t b = 0; b < sizeof number; ++b) {
      bytes_ += static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * b));
    }
  }

  // The key of a chunk, or the one behind the last chunk.
  void put_key(std::int64_t number) {
    const auto count = std::ssize(chunks_);
    const bool is_end = number >= count;
    const auto& chunk = chunks_[static_cast<std::size_t>(is_end ? count - 1 : number)];
    put(is_end ? std::uint32_t{0} : static_cast<std::uint32_t>(chunk.bytes));
    put(is_end || chunk.filtered ? std::uint32_t{0} : no_filters);
    auto rest = is_end ? count - 1 : number;
    Dims start(chunk_.size());
    for (auto d = chunk_.size(); d > 0; --d) {
      start[d - 1] = (rest % along_[d - 1] + (is_end ? 1 : 0)) * chunk_[d - 1];
      rest /= along_[d - 1];
    }
    for (const auto one : start) put(static_cast<std::uint64_t>(one));
    put(static_cast<std::uint64_t>(is_end ? item_ : 0));
  }

  void put_node(std::uint8_t level, std::int64_t number, const std::vector<std::int64_t>& places,
                const std::vector<std::int64_t>& children, std::int64_t below) {
    const auto first = number * tree_branches;
    const auto end = std::min(first + tree_branches, std::ssize(children));
    const auto neighbour = [&](std::int64_t n) {
      return n < 0 || n >= std::ssize(places)
                 ? no_address
                 : static_cast<std::uint64_t>(places[static_cast<std::size_t>(n)]);
    };
    bytes_ = "TREE";
    put(std::uint8_t{1});
    put(level);
    put(static_cast<std::uint16_t>(end - first));
    put(neighbour(number - 1));
    put(neighbour(number + 1));
    for (auto c = first; c < end; ++c) {
      put_key(c * below);
      put(static_cast<std::uint64_t>(children[static_cast<std::size_t>(c)]));
    }
    put_key(std::min(end * below, std::ssize(chunks_)));
    bytes_.resize(static_cast<std::size_t>(tree_node_bytes(chunk_.size())));
    nodes_.push_back({places[static_cast<std::size_t>(number)], std::move(bytes_)});
  }

  const Dims& chunk_;
  const std::int64_t item_;
  const std::span<const ChunkPlace> chunks_;
  const std::int64_t root_;
  std::int64_t next_;  // where the next node goes that is not the root
  Dims along_;         // chunks in each dimension
  std::string bytes_;  // of the present node
  std::vector<Extent> nodes_;
};

}  // namespace

std::int64_t chunk_count(const Dims& shape, const Dims& chunk) {
  std::int64_t count = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) count *= divided(shape[d], chunk[d]);
  return count;
}

std::int64_t tree_node_bytes(std::size_t rank) {
  const auto key_bytes = 8 + 8 * (static_cast<std::int64_t>(rank) + 1);
  return header_bytes + 8 * tree_branches + (tree_branches + 1) * key_bytes;
}

std::int64_t tree_room(std::int64_t chunks, std::size_t rank) {
  std::int64_t nodes = 0;
  while ((chunks = divided(chunks, tree_branches)) > 1) nodes += chunks;
  return nodes * tree_node_bytes(rank);
}

std::vector<Extent> encode_chunk_tree(const Dims& shape, const Dims& chunk, std::int64_t item_bytes,
                                      std::span<const ChunkPlace> chunks, std::int64_t root,
                                      std::int64_t room) {
  if (std::ssize(chunks) != chunk_count(shape, chunk)) {
    throw Error(Code::internal,
                cat("a dataset of ", chunk_count(shape, chunk), " chunks has ", chunks.size()));
  }
  return Tree(shape, chunk, item_bytes, chunks, root, room).encode();
}

}  // namespace cairn::hdf5
