// Turns Fortran's descriptors of arrays into tensors. The only source that knows them.
#include "fortran/descriptors.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cairn/error.hpp"

namespace cairn::fortran {
namespace {

[[noreturn]] void refuse(std::string problem, std::string way_out) {
  throw Error(Code::invalid_argument, std::move(problem), "", std::move(way_out));
}

// gfortran numbers a type by its class and, above that, its kind.
enum class Class { integer = 1, logical = 2, real = 3, complex = 4, character = 5 };
Class class_of(const CFI_cdesc_t& array) { return static_cast<Class>(array.type & 0xff); }

// The elements in Fortran's order, which is the row-major order of the reversed dimensions.
template <class Visit>
void each_element(const CFI_cdesc_t& array, const Box& part, const Visit& visit) {
  std::int64_t left = part.count();
  if (left == 0) return;
  const auto dims = part.rank();
  Dims index(dims, 0);
  for (; left > 0; --left) {
    auto* at = static_cast<std::byte*>(array.base_addr);
    for (std::size_t d = 0; d < dims; ++d) {
      at += (part.start[d] + index[d]) * array.dim[dims - 1 - d].sm;
    }
    visit(at);
    for (auto d = dims; d-- > 0 && ++index[d] == part.extent[d];) index[d] = 0;
  }
}

void require_elements(const CFI_cdesc_t& array, const Dims& extent) {
  if (!array.base_addr && std::find(extent.begin(), extent.end(), 0) == extent.end()) {
    refuse("an array is not allocated, or a pointer not associated", "Allocate it before.");
  }
  if (std::any_of(extent.begin(), extent.end(), [](auto n) { return n < 0; })) {
    refuse("an array of assumed size has no shape", "Give its bounds: a(1:n).");
  }
}

Footprint footprint_of_array(const CFI_cdesc_t& array) {
  Footprint where{static_cast<const std::byte*>(array.base_addr), {}, {}};
  where.element_bytes = static_cast<std::int64_t>(array.elem_len);
  for (int d = array.rank; d-- > 0;) where.strides.push_back(array.dim[d].sm);
  return where;
}

// A logical array: its elements may have several bytes in memory, and have one in the checkpoint.
class LogicalMemory final : public SliceMemory {
 public:
  explicit LogicalMemory(const CFI_cdesc_t& array) : array_(array) {}
  void read(const Box& part, std::byte* out) const override {
    each_element(*array_, part, [&](const std::byte* at) {
      const bool holds = std::any_of(at, at + array_->elem_len,
                                     [](std::byte byte) { return byte != std::byte{0}; });
      *out++ = std::byte{holds};
    });
  }
  void write(const Box& part, const std::byte* in) override {
    each_element(*array_, part, [&](std::byte* at) {
      const bool holds = *in++ != std::byte{0};
      std::fill(at, at + array_->elem_len, std::byte{0});
      if (holds) at[array_low_byte()] = std::byte{1};
    });
  }
  bool writable() const override { return true; }
  Footprint footprint() const override { return footprint_of_array(*array_); }

 private:
  std::size_t array_low_byte() const {
    const std::uint16_t one = 1;
    return *reinterpret_cast<const std::uint8_t*>(&one) == 1 ? 0 : array_->elem_len - 1;
  }
  KeptArray array_;
};

class TextMemory final : public StringMemory {
 public:
  explicit TextMemory(const CFI_cdesc_t& array) : array_(array) {}
  std::vector<std::string> get() const override {
    std::vector<std::string> all;
    each_element(*array_, Box::whole(extent_of(*array_)), [&](const std::byte* at) {
      const std::string_view text(reinterpret_cast<const char*>(at), array_->elem_len);
      all.emplace_back(text.substr(0, text.find_last_not_of(' ') + 1));
    });
    return all;
  }
  void set(std::vector<std::string> values) override {
    for (const auto& value : values) {
      if (value.size() > array_->elem_len) {
        refuse("a stored text has " + std::to_string(value.size()) +
                   " characters, but there is room for " + std::to_string(array_->elem_len),
               "Declare a longer character variable.");
      }
    }
    auto next = values.begin();
    each_element(*array_, Box::whole(extent_of(*array_)), [&](std::byte* at) {
      const auto& value = *next++;
      auto* text = reinterpret_cast<char*>(at);
      std::fill(std::copy(value.begin(), value.end(), text), text + array_->elem_len, ' ');
    });
  }
  Footprint footprint() const override { return footprint_of_array(*array_); }

