#pragma once
/// How the library reaches the elements that a rank holds.
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cairn/box.hpp"

namespace cairn {

class StagingMemory;

/// The elements of one slice, wherever they live. Implementations need not be thread-safe; the
/// library calls them from the thread that called it. `part` is relative to the slice's origin.
class SliceMemory {
 public:
  virtual ~SliceMemory() = default;
  /// Copies the elements of part, row-major, to host memory of part.count() elements.
  virtual void read(const Box& part, std::byte* out) const = 0;
  /// The reverse. Throws invalid_argument where the memory is const.
  virtual void write(const Box& part, const std::byte* in) = 0;
  /// Address of the slice if it is host memory, row-major without gaps; else nullptr.
  virtual const std::byte* contiguous() const { return nullptr; }
  virtual std::byte* contiguous_writable() { return nullptr; }
  virtual bool writable() const = 0;
  /// Host memory that the elements' device copies to fastest; null: any host memory is as good.
  virtual std::shared_ptr<StagingMemory> staging() const { return nullptr; }
};

/// The elements of a string tensor, row-major. A string tensor is whole on each rank that has it.
class StringMemory {
 public:
  virtual ~StringMemory() = default;
  virtual std::vector<std::string> get() const = 0;
  virtual void set(std::vector<std::string> values) = 0;
};

}  // namespace cairn
