#pragma once
#include <string>

#include "cairn/error.hpp"

namespace cairn::bundle {

/// Throws the error of an index that cannot be trusted as a whole.
[[noreturn]] inline void damaged(std::string reason) {
  throw Error(Code::data_loss, "the checkpoint's index is damaged", std::move(reason),
              "Use another checkpoint.");
}

}  // namespace cairn::bundle
