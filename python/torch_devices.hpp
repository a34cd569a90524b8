#pragma once
/// Tensors of torch in a device's memory. torch makes the copies: this module is built without
/// torch and CUDA, and works with any version of both. Parts are copied when they are needed: a
/// copy of all tensors at first would take as much memory of the host as the model has.
///
/// The pool of asynchronous saves has ordinary pages, which are registered with CUDA. torch's own
/// pinned memory comes in powers of two, of which a pool of the size of a model could waste half.
#include <memory>
#include <string>

#include "code.hpp"
#include "torch_tensors.hpp"

namespace cairn::python {

/// Functions of cairn.torch.devices with which torch copies, and the pages that its devices copy to
/// fastest.
class DeviceCopies {
 public:
  DeviceCopies(const py::object& to_host, const py::object& to_device, const py::object& pin,
               const py::object& unpin);
  const Callable to_host, to_device;
  const std::shared_ptr<StagingMemory> pinned;
};

/// Memory of the slice that begins at `at` in this tensor. The caller keeps the tensor alive as
/// long as the memory is used. `facts` must be those of the tensor; errors name the key.
std::shared_ptr<SliceMemory> device_memory(std::shared_ptr<const DeviceCopies> copies,
                                           std::string key, PyObject* tensor,
                                           const TensorFacts& facts, Dims at);

/// A tensor on a device, for places where a tensor in host memory is given by its address.
struct DeviceTensor {
  std::shared_ptr<const DeviceCopies> copies;
  PyObject* tensor;
  TensorFacts facts;
};

}  // namespace cairn::python
