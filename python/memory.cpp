// Finds where the elements of Python's arrays lie.
#include <cstdint>

#include "base/text.hpp"
#include "bindings.hpp"
#include "cairn/error.hpp"

namespace cairn::python {
namespace {

Error refused(const std::string& key, std::string reason, std::string way_out) {
  return Error(Code::invalid_argument, cat("'", key, "' cannot be saved or restored"),
               std::move(reason), std::move(way_out))
      .of_tensor(key);
}

// DLPack's structures, as its specification has them (dmlc.github.io/dlpack, version 0 and 1).
struct DeviceOfDlpack {
  std::int32_t type, number;
};
struct DtypeOfDlpack {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct TensorOfDlpack {
  void* data;
  DeviceOfDlpack device;
  std::int32_t dimensions;
  DtypeOfDlpack dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major
  std::uint64_t byte_offset;
};
struct ManagedOfDlpack {
  TensorOfDlpack tensor;
  void* context;
  void (*deleter)(ManagedOfDlpack*);
};

enum DeviceType { on_cpu = 1, on_cuda_host = 3, on_rocm_host = 11 };

// The usual names of the other kinds of devices.
const char* device_name(int type) {
  switch (type) {
    case 2:
      return "CUDA, ";
    case 4:
      return "OpenCL, ";
    case 7:
      return "Vulkan, ";
    case 8:
      return "Metal, ";
    case 10:
      return "ROCm, ";
    case 13:
      return "CUDA managed, ";
    case 14:
      return "oneAPI, ";
    default:
      return "";
  }
}

std::optional<DType> dtype_of_dlpack(DtypeOfDlpack type) {
  if (type.lanes != 1) return std::nullopt;
  const auto by_size = [&](DType one, DType two, DType four, DType eight) -> std::optional<DType> {
    switch (type.bits) {
      case 8:
        return one;
      case 16:
        return two;
      case 32:
        return four;
      case 64:
        return eight;
      default:
        return std::nullopt;
    }
  };
  switch (type.code) {
    case 0:
      return by_size(DType::int8, DType::int16, DType::int32, DType::int64);
    case 1:
      return by_size(DType::uint8, DType::uint16, DType::uint32, DType::uint64);
    case 2:
      if (type.bits == 8) return std::nullopt;
      return by_size(DType::float16, DType::float16, DType::float32, DType::float64);
    case 4:
      if (type.bits == 16) return DType::bfloat16;
      break;
    case 5:
      if (type.bits == 64) return DType::complex64;
      if (type.bits == 128) return DType::complex128;
      break;
    case 6:
      if (type.bits == 8) return DType::boolean;
      break;
    case 10:
      if (type.bits == 8) return DType::float8_e4m3fn;
      break;
    case 12:
      if (type.bits == 8) return DType::float8_e5m2;
      break;
    default:
      break;
  }
  return std::nullopt;
}

// Takes the tensor out of the capsule. The owner in the result releases it when it is destroyed.
Memory memory_of_dlpack(const py::object& value, const std::string& key) {
  const auto device = py::cast<std::pair<int, int>>(value.attr("__dlpack_device__")());
  if (device.first != on_cpu && device.first != on_cuda_host && device.first != on_rocm_host) {
    throw refused(key,
                  cat("its memory is on a device: ", device_name(device.first), "DLPack's type ",
                      device.first),
                  "Give a copy in host memory, such as tensor.cpu().");
  }
  const py::object capsule = value.attr("__dlpack__")();
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor") == 0) {
    throw refused(key, "its __dlpack__ gives no DLPack capsule, or one that was used already",
                  "Give an object whose __dlpack__ makes a capsule each time.");
  }
  auto* managed = static_cast<ManagedOfDlpack*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (PyCapsule_SetName(capsule.ptr(), "used_dltensor") != 0) throw py::error_already_set();
  const py::capsule owner(managed, [](void* tensor) {
    auto* gone = static_cast<ManagedOfDlpack*>(tensor);
    if (gone->deleter) gone->deleter(gone);
  });
  const auto& tensor = managed->tensor;
  const auto dtype = dtype_of_dlpack(tensor.dtype);
  if (!dtype) {
    throw refused(key,
                  cat("DLPack's type ", int{tensor.dtype.code}, " of ", int{tensor.dtype.bits},
                      " bits is none that a checkpoint has"),
                  "Give another view of its bytes.");
  }
  Memory memory;
  memory.dtype = *dtype;
  memory.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  memory.extent.assign(tensor.shape, tensor.shape + tensor.dimensions);
  if (tensor.strides) memory.strides.assign(tensor.strides, tensor.strides + tensor.dimensions);
  memory.owner = py::make_tuple(owner, value);
  return memory;
}

// Reads the attribute by name, because pybind11 before 2.12 reads the structure of NumPy 1.
py::ssize_t item_size(const py::dtype& dtype) {
  return py::cast<py::ssize_t>(dtype.attr("itemsize"));
}

void refuse_masked(const py::array& array, const std::string& key) {
  const auto numpy = py::module_::import("numpy");
  if (py::type::of(array).is(numpy.attr("ndarray"))) return;
  if (!py::isinstance(array, numpy.attr("ma").attr("MaskedArray"))) return;
  throw refused(key, "it is a masked array, and a checkpoint has no masks",
                "Give array.data and array.mask under keys of their own, or array.filled().");
}

Memory memory_of_array(const py::array& array, const std::string& key) {
  refuse_masked(array, key);
  Memory memory;
  memory.dtype = stored_dtype(array.dtype(), key);
  memory.writable = array.writeable();
  memory.data = const_cast<void*>(array.data());  // `writable` says whether it may be written
  const auto item = item_size(array.dtype());
  for (py::ssize_t d = 0; d < array.ndim(); ++d) {
    memory.extent.push_back(array.shape(d));
    if (array.strides(d) % item != 0 && array.shape(d) > 1) {
      throw refused(key, "its elements do not lie at multiples of their size from each other",
                    "Give a copy: numpy.ascontiguousarray(array).");
    }
    memory.strides.push_back(array.strides(d) / item);
  }
  memory.owner = array;
  return memory;
}

}  // namespace

py::dtype numpy_dtype(DType dtype) {
  const std::string name(dtype_name(dtype));
  try {
    return py::dtype::from_args(py::str(name));
  } catch (py::error_already_set& failure) {
    if (!failure.matches(PyExc_TypeError)) throw;
  }
  try {
    return py::dtype::from_args(py::module_::import("ml_dtypes").attr(name.c_str()));
  } catch (py::error_already_set&) {
    throw Error(Code::unsupported, cat("NumPy has no dtype ", name), "",
                "Install the package ml_dtypes, or read another tensor.");
  }
}

DType stored_dtype(const py::dtype& dtype, const std::string& key) {
  const std::string name = py::str(dtype.attr("name"));
  if (!py::cast<bool>(dtype.attr("isnative"))) {
    throw refused(key, "its bytes are not in this machine's order",
                  "Give array.astype(array.dtype.newbyteorder('=')).");
  }
  switch (py::cast<std::string>(dtype.attr("kind")).at(0)) {
    case 'O':
      throw refused(key, "it is an array of objects",
                    "Give an array of numbers, or a list of texts.");
    case 'U':
    case 'S':
      throw refused(key, "it is an array of texts", "Give a list of str or bytes.");
    case 'M':
    case 'm':
      throw refused(key, "it is an array of dates or times", "Give array.view('int64').");
    default:
      break;
  }
  if (py::cast<bool>(py::bool_(!dtype.attr("fields").is_none()))) {
    throw refused(key, "its dtype has fields", "Add each field under a key of its own.");
  }
  const auto found = dtype_from_name(name);
  if (!found || dtype_size(*found) != static_cast<std::size_t>(item_size(dtype))) {
    throw refused(key, cat("a checkpoint has no dtype ", name),
                  "Convert it, or give array.view('uint8').");
  }
  return *found;
}

Memory memory_of(const py::object& value, const std::string& key) {
  if (py::isinstance<py::array>(value)) {
    return memory_of_array(py::reinterpret_borrow<py::array>(value), key);
  }
  if (py::hasattr(value, "__dlpack__")) {
    // A tensor of torch that needs a gradient has no DLPack, so it is detached.
    const bool of_torch = py::hasattr(value, "requires_grad");
    return memory_of_dlpack(of_torch ? value.attr("detach")() : value, key);
  }
  throw refused(key, cat("it is a ", std::string(py::str(py::type::of(value).attr("__name__")))),
                "Give a numpy array, an object with __dlpack__, a number, a text or a dict of "
                "these.");
}

// An index as in NumPy: no fractions, no texts.
static std::int64_t index_of(const py::handle& number) {
  const auto whole = py::reinterpret_steal<py::object>(PyNumber_Index(number.ptr()));
  if (!whole) throw py::error_already_set();
  return py::cast<std::int64_t>(whole);
}

Dims dims_of(const py::handle& sequence) {
  // A single number stands for a sequence of one. Arrays of numbers pass this check, too, but have
  // no index, and are read as sequences.
  if (PyIndex_Check(sequence.ptr())) {
    if (const auto one = PyNumber_Index(sequence.ptr())) {
      return {py::cast<std::int64_t>(py::reinterpret_steal<py::object>(one))};
    }
    PyErr_Clear();
  }
  Dims dims;
  for (const auto& one : py::reinterpret_borrow<py::iterable>(sequence)) {
    dims.push_back(index_of(one));
  }
  return dims;
}

py::tuple tuple_of(const Dims& dims) {
  py::tuple result(dims.size());
  for (std::size_t d = 0; d < dims.size(); ++d) result[d] = py::int_(dims[d]);
  return result;
}

}  // namespace cairn::python
