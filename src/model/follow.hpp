#pragma once
/// Reads tensors that were given by reference as they are at one instant. Adds the key of a tensor
/// to errors.
#include <exception>
#include <string_view>
#include <utility>

#include "cairn/error.hpp"
#include "cairn/state.hpp"

namespace cairn {

/// The tensor as it is now, without its source: it does not follow later changes.
LocalTensor looked_at(LocalTensor tensor);

/// The same error with the key of its tensor, also in its text.
Error named(const Error&, std::string_view key);

/// The tensor that a function makes or, if the function throws, one that State::add refuses with
/// that error.
template <class Make>
LocalTensor or_refused(Make&& make) {
  try {
    return make();
  } catch (const Error& error) {
    LocalTensor tensor;
    tensor.refused = std::make_shared<const Error>(error);
    return tensor;
  }
}

}  // namespace cairn
