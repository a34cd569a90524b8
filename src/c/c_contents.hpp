#pragma once
/// The contents of a checkpoint in the form that C programs read.
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cairn/bundle.hpp"
#include "cairn/c/contents.h"
#include "cairn/contents.hpp"

struct cairn_contents {
  /// Elements are read through a BundleReader of the same prefix.
  explicit cairn_contents(cairn::CheckpointContents told);
  cairn_contents(const cairn_contents&) = delete;
  cairn_contents& operator=(const cairn_contents&) = delete;

  cairn::CheckpointContents contents;
  mutable std::unique_ptr<cairn::BundleReader> reader;  // made when it is first needed
  cairn_info info{};
  std::deque<cairn_tensor> tensors;
  std::string attribute;
  std::vector<std::string> strings;
  std::vector<const char*> string_pointers;
  std::vector<size_t> string_sizes;

 private:
  std::deque<std::vector<cairn_stored_slice>> slices_;
  std::deque<std::vector<const cairn_stored_slice*>> slice_pointers_;
  std::deque<std::vector<const char*>> dimensions_;
};
