#pragma once
/// Tensors of torch. Their methods are called by name: this module is built without torch, and
/// works with any version of it.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "bindings.hpp"
#include "cairn/slice_memory.hpp"

namespace cairn::python {

/// Memory of a slice that may lie elsewhere at the next save.
class MovingMemory : public SliceMemory {
 public:
  explicit MovingMemory(std::shared_ptr<SliceMemory> at) : at_(std::move(at)) {}
  void move(std::shared_ptr<SliceMemory> to) { at_ = std::move(to); }

  void read(const Box& part, std::byte* out) const override { at_->read(part, out); }
  void write(const Box& part, const std::byte* in) override { at_->write(part, in); }
  const std::byte* contiguous() const override { return std::as_const(*at_).contiguous(); }
  std::byte* contiguous_writable() override { return at_->contiguous_writable(); }
  bool writable() const override { return at_->writable(); }
  std::shared_ptr<const SliceMemory> for_any_thread() const override {
    return std::as_const(*at_).for_any_thread();
  }
  Footprint footprint() const override { return at_->footprint(); }
  std::shared_ptr<StagingMemory> staging() const override { return at_->staging(); }

 private:
  std::shared_ptr<SliceMemory> at_;
};

/// Where the elements of a tensor lie, in host memory or elsewhere.
struct TensorFacts {
  std::byte* data = nullptr;
  DType dtype{};
  PyObject* dtype_object = nullptr;  ///< torch's; it lives as long as torch
  Dims shape, strides;
  std::int64_t storage_offset = 0, storage_bytes = 0;
  bool same_elements(const TensorFacts& other) const {
    return data == other.data && dtype == other.dtype && shape == other.shape &&
           strides == other.strides;
  }
};

/// The slices of a tensor that one rank holds, and where each begins in the local tensor.
struct TensorBoxes {
  struct Part {
    Box box;
    Dims at;
  };
  Dims shape, local_shape;
  std::vector<Part> parts;
};

class DeviceCopies;

/// The knowledge about torch: its dtypes, the classes of plain tensors, and how to copy tensors of
/// devices.
class TorchTensors {
 public:
  TorchTensors(const py::dict& names, const py::tuple& classes, py::object strided,
               std::shared_ptr<const DeviceCopies> copies);

  bool is_plain(PyObject* tensor) const;
  /// Returns the facts of a plain tensor in host memory (without `on_host`: of any device) whose
  /// storage has all its elements; nothing for other objects. Calls only torch's own code.
  std::optional<TensorFacts> look(PyObject* tensor, bool on_host) const;
  /// Whether look() would find the same again. It takes half a microsecond.
  bool is_unchanged(PyObject* tensor, const TensorFacts& facts) const;
  const std::shared_ptr<const DeviceCopies>& copies() const { return copies_; }

 private:
  std::map<PyObject*, DType> dtypes_;
  std::vector<py::object> kept_;
  std::vector<PyTypeObject*> classes_;
  py::object strided_;
  std::shared_ptr<const DeviceCopies> copies_;
};

/// Names of attributes and methods of torch's objects, made once.
struct TorchNames {
  PyObject *shape, *dtype, *is_cpu, *layout, *is_nested, *requires_grad, *local_tensor, *spec,
      *mesh, *placements, *tensor_meta;
  PyObject *data_ptr, *stride, *storage_offset, *untyped_storage, *nbytes, *is_conj, *is_neg;
  static const TorchNames& get();
};
/// Returns null, and clears the error, if there is no such attribute.
py::object attribute_or_null(PyObject* of, PyObject* name);

void add_torch_tensors(py::module_&);

}  // namespace cairn::python
