#pragma once
/// Reports stored tensors that a restore would not use.
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

/// Collective. `maker` is of this rank's state, or null; `wanted` has the stored keys that the
/// state wants. Throws invalid_argument, on all ranks, if no rank wants a tensor below a path that
/// the makers of all ranks want whole. The contents must be the same on all ranks.
void refuse_left_over(Group&, const CheckpointContents&, const TensorFinder&,
                      const detail::StateMaker* maker, const std::set<std::string_view>& wanted);

/// Throws invalid_argument if any key is unused and the options have Unused::error. `where` names
/// the checkpoint, or the other state.
void require_all_used(const RestoreOptions&, const std::string& where,
                      const std::vector<std::string>& unused_keys);

/// The first few of many keys, as text.
std::string some_of(const std::vector<std::string>& keys, std::size_t most = 5);
/// All keys as text. Many keys are grouped by the first part of the path, with the number of each.
std::string groups_of(const std::vector<std::string>& keys);

/// The keys whose memory the application has already, without those in `kept`: a restore has begun
/// to fill these.
std::set<std::string> touched_keys(const State&, const std::set<std::string>& kept);

}  // namespace cairn
