#pragma once
/// The memory that holds the elements of slices, of any kind.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/dtype.hpp"

namespace cairn {

class StagingMemory;

/// Where the elements of a slice lie: at fixed strides from the first one. The footprint of a
/// single object, such as a vector without regard to its elements, has no strides.
struct Footprint {
  const std::byte* first = nullptr;  ///< null: not known
  Dims strides = {};                 ///< in bytes, one per dimension
  std::int64_t element_bytes = 0;
};

/// The footprint of a single object.
template <class Object>
Footprint footprint_of(const Object& object) {
  return {reinterpret_cast<const std::byte*>(&object), {}, sizeof(Object)};
}

/// The elements of one slice, wherever they live. Implementations need not be thread-safe: the
/// library calls them from the thread that called it, except for_any_thread(). So several threads
/// call them if these save one state at the same time. `part` is relative to the slice's origin.
class SliceMemory {
 public:
  virtual ~SliceMemory() = default;
  /// Copies the elements of part, row-major, to host memory of part.count() elements.
  virtual void read(const Box& part, std::byte* out) const = 0;
  struct Read {
    Box part;
    std::byte* out = nullptr;
  };
  /// Several reads. A device does not wait after each.
  virtual void read_all(std::span<const Read> parts) const {
    for (const auto& one : parts) read(one.part, one.out);
  }
  /// The reverse. Throws invalid_argument where the memory is const.
  virtual void write(const Box& part, const std::byte* in) = 0;
  /// Address of the slice if it is host memory, row-major without gaps; else nullptr.
  virtual const std::byte* contiguous() const { return nullptr; }
  virtual std::byte* contiguous_writable() { return nullptr; }
  virtual bool writable() const = 0;
  /// Memory with the same elements, as long as this object lives: any thread may call its read()
  /// and read_all() while nobody writes the elements. What computes them is complete when this
  /// returns. Null: there is none. A save with Until::released copies such a slice at the call,
  /// unless it is contiguous().
  virtual std::shared_ptr<const SliceMemory> for_any_thread() const { return nullptr; }
  /// In the memory of the host or of a device. It shows whether slices share memory, which a
  /// restore must not write twice.
  virtual Footprint footprint() const { return {}; }
  /// Host memory to which the elements' device copies fastest; null: any host memory is as good.
  virtual std::shared_ptr<StagingMemory> staging() const { return nullptr; }
};

/// The elements of a string tensor, row-major. A string tensor is whole on each rank that has it.
class StringMemory {
 public:
  virtual ~StringMemory() = default;
  virtual std::vector<std::string> get() const = 0;
  virtual void set(std::vector<std::string> values) = 0;
  /// The memory that set() changes: the object that holds the strings, or the bytes of fixed
  /// strings.
  virtual Footprint footprint() const { return {}; }
};

/// Host memory with strides in elements (empty: row-major contiguous). The caller keeps it alive as
/// long as the State is used. A null `writable` makes it save-only. Throws invalid_argument for
/// strides so large that offsets of elements exceed the address space.
std::shared_ptr<SliceMemory> host_memory(DType dtype, const void* data, void* writable, Dims extent,
                                         Dims strides);

}  // namespace cairn
