#pragma once
/// Joins what the ranks say of tensors and of the checkpoint into the checkpoint's descriptions.
///
/// Descriptions are a part of the metadata. They are not a tensor, since tensors are a part of the
/// plan, and a value that changes with each step (the time) would end the plan. But every reader of
/// the metadata reads them, so their size is limited. The descriptions of all ranks count, since
/// one rank alone may hold a tensor. If ranks say different things, that is an error, since no rank
/// is more right than another.
#include <memory>

#include "cairn/group.hpp"
#include "cairn/options.hpp"
#include "model/refreshed_state.hpp"

namespace cairn {

/// Local. Throws invalid_argument for what cannot be stored, and for names of dimensions that do
/// not fit a tensor of this rank. Returns true if this rank holds every tensor that is described,
/// and at least one tensor of every group that is described.
bool check_descriptions(const RefreshedState&);

/// Local. Ranks that say the same have the same number; others hardly ever do. The second one is
/// for the attributes that are given as options of a save.
std::uint64_t fingerprint(const Descriptions&);
std::uint64_t fingerprint(const Attributes&);

/// Collective. Returns what the states of all ranks say together, after checking it. Needs one
/// reduction if all ranks say the same and hold the tensors that they describe. Throws what
/// check_descriptions throws, also for the attributes of this save; disagreement if two ranks
/// describe something in two ways, or were given different attributes of the save; not_found if
/// something is described that no rank has.
std::shared_ptr<const Descriptions> agree_on_descriptions(Group&, const RefreshedState&,
                                                          const Attributes& of_save);

/// Adds the attributes of one save, which replace others of the same names. Throws invalid_argument
/// if all descriptions together become too large.
std::shared_ptr<const Descriptions> with_attributes(std::shared_ptr<const Descriptions>,
                                                    const Attributes& of_save);

}  // namespace cairn
