#pragma once
/// What tensors that are given by reference are at one instant, and errors that learn their key.
#include <exception>
#include <string_view>
#include <utility>

#include "cairn/error.hpp"
#include "cairn/state.hpp"

namespace cairn {

/// The tensor as it is now, and so it stays.
LocalTensor looked_at(LocalTensor tensor);

/// The same error, of this tensor, whose key its text names.
Error named(const Error&, std::string_view key);

/// The tensor that a function makes, or one that State::add refuses for the error it threw.
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
