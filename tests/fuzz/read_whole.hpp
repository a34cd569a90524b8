#pragma once
/// Reads all of a checkpoint whose bytes anybody may have written.
#include "fuzz/hostile.hpp"
#include "store/contents/contents_reader.hpp"
#include "tools/verify.hpp"

namespace cairn::fuzz {

/// Makes the call, which may throw only what is documented for damage.
template <class Call>
bool only_damage(Call&& call) {
  return only(call, Code::data_loss, Code::unsupported, Code::not_found);
}

/// Looks at the checkpoint, reads each slice of each tensor, and verifies it. Returns whether it
/// could be looked at.
inline bool read_whole(io::FileSystem& files, const io::Path& prefix) {
  verify_checkpoint({files, prefix});
  only_damage([&] { read_summary(files, prefix); });
  CheckpointContents contents;
  if (!only_damage([&] { contents = read_contents(files, prefix, Graph::read); })) return false;
  for (const auto& tensor : contents.tensors) {
    if (!tensor.problem.empty()) continue;
    for (const auto& slice : tensor.slices) {
      only_damage([&] {
        if (tensor.dtype == DType::string) {
          read_string_slice(files, contents, tensor, slice);
        } else {
          read_slice(files, contents, tensor, slice);
        }
      });
    }
  }
  return true;
}

}  // namespace cairn::fuzz
