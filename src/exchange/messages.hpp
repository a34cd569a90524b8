#pragma once
/// How descriptions travel between ranks.
#include <tuple>

#include "base/wire.hpp"
#include "cairn/contents.hpp"

namespace cairn {

/// Whoever finds problems and gaps tells of them.
template <>
inline constexpr auto travels<StoredTensor> =
    std::tuple{&StoredTensor::key, &StoredTensor::dtype, &StoredTensor::shape,
               &StoredTensor::sliced, &StoredTensor::slices};

}  // namespace cairn
