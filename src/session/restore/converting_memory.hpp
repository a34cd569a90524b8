#pragma once
/// Conversion on the way into the application's memory.
#include <memory>
#include <string>

#include "cairn/restore_options.hpp"
#include "cairn/state.hpp"

namespace cairn {

/// A slice of dtype `from` for whoever writes it; what arrives is converted and written to `memory`
/// of dtype `to`, in pieces of bounded size. Throws invalid_argument, naming the value, where it
/// does not fit; `origin` is where the slice begins in the tensor that messages speak of.
std::shared_ptr<SliceMemory> converting_memory(std::string key, DType from, DType to,
                                               Conversion how, Dims origin,
                                               std::shared_ptr<SliceMemory> memory);

}  // namespace cairn
