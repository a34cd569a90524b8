// A state of Python's arrays.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "base/text.hpp"
#include "bindings.hpp"
#include "cairn/error.hpp"

namespace cairn::python {
namespace {

LocalTensor tensor_of(PythonState& self, const std::string& key, const py::object& value,
                      const py::object& shape, const py::object& start, const std::string& storage) {
  auto memory = memory_of(value, key);
  self.owners.push_back(memory.owner);
  const auto global = shape.is_none() ? memory.extent : dims_of(shape);
  const auto at = start.is_none() ? Dims(memory.extent.size(), 0) : dims_of(start);
  auto tensor = memory.writable
                    ? slice(memory.dtype, memory.data, global, at, memory.extent, memory.strides)
                    : slice(memory.dtype, static_cast<const void*>(memory.data), global, at,
                            memory.extent, memory.strides);
  if (storage == "automatic") return tensor;
  if (storage != "sliced" && storage != "dense") {
    throw Error(Code::invalid_argument, cat("'", storage, "' is no storage"), "",
                "Give automatic, sliced or dense.")
        .of_tensor(key);
  }
  return stored(storage == "dense" ? Storage::dense : Storage::sliced, std::move(tensor));
}

void add_slices(PythonState& self, const std::string& key, const py::list& parts,
                const std::string& storage) {
  std::vector<LocalTensor> slices;
  for (const auto& part : parts) {
    const auto& one = py::reinterpret_borrow<py::tuple>(part);
    slices.push_back(tensor_of(self, key, one[0], one[1], one[2], storage));
  }
  self.state.add(key, slices.size() == 1 ? std::move(slices.front()) : patches(std::move(slices)));
}

void add_strings(PythonState& self, const std::string& key, std::vector<std::string> values,
                 bool scalar) {
  self.strings.push_back(std::make_unique<std::vector<std::string>>(std::move(values)));
  auto& kept = *self.strings.back();
  self.state.add(key, scalar ? strings(kept.front()) : strings(kept));
}

}  // namespace

void add_state(py::module_& module) {
  py::class_<PythonState>(module, "State")
      .def(py::init<>())
      .def("add", &add_slices, py::arg("key"), py::arg("parts"), py::arg("storage"))
      .def("add_strings", &add_strings, py::arg("key"), py::arg("values"), py::arg("scalar"))
      .def("strings",
           [](const PythonState& self, std::size_t number) {
             py::list list;
             for (const auto& one : *self.strings.at(number)) list.append(py::bytes(one));
             return list;
           })
      .def("add_nothing",
           [](PythonState& self, const std::string& key, const py::dtype& dtype,
              const py::object& shape) {
             self.state.add(key, nothing(stored_dtype(dtype, key), dims_of(shape)));
           })
      .def("describe",
           [](PythonState& self, const std::string& key, const std::string& units,
              const std::vector<std::string>& dimensions,
              const std::vector<std::string>& coordinates,
              const std::map<std::string, std::string>& attributes) {
             Description said;
             said.units = units;
             said.dimensions = dimensions;
             said.coordinates = coordinates;
             for (const auto& [name, json] : attributes) said.attributes.emplace(name, Json{json});
             self.state.describe(key, std::move(said));
           });
}

}  // namespace cairn::python
