#include <cstring>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/state.hpp"

namespace cairn {
namespace {

// Copies a box between strided and row-major memory; whole innermost runs at once where they are
// contiguous, element by element otherwise.
class HostMemory : public SliceMemory {
 public:
  HostMemory(DType dtype, const void* data, void* writable, Dims extent, Dims strides)
      : item_(static_cast<std::int64_t>(dtype_size(dtype))),
        data_(static_cast<const std::byte*>(data)),
        writable_(static_cast<std::byte*>(writable)),
        strides_(std::move(strides)) {
    if (strides_.empty()) strides_ = row_major_strides(extent);
    empty_ = element_count(extent) == 0;
    contiguous_ = empty_ || is_row_major(extent);
  }

  void read(const Box& part, std::byte* out) const override {
    if (part.empty()) return;
    walk(part, 0, offset_of(part),
         [&](std::int64_t at, std::int64_t elements, std::int64_t stride) {
           if (stride == 1) {
             std::memcpy(out, data_ + at * item_, static_cast<std::size_t>(elements * item_));
             out += elements * item_;
           } else {
             for (std::int64_t i = 0; i < elements; ++i, out += item_) {
               std::memcpy(out, data_ + (at + i * stride) * item_, static_cast<std::size_t>(item_));
             }
           }
         });
  }

  void write(const Box& part, const std::byte* in) override {
    if (!writable_) {
      throw Error(Code::invalid_argument, "the memory of a slice is const",
                  "it was given for saving only", "Restore into memory that may be written.");
    }
    if (part.empty()) return;
    walk(part, 0, offset_of(part),
         [&](std::int64_t at, std::int64_t elements, std::int64_t stride) {
           if (stride == 1) {
             std::memcpy(writable_ + at * item_, in, static_cast<std::size_t>(elements * item_));
             in += elements * item_;
           } else {
             for (std::int64_t i = 0; i < elements; ++i, in += item_) {
               std::memcpy(writable_ + (at + i * stride) * item_, in,
                           static_cast<std::size_t>(item_));
             }
           }
         });
  }

  const std::byte* contiguous() const override { return contiguous_ ? data_ : nullptr; }
  std::byte* contiguous_writable() override { return contiguous_ ? writable_ : nullptr; }
  Footprint footprint() const override {
    Footprint where{data_, strides_, item_};
    for (auto& stride : where.strides) stride *= item_;
    return where;
  }
  // An empty slice of an empty array has no address, and nothing to write.
  bool writable() const override { return writable_ || empty_; }

 private:
  bool is_row_major(const Dims& extent) const {
    std::int64_t expected = 1;
    for (auto d = extent.size(); d-- > 0;) {
      if (extent[d] != 1 && strides_[d] != expected) return false;
      expected *= extent[d];
    }
    return true;
  }

  std::int64_t offset_of(const Box& part) const {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < part.rank(); ++d) offset += part.start[d] * strides_[d];
    return offset;
  }

  template <class Run>
  void walk(const Box& part, std::size_t dim, std::int64_t at, const Run& run) const {
    if (part.rank() == 0) return run(at, 1, 1);
    if (dim + 1 == part.rank()) return run(at, part.extent[dim], strides_[dim]);
    for (std::int64_t i = 0; i < part.extent[dim]; ++i) {
      walk(part, dim + 1, at + i * strides_[dim], run);
    }
  }

  std::int64_t item_;
  const std::byte* data_;
  std::byte* writable_;
  Dims strides_;
  bool contiguous_ = false, empty_ = false;
};

}  // namespace

std::shared_ptr<SliceMemory> host_memory(DType dtype, const void* data, void* writable, Dims extent,
                                         Dims strides) {
  if (dtype_size(dtype) == 0) {
    throw Error(Code::invalid_argument,
                cat("dtype ", dtype_name(dtype), " has no elements of fixed size"), "",
                "Strings are given with cairn::strings.");
  }
  if (!strides.empty() && strides.size() != extent.size()) {
    throw Error(Code::invalid_argument,
                cat("a slice of extent ", shape_text(extent), " has ", strides.size(), " strides"));
  }
  if (!data && element_count(extent) != 0) {
    throw Error(Code::invalid_argument,
                cat("a slice of extent ", shape_text(extent), " has a null pointer"));
  }
  return std::make_shared<HostMemory>(dtype, data, writable, std::move(extent), std::move(strides));
}

}  // namespace cairn
