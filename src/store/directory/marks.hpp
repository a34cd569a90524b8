#pragma once
/// Marks: what somebody knows of a checkpoint that no checksum tells. A file
/// .cairn/marked/NAME-STEP each, which names the very save that is meant, and has a checksum. One
/// that is damaged does not count: nothing is lost by a restore that is in vain. They are files of
/// their own, since a tool makes them beside a running job, whose history rank 0 alone writes. They
/// are changed under the lock of the pins.
#include <optional>
#include <string>
#include <vector>

#include "cairn/restart.hpp"
#include "store/directory/catalog.hpp"

namespace cairn {

std::optional<StepMark> find_mark(const Location&, const CatalogEntry&);
void refresh_marks(const Location&, std::vector<CatalogEntry>&);

/// Durable on return. `good` stands until an owner
/// has forgotten what it counted.
void add_mark(const Location&, const CatalogEntry&, StepMark);
/// The same. Nothing if there is none.
void remove_mark(const Location&, std::int64_t step);

/// Why a restart takes an older checkpoint than this one; "": it does not.
std::string why_passed_over(const CatalogEntry&);

}  // namespace cairn
