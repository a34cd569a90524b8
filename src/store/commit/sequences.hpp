#pragma once
/// Numbers of commits that no earlier owner has given to a save, or may still give.
///
/// Only sequences tell which checkpoint is newer. An owner that dies may leave a save that is
/// completed much later, and a checkpoint that a new owner cannot read at the moment still has a
/// sequence. So each owner durably reserves numbers before it uses one: then all that earlier
/// owners have left is older. A reservation is an empty file in the directory's private one. Its
/// name says up to where, and it has no contents that could be torn or unreadable.
#include <cstdint>
#include <optional>

#include "io/file_system.hpp"

namespace cairn::commit {

/// How many numbers are reserved at a time. All numbers are below 2^53, which other languages can
/// represent, too.
inline constexpr std::int64_t sequence_block = std::int64_t{1} << 20;
inline constexpr std::int64_t most_sequences = std::int64_t{1} << 53;

/// The last number that any owner has reserved. Nothing if no owner has, as in directories of
/// earlier versions.
std::optional<std::int64_t> reserved_sequences(io::FileSystem&, const io::Path& directory);

/// Called by the owner. Durably reserves a block of numbers after `last` and after all reserved
/// ones. Returns the last number of the block. Throws no_space if no numbers are left.
std::int64_t reserve_sequences(io::FileSystem&, const io::Path& directory, std::int64_t last);

}  // namespace cairn::commit
