#pragma once
/// Lets all ranks plan an exchange together.
#include "exchange/spread.hpp"
#include "group/collectives.hpp"

namespace cairn {

/// Collective. What each rank wants is in its `spread`. Fails on all ranks alike.
plan::RankPlan plan_together(Group&, plan::Spread& spread);
/// The same where sources have holders.
plan::RankPlan order_together(Group&, plan::Spread& spread);

}  // namespace cairn
