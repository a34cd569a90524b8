#pragma once
/// The chunk index of a dataset: a B-tree of HDF5's version 1, whose nodes have no checksums of
/// their own. libhdf5 makes its root with the dataset; the commit writes all of its nodes again,
/// when the places of the chunks are known. So neither the commit nor a recovery needs libhdf5.
#include <cstdint>
#include <span>
#include <vector>

#include "cairn/box.hpp"
#include "layout/hdf5/byte_file.hpp"

namespace cairn::hdf5 {

/// The most chunks, or nodes, below a node; HDF5's default.
inline constexpr std::int64_t tree_branches = 64;

/// A chunk's place in the file. Its number counts chunks row-major.
struct ChunkPlace {
  std::int64_t offset = 0, bytes = 0;
  bool filtered = true;  ///< false: it is stored as it is, whatever filters the dataset has
};

/// How many chunks make up a dataset. No extent is 0.
std::int64_t chunk_count(const Dims& shape, const Dims& chunk);
/// Bytes of a node of a dataset of this rank.
std::int64_t tree_node_bytes(std::size_t rank);
/// Bytes of all nodes but the root.
std::int64_t tree_room(std::int64_t chunks, std::size_t rank);

/// Encodes the nodes: the root, at this offset, comes first; the others lie one after the other
/// from `room` on. `chunks`: all of them, by number.
std::vector<Extent> encode_chunk_tree(const Dims& shape, const Dims& chunk, std::int64_t item_bytes,
                                      std::span<const ChunkPlace> chunks, std::int64_t root,
                                      std::int64_t room);

}  // namespace cairn::hdf5
