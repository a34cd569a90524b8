#pragma once
/// Converts values on their way into the application's memory.
#include <memory>
#include <string>

#include "cairn/restore_options.hpp"
#include "cairn/state.hpp"

namespace cairn {

/// Returns memory to which values of dtype `from` are written. It converts them and writes them to
/// `memory`, of dtype `to`, in pieces of bounded size. A write throws invalid_argument, with the
/// value, if a value does not fit into `to`. `origin` is where the slice begins in the tensor;
/// error messages need it.
std::shared_ptr<SliceMemory> converting_memory(std::string key, DType from, DType to,
                                               Conversion how, Dims origin,
                                               std::shared_ptr<SliceMemory> memory);

}  // namespace cairn
