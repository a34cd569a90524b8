#pragma once
/// What a restore would leave in the checkpoint although a state was made to take the form of it.
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/group.hpp"
#include "cairn/restore_options.hpp"
#include "cairn/state.hpp"
#include "session/restore/find_tensor.hpp"

namespace cairn {

/// Collective. `maker`: of this rank's state, or null; `wanted` has the stored keys that it wants.
/// Throws invalid_argument, on all ranks alike, if no rank wants a tensor that lies under a path
/// which the makers of all ranks want whole. The contents are the same on all ranks.
void refuse_left_over(Group&, const CheckpointContents&, const TensorFinder&,
                      const detail::StateMaker* maker, const std::set<std::string_view>& wanted);

/// Throws invalid_argument if there are such keys and Unused::error was asked for. `where`: the
/// checkpoint, or another state.
void require_all_used(const RestoreOptions&, const std::string& where,
                      const std::vector<std::string>& unused_keys);

/// The first few of many keys.
std::string some_of(const std::vector<std::string>& keys, std::size_t most = 5);
/// All of them: a few, or groups by the first part of the path, with their numbers.
std::string groups_of(const std::vector<std::string>& keys);

/// Keys of the state in memory that the application has already, but for those that are kept: what
/// a restore has begun to fill.
std::set<std::string> touched_keys(const State&, const std::set<std::string>& kept);

}  // namespace cairn
