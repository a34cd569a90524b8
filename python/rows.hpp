#pragma once
/// Rows of which a restore decides how many there are. NumPy's arrays keep their size: `resize`
/// refuses where anybody else has the array, which a state does. So a restore makes new arrays, and
/// other references to the old ones see what they saw.
#include <memory>
#include <string>

#include "bindings.hpp"
#include "cairn/ragged.hpp"

namespace cairn::python {

/// An array of rows, saved from where it lies, and restored into memory of its own, from which a
/// new array comes into its holder. It keeps no Python object: whoever has the state keeps them.
class ArrayRows final : public Rows {
 public:
  /// Throws invalid_argument for a scalar.
  ArrayRows(const Memory& memory, const std::string& key, const py::object& holder);
  DType dtype() const { return dtype_; }
  const Dims& row_shape() const { return row_shape_; }
  std::int64_t count() const override { return restored_ ? rows_ : extent_.front(); }
  bool resizable() const override { return true; }
  void resize(std::int64_t rows) override;
  std::shared_ptr<SliceMemory> memory() const override;
  Footprint footprint() const override { return footprint_; }
  /// What a restore has made of them, as a new array, once; None: it left them alone.
  py::object take();

 private:
  Dims extent_of_rows() const;
  Footprint footprint_;  // of the holder
  DType dtype_;
  const void* data_;
  Dims extent_, strides_, row_shape_;
  std::size_t row_bytes_ = 0;
  std::int64_t rows_ = 0;
  std::unique_ptr<std::string> restored_;
};

}  // namespace cairn::python
