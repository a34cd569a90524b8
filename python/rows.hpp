#pragma once
/// Rows whose number a restore changes. NumPy's arrays keep their size: `resize` fails if there are
/// other references to the array, and a state has one. So a restore makes new arrays, and other
/// references to the old arrays keep the old values.
#include <memory>
#include <string>

#include "bindings.hpp"
#include "cairn/ragged.hpp"

namespace cairn::python {

/// An array of rows. It is saved from its own memory, and restored into new memory, which becomes a
/// new array in its holder. It keeps no Python object alive: the owner of the state does.
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
  /// Returns the restored rows as a new array, once; None if no restore has changed them.
  py::object take();

 private:
  Dims extent_of_rows() const;
  Footprint footprint_;  // footprint of the holder
  DType dtype_;
  const void* data_;
  Dims extent_, strides_, row_shape_;
  std::size_t row_bytes_ = 0;
  std::int64_t rows_ = 0;
  std::unique_ptr<std::string> restored_;
};

}  // namespace cairn::python
