#include "torch_tensors.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "torch_devices.hpp"

namespace cairn::python {
namespace {

py::object called_or_null(PyObject* of, PyObject* method) {
  auto* result = PyObject_Vectorcall(method, &of, 1, nullptr);
  if (!result) PyErr_Clear();
  return py::reinterpret_steal<py::object>(result);
}

bool is_true(const py::object& answer) { return answer.ptr() == Py_True; }

// Whether a tuple of integers has these numbers.
bool are_same(const py::object& tuple, const Dims& dims) {
  if (!tuple || !PyTuple_Check(tuple.ptr())) return false;
  if (PyTuple_GET_SIZE(tuple.ptr()) != static_cast<py::ssize_t>(dims.size())) return false;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto value = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(d)));
    if (value != dims[d]) {
      PyErr_Clear();
      return false;
    }
  }
  return true;
}

std::optional<std::int64_t> number(const py::object& value) {
  if (!value) return std::nullopt;
  const auto result = PyLong_AsLongLong(value.ptr());
  if (result != -1 || !PyErr_Occurred()) return result;
  PyErr_Clear();
  return std::nullopt;
}

std::optional<std::byte*> address_of(PyObject* tensor) {
  const auto value = called_or_null(tensor, TorchNames::get().data_ptr);
  if (!value) return std::nullopt;
  auto* result = static_cast<std::byte*>(PyLong_AsVoidPtr(value.ptr()));
  if (!result && PyErr_Occurred()) {
    PyErr_Clear();
    return std::nullopt;
  }
  return result;
}

std::optional<std::int64_t> storage_bytes(PyObject* tensor) {
  const auto storage = called_or_null(tensor, TorchNames::get().untyped_storage);
  return storage ? number(called_or_null(storage.ptr(), TorchNames::get().nbytes)) : std::nullopt;
}

std::optional<std::int64_t> offset_of(PyObject* tensor) {
  return number(called_or_null(tensor, TorchNames::get().storage_offset));
}

bool is_complex(DType dtype) { return dtype == DType::complex64 || dtype == DType::complex128; }

// Whether the tensor's elements differ from the numbers in memory. A view of a conjugate may have a
// floating-point type: imaginary parts with reversed sign.
bool is_view_of_other_numbers(PyObject* tensor, DType dtype) {
  const auto& names = TorchNames::get();
  if (dtype != DType::float32 && dtype != DType::float64 && dtype != DType::float16 &&
      dtype != DType::bfloat16 && !is_complex(dtype)) {
    return false;
  }
  const auto says_no = [&](PyObject* name) {
    return called_or_null(tensor, name).ptr() == Py_False;
  };
  return !says_no(names.is_neg) || (is_complex(dtype) && !says_no(names.is_conj));
}

}  // namespace

const TorchNames& TorchNames::get() {
  static const TorchNames names = [] {
    const auto name = [](const char* text) { return PyUnicode_InternFromString(text); };
    const auto torch = py::module_::import("torch");
    const auto method = [&](const char* of, const char* text) {
      return torch.attr(of).attr(text).cast<py::object>().release().ptr();
    };
    const auto tensors = [&](const char* text) { return method("Tensor", text); };
    return TorchNames{.shape = name("shape"),
                      .dtype = name("dtype"),
                      .is_cpu = name("is_cpu"),
                      .layout = name("layout"),
                      .is_nested = name("is_nested"),
                      .requires_grad = name("requires_grad"),
                      .local_tensor = name("_local_tensor"),
                      .spec = name("_spec"),
                      .mesh = name("mesh"),
                      .placements = name("placements"),
                      .tensor_meta = name("tensor_meta"),
                      .data_ptr = tensors("data_ptr"),
                      .stride = tensors("stride"),
                      .storage_offset = tensors("storage_offset"),
                      .untyped_storage = tensors("untyped_storage"),
                      .nbytes = method("UntypedStorage", "nbytes"),
                      .is_conj = tensors("is_conj"),
                      .is_neg = tensors("is_neg")};
  }();
  return names;
}

py::object attribute_or_null(PyObject* of, PyObject* name) {
  auto* result = PyObject_GetAttr(of, name);
  if (!result) PyErr_Clear();
  return py::reinterpret_steal<py::object>(result);
}

TorchTensors::TorchTensors(const py::dict& names, const py::tuple& classes, py::object strided,
                           std::shared_ptr<const DeviceCopies> copies)
    : strided_(std::move(strided)), copies_(std::move(copies)) {
  for (const auto& [dtype, name] : names) {
    const auto found = dtype_from_name(py::cast<std::string>(name));
    if (!found) throw Error(Code::internal, cat("there is no dtype ", py::cast<std::string>(name)));
    dtypes_.emplace(dtype.ptr(), *found);
    kept_.push_back(py::reinterpret_borrow<py::object>(dtype));
  }
  for (const auto& one : classes) {
    classes_.push_back(reinterpret_cast<PyTypeObject*>(one.ptr()));
    kept_.push_back(py::reinterpret_borrow<py::object>(one));
  }
}

