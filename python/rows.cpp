#include "rows.hpp"

#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::python {

ArrayRows::ArrayRows(const Memory& memory, const std::string& key, const py::object& holder)
    : footprint_{reinterpret_cast<const std::byte*>(holder.ptr()), {}, 1},
      dtype_(memory.dtype),
      data_(memory.data),
      extent_(memory.extent),
      strides_(memory.strides) {
  if (extent_.empty()) {
    throw Error(Code::invalid_argument, cat("'", key, "' has no rows"), "it is a scalar",
                "Give an array of one dimension or more.")
        .of_tensor(key);
  }
  row_shape_.assign(extent_.begin() + 1, extent_.end());
  row_bytes_ = dtype_size(dtype_) * static_cast<std::size_t>(detail::elements_per_row(row_shape_));
}

Dims ArrayRows::extent_of_rows() const {
  Dims extent = row_shape_;
  extent.insert(extent.begin(), rows_);
  return extent;
}

void ArrayRows::resize(std::int64_t rows) {
  restored_ = std::make_unique<std::string>(static_cast<std::size_t>(rows) * row_bytes_, '\0');
  rows_ = rows;
}

std::shared_ptr<SliceMemory> ArrayRows::memory() const {
  if (!restored_) return host_memory(dtype_, data_, nullptr, extent_, strides_);
  return host_memory(dtype_, restored_->data(), restored_->data(), extent_of_rows(), {});
}

py::object ArrayRows::take() {
  if (!restored_) return py::none();
  return array_of(dtype_, extent_of_rows(), std::move(*std::exchange(restored_, nullptr)));
}

}  // namespace cairn::python