 private:
  KeptArray array_;
};

}  // namespace

KeptArray::KeptArray(const CFI_cdesc_t& array)
    : bytes_(sizeof(CFI_cdesc_t) + static_cast<std::size_t>(array.rank) * sizeof(CFI_dim_t)) {
  const auto* from = reinterpret_cast<const std::byte*>(&array);
  std::copy(from,
            from + sizeof(CFI_cdesc_t) + static_cast<std::size_t>(array.rank) * sizeof(CFI_dim_t),
            bytes_.begin());
}

DType dtype_of_array(const CFI_cdesc_t& array) {
  const auto bytes = std::to_string(array.elem_len);
  switch (class_of(array)) {
    case Class::integer:
      switch (array.elem_len) {
        case 1:
          return DType::int8;
        case 2:
          return DType::int16;
        case 4:
          return DType::int32;
        case 8:
          return DType::int64;
      }
      refuse("an integer of " + bytes + " bytes has no dtype",
             "Integers of 1 to 8 bytes have one.");
    case Class::real:
      if (array.elem_len == 4) return DType::float32;
      if (array.elem_len == 8) return DType::float64;
      refuse("a real of " + bytes + " bytes has no dtype", "Save real32 or real64.");
    case Class::complex:
      if (array.elem_len == 8) return DType::complex64;
      if (array.elem_len == 16) return DType::complex128;
      refuse("a complex of " + bytes + " bytes has no dtype",
             "Save complex numbers of real32 or real64.");
    case Class::logical:
      return DType::boolean;
    case Class::character:
      // Not only those: gfortran 12 says this length of components whose length is deferred.
      if (array.elem_len > 0) return DType::string;
      refuse("a character variable has the length 0",
             "Copy a component of deferred length to a variable of its own.");
  }
  refuse("an array of a derived type has no dtype", "Save its components, each under a key.");
}

Dims extent_of(const CFI_cdesc_t& array) {
  Dims extent;
  for (int d = array.rank; d-- > 0;) extent.push_back(array.dim[d].extent);
  return extent;
}

std::shared_ptr<SliceMemory> memory_of(const CFI_cdesc_t& array) {
  const auto extent = extent_of(array);
  const auto dtype = dtype_of_array(array);
  require_elements(array, extent);
  if (class_of(array) == Class::logical && array.elem_len != 1) {
    return std::make_shared<LogicalMemory>(array);
  }
  Dims strides;
  for (int d = array.rank; d-- > 0;) {
    const auto bytes = static_cast<std::int64_t>(array.elem_len);
    if (array.dim[d].sm % bytes != 0) {
      refuse("elements lie " + std::to_string(array.dim[d].sm) + " bytes apart, of " +
                 std::to_string(bytes) + " bytes each",
             "Copy this component into an array of its own.");
    }
    strides.push_back(array.dim[d].sm / bytes);
  }
  return host_memory(dtype, array.base_addr, array.base_addr, extent, std::move(strides));
}

LocalTensor tensor_of(const CFI_cdesc_t& array, const Dims& global_shape, const Dims& start) {
  const auto dtype = dtype_of_array(array);
  auto tensor = nothing(dtype, global_shape);
  const auto extent = extent_of(array);
  if (extent.size() != global_shape.size()) {
    refuse("an array of rank " + std::to_string(extent.size()) +
               " is given as part of one of rank " + std::to_string(global_shape.size()),
           "global_shape and start have a number for each dimension of the array.");
  }
  if (dtype == DType::string) {
    if (extent != global_shape) {
      refuse("characters are given as a part of an array",
             "Texts are whole on each rank: leave out global_shape and start.");
    }
    require_elements(array, extent);
    tensor.strings = std::make_shared<TextMemory>(array);
    return tensor;
  }
  tensor.slices.push_back({Box{start, extent}, memory_of(array)});
  return tensor;
}

Dims reversed(int count, const std::int64_t* numbers, std::int64_t minus) {
  Dims all;
  for (int d = count; d-- > 0;) all.push_back(numbers[d] - minus);
  return all;
}

}  // namespace cairn::fortran
