#pragma once
/// What contestants share: the ranks, a folder, the state, and the same number of plain bytes.
#include <filesystem>
#include <memory>
#include <string>

#include "cairn/cairn.hpp"
#include "raw_io.hpp"
#include "sample.hpp"
#include "turns.hpp"

namespace cairn::bench {

struct Arena {
  Arena(MPI_Comm communicator, const std::filesystem::path& directory, Recipe what);

  Ranks ranks;
  std::shared_ptr<Group> group;
  std::filesystem::path work;  ///< a new folder
  Recipe recipe;
  Sample source;
  Pages plain;  ///< one rank's share of the state's bytes, on whole pages
  std::int64_t step = 0;

  /// The mean over ranks, in whole pages.
  std::size_t bytes_per_rank() const { return plain.bytes().size(); }

  // Collective.
  void settle() const;  ///< writes back dirty pages, which would disturb the next contestant
  void remove(const std::filesystem::path& directory) const;
  void fresh(const std::filesystem::path& directory) const;
};

inline constexpr std::size_t buffered_piece = std::size_t{1} << 20;
inline constexpr std::size_t direct_piece = std::size_t{8} << 20;

using Contestants = std::vector<Contestant>;

/// The first save into an empty directory, and saves over earlier ones.
Contestants save_contests(Arena& arena);
/// save_async beside a copy in memory; the checksum of the bytes.
Contestants async_contests(Arena& arena);
/// Restores from disk, on as many ranks as saved, and on one rank fewer.
Contestants restore_contests(Arena& arena);

/// Saves with other writers, compared with a program that does the same by hand.
Contestants mpi_io_contests(Arena& arena);
Contestants hdf5_contests(Arena& arena);
/// New and recycled files, through the page cache and past it.
Contestants ways_contests(Arena& arena);

}  // namespace cairn::bench
