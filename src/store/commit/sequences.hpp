#pragma once
/// Numbers of commits that no earlier owner has given, or may still give, to a save.
///
/// Which checkpoint is newer is told by sequences alone. An owner that dies may leave a save that
/// is completed much later, and what a new owner cannot read at the moment has a sequence all the
/// same. So each owner durably reserves numbers before it uses one: then whatever earlier owners
/// have left is older. A reservation is an empty file in the directory's private one, whose name
/// says up to where; there is nothing in it that could be torn or unreadable.
#include <cstdint>
#include <optional>

#include "io/file_system.hpp"

namespace cairn::commit {

/// So many at a time. All are below 2^53, so that other languages hold them too.
inline constexpr std::int64_t sequence_block = std::int64_t{1} << 20;
inline constexpr std::int64_t most_sequences = std::int64_t{1} << 53;

/// The last number that any owner has reserved. Nothing where none has, as in directories of
/// earlier versions.
std::optional<std::int64_t> reserved_sequences(io::FileSystem&, const io::Path& directory);

/// The owner. Reserves a block of numbers after `last`, and after what is reserved, up to the one
/// that is returned, durably. Throws no_space where there are none left.
std::int64_t reserve_sequences(io::FileSystem&, const io::Path& directory, std::int64_t last);

}  // namespace cairn::commit
