#pragma once
/// What ranks say of tensors and of the checkpoint becomes what the checkpoint says.
///
/// Descriptions are a part of the metadata and not a tensor. A tensor is a part of the plan, which
/// a value that changes with each step (the time) would end. But every reader of the metadata reads
/// them, so their size is limited. All ranks' descriptions count, since one rank alone may hold a
/// tensor. Ranks that say different things get an error: none of them is more right than another.
#include <memory>

#include "cairn/group.hpp"
#include "cairn/options.hpp"
#include "model/refreshed_state.hpp"

namespace cairn {

/// Local. Throws invalid_argument for what cannot be stored, and for names of dimensions that do
/// not fit a tensor of this rank. True: all tensors that are described are of this rank, or are
/// groups of which it has one.
bool check_descriptions(const RefreshedState&);

/// Local. Two ranks that say the same, and are given the same options, have the same number; others
/// hardly ever.
std::uint64_t fingerprint(const Descriptions&);
std::uint64_t fingerprint(const Attributes&);

/// Collective. What the states of all ranks say together, once it is proved sound: one reduction
/// where all say the same of tensors that they have. Throws what check_descriptions throws, also
/// for the attributes of this save; disagreement where two ranks describe something in two ways, or
/// have other attributes of the save; not_found for a description of what no rank has.
std::shared_ptr<const Descriptions> agree_on_descriptions(Group&, const RefreshedState&,
                                                          const Attributes& of_save);

/// With the attributes of one save, which replace those of the same names. Throws invalid_argument
/// if all that is said becomes too much.
std::shared_ptr<const Descriptions> with_attributes(std::shared_ptr<const Descriptions>,
                                                    const Attributes& of_save);

}  // namespace cairn
