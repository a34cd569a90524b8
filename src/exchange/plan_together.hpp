#pragma once
/// Lets all ranks plan an exchange together.
#include "exchange/spread.hpp"
#include "group/collectives.hpp"

namespace cairn {

/// Collective. `spread` has what this rank wants. Fails on all ranks alike.
plan::RankPlan plan_together(Group&, plan::Spread& spread);
/// The same if it is known who acquires (Setting::holder, Setting::writer).
plan::RankPlan order_together(Group&, plan::Spread& spread);

}  // namespace cairn
