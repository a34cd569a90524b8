#pragma once
/// Everything that needs neither MPI nor Kokkos.
#include "cairn/box.hpp"
#include "cairn/checkpoint_manager.hpp"
#include "cairn/contents.hpp"
#include "cairn/device.hpp"
#include "cairn/dtype.hpp"
#include "cairn/error.hpp"
#include "cairn/group.hpp"
#include "cairn/log.hpp"
#include "cairn/object_graph.hpp"
#include "cairn/sharding.hpp"
#include "cairn/state.hpp"
