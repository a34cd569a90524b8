#pragma once
/// Errors of an index as a whole. What is wrong with one tensor goes into its `problem` instead.
#include <string>

#include "cairn/error.hpp"

namespace cairn::bundle {

/// Throws the error of an index that cannot be trusted as a whole.
[[noreturn]] inline void damaged(std::string reason) {
  throw Error(Code::data_loss, "the checkpoint's index is damaged", std::move(reason),
              "Use another checkpoint.");
}

/// Throws the error of an index of another version, which may be sound.
[[noreturn]] inline void of_another_version(std::string reason) {
  throw Error(Code::unsupported, "the checkpoint's index is of another version", std::move(reason),
              "Read it with the version that wrote it, or a later one.");
}

}  // namespace cairn::bundle
