#pragma once
/// Descriptions of tensors as messages between ranks.
#include <tuple>

#include "base/wire.hpp"
#include "cairn/contents.hpp"

namespace cairn {

/// Problems and gaps do not travel: the rank that finds them reports them.
template <>
inline constexpr auto travels<StoredTensor> =
    std::tuple{&StoredTensor::key, &StoredTensor::dtype, &StoredTensor::shape,
               &StoredTensor::sliced, &StoredTensor::slices};

}  // namespace cairn