bool TorchTensors::is_plain(PyObject* tensor) const {
  return std::find(classes_.begin(), classes_.end(), Py_TYPE(tensor)) != classes_.end();
}

std::optional<TensorFacts> TorchTensors::look(PyObject* tensor, bool on_host) const {
  const auto& names = TorchNames::get();
  if (!is_plain(tensor)) return std::nullopt;
  const auto dtype_object = attribute_or_null(tensor, names.dtype);
  const auto dtype = dtypes_.find(dtype_object.ptr());
  if (dtype == dtypes_.end() || (on_host && !is_true(attribute_or_null(tensor, names.is_cpu))) ||
      attribute_or_null(tensor, names.layout).ptr() != strided_.ptr() ||
      is_true(attribute_or_null(tensor, names.is_nested)) ||
      is_view_of_other_numbers(tensor, dtype->second)) {
    return std::nullopt;
  }
  const auto shape = attribute_or_null(tensor, names.shape);
  const auto strides = called_or_null(tensor, names.stride);
  const auto data = address_of(tensor);
  const auto first = offset_of(tensor), bytes = storage_bytes(tensor);
  if (!shape || !strides || !data || !first || !bytes) return std::nullopt;
  TensorFacts facts{*data,  dtype->second, dtype->first, dims_of(shape), dims_of(strides),
                    *first, *bytes};
  if (element_count(facts.shape) == 0) return facts;
  // A tensor without an address, as on some devices, could not be told from others like it.
  if (!facts.data) return std::nullopt;
  // A storage that was made smaller lacks some of the elements.
  auto end = *first + 1;
  for (std::size_t d = 0; d < facts.shape.size(); ++d) {
    end += (facts.shape[d] - 1) * facts.strides[d];
  }
  if (end * static_cast<std::int64_t>(dtype_size(facts.dtype)) > facts.storage_bytes) {
    return std::nullopt;
  }
  return facts;
}

bool TorchTensors::is_unchanged(PyObject* tensor, const TensorFacts& facts) const {
  const auto& names = TorchNames::get();
  return is_plain(tensor) && address_of(tensor) == facts.data &&
         attribute_or_null(tensor, names.dtype).ptr() == facts.dtype_object &&
         are_same(attribute_or_null(tensor, names.shape), facts.shape) &&
         are_same(called_or_null(tensor, names.stride), facts.strides) &&
         offset_of(tensor) == facts.storage_offset &&
         storage_bytes(tensor) == facts.storage_bytes &&
         !is_view_of_other_numbers(tensor, facts.dtype) &&
         // Memory without elements does not show where it is.
         (facts.data || is_true(attribute_or_null(tensor, names.is_cpu)));
}

void add_torch_tensors(py::module_& module) {
  py::class_<TorchTensors, std::shared_ptr<TorchTensors>>(module, "TorchTensors")
      .def(py::init([](const py::dict& names, const py::tuple& classes, const py::object& strided,
                       const py::object& to_host, const py::object& to_device,
                       const py::object& pin, const py::object& unpin) {
             return std::make_shared<TorchTensors>(
                 names, classes, strided,
                 std::make_shared<const DeviceCopies>(to_host, to_device, pin, unpin));
           }),
           py::arg("names"), py::arg("classes"), py::arg("strided"), py::arg("to_host"),
           py::arg("to_device"), py::arg("pin"), py::arg("unpin"))
      .def("elsewhere",
           [](const TorchTensors& self, const py::object& tensor) -> std::optional<DeviceTensor> {
             auto facts = self.look(tensor.ptr(), false);
             if (!facts) return std::nullopt;
             return DeviceTensor{self.copies(), tensor.ptr(), std::move(*facts)};
           });
  py::class_<DeviceTensor>(module, "DeviceTensor");
  py::class_<TensorBoxes, std::shared_ptr<TensorBoxes>>(module, "TensorBoxes")
      .def(py::init(
          [](const py::object& shape, const py::object& local_shape, const py::list& parts) {
            auto boxes = std::make_shared<TensorBoxes>();
            boxes->shape = dims_of(shape);
            boxes->local_shape = dims_of(local_shape);
            for (const auto& one : parts) {
              const auto part = py::reinterpret_borrow<py::tuple>(one);
              boxes->parts.push_back({Box{dims_of(part[0]), dims_of(part[1])}, dims_of(part[2])});
            }
            return boxes;
          }))
      .def("local_shape", [](const TensorBoxes& self) { return tuple_of(self.local_shape); })
      .def("__len__", [](const TensorBoxes& self) { return self.parts.size(); });
}

}  // namespace cairn::python
