#pragma once
/// Tensors of torch in a device's memory. torch copies; this module is built without it and without
/// CUDA, and runs beside any version of both. Parts are copied as they are asked for: a copy of all
/// tensors first would take as much memory of the host as the model has.
///
/// The pool of asynchronous saves is ordinary pages, which CUDA is told of. torch's own pinned
/// memory comes in powers of two, of which a pool of the size of a model could waste half.
#include <memory>
#include <string>

#include "code.hpp"
#include "torch_tensors.hpp"

namespace cairn::python {

/// How torch copies, and the pages that its devices copy to fastest: functions of
/// cairn.torch.devices.
class DeviceCopies {
 public:
  DeviceCopies(const py::object& to_host, const py::object& to_device, const py::object& pin,
               const py::object& unpin);
  const Callable to_host, to_device;
  const std::shared_ptr<StagingMemory> pinned;
};

/// A slice that begins at `at` in this tensor. Whoever makes it keeps the tensor alive as long as
/// it is used. What `facts` say of it holds, and errors name it by its key.
std::shared_ptr<SliceMemory> device_memory(std::shared_ptr<const DeviceCopies> copies,
                                           std::string key, PyObject* tensor,
                                           const TensorFacts& facts, Dims at);

/// Such a tensor where an address is given of others.
struct DeviceTensor {
  std::shared_ptr<const DeviceCopies> copies;
  PyObject* tensor;
  TensorFacts facts;
};

}  // namespace cairn::python
