// A state of Python's arrays.
#include "base/text.hpp"
#include "bindings.hpp"
#include "cairn/cursor.hpp"
#include "cairn/error.hpp"
#include "cairn/indexed.hpp"
#include "cairn/resizable.hpp"
#include "cairn/sparse.hpp"
#include "code.hpp"
#include "rows.hpp"
#include "torch_devices.hpp"

namespace cairn::python {
namespace {

LocalTensor tensor_of(PythonState& self, const std::string& key, const py::object& value,
                      const py::object& shape, const py::object& start,
                      const std::string& storage) {
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

// Takes (dtype, address or DeviceTensor, extent, strides in elements, shape, start, owner): memory
// of other libraries that have no DLPack, or whose DLPack is slow.
LocalTensor tensor_at(PythonState& self, const std::string& key, const py::tuple& part) {
  const auto name = py::cast<std::string>(part[0]);
  const auto dtype = dtype_from_name(name);
  if (!dtype) {
    throw Error(Code::invalid_argument, cat("'", key, "' cannot be saved or restored"),
                cat("a checkpoint has no dtype ", name), "Convert it.")
        .of_tensor(key);
  }
  self.owners.push_back(part[6]);
  const py::object memory = part[1];
  if (py::isinstance<DeviceTensor>(memory)) {
    const auto& there = py::cast<const DeviceTensor&>(memory);
    auto tensor = nothing(*dtype, dims_of(part[4]));
    tensor.slices.push_back({Box{dims_of(part[5]), dims_of(part[2])},
                             device_memory(there.copies, key, there.tensor, there.facts, {})});
    return tensor;
  }
  auto* data = reinterpret_cast<void*>(py::cast<std::uintptr_t>(memory));
  return slice(*dtype, data, dims_of(part[4]), dims_of(part[5]), dims_of(part[2]),
               dims_of(part[3]));
}

void add_memory(PythonState& self, const std::string& key, const py::list& parts) {
  std::vector<LocalTensor> slices;
  for (const auto& part : parts) {
    slices.push_back(tensor_at(self, key, py::reinterpret_borrow<py::tuple>(part)));
  }
  self.state.add(key, slices.size() == 1 ? std::move(slices.front()) : patches(std::move(slices)));
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

// All of a tensor.
LocalTensor whole_of(PythonState& self, const std::string& key, const py::object& value) {
  return tensor_of(self, key, value, py::none(), py::none(), "automatic");
}

void add_sparse(PythonState& self, const std::string& key, const py::list& parts,
                const py::object& dtype, const py::object& shape, const py::array& fill,
                bool keep) {
  std::vector<LocalTensor> slices;
  for (const auto& part : parts) {
    const auto& one = py::reinterpret_borrow<py::tuple>(part);
    slices.push_back(tensor_of(self, key, one[0], one[1], one[2], "automatic"));
  }
  auto tensor = slices.empty()
                    ? nothing(stored_dtype(py::dtype::from_args(dtype), key), dims_of(shape))
                    : patches(std::move(slices));
  const auto value = memory_of(fill, key);
  self.state.add(
      key, sparse(std::move(tensor), value.dtype, value.data, keep ? Gaps::keep : Gaps::fill));
}

std::shared_ptr<ArrayRows> add_rows(PythonState& self, const std::string& key,
                                    const py::object& array, bool resizes, const py::object& deal,
                                    const py::object& holder) {
  auto memory = memory_of(array, key);
  self.owners.push_back(memory.owner);
  auto rows = std::make_shared<ArrayRows>(memory, key, holder);
  if (resizes) {
    self.state.add(key, resizable(rows, rows->dtype(), rows->row_shape()));
    return rows;
  }
  RowDistribution distribution;
  if (!deal.is_none()) {
    distribution = [key, function = Callable(deal)](std::int64_t total, int rank, int ranks) {
      const auto number = [](const py::object& result) { return py::cast<std::int64_t>(result); };
      try {
        return function.call(number, total, rank, ranks);
      } catch (Error& error) {
        if (error.tensor().empty()) error.of_tensor(key);
        throw;
      }
    };
  }
  self.state.add(key, ragged(rows, rows->dtype(), rows->row_shape(), std::move(distribution)));
  return rows;
}

void add_indexed(PythonState& self, const std::string& key, const py::object& array,
                 const py::object& list, std::int64_t first, std::int64_t rows,
                 const std::string& ids_key) {
  auto numbers = ids(whole_of(self, key, list), {first, rows, ids_key});
  self.state.add(key, indexed(std::move(numbers), whole_of(self, key, array)));
}

void add_private(PythonState& self, const std::string& key, const py::object& array,
                 bool optional) {
  PrivateOptions options;
  options.optional = optional;
  self.state.add(key, rank_private(whole_of(self, key, array), std::move(options)));
}

// Adds the texts with this number in the state; without a number, these values as new ones.
void add_strings(PythonState& self, const std::string& key, std::vector<std::string> values,
                 bool scalar, bool resizes, std::optional<std::size_t> number) {
  if (!number) {
    number = self.strings.size();
    self.strings.push_back(std::make_unique<std::vector<std::string>>(std::move(values)));
  }
  auto& kept = *self.strings.at(*number);
  self.state.add(key, scalar ? strings(kept.front()) : resizes ? resizable(kept) : strings(kept));
}

}  // namespace

void add_state(py::module_& module) {
  py::class_<ArrayRows, std::shared_ptr<ArrayRows>>(module, "Rows").def("take", &ArrayRows::take);
  py::class_<PythonState>(module, "State")
      .def(py::init<>())
      .def("add", &add_slices, py::arg("key"), py::arg("parts"), py::arg("storage"))
      .def("add_strings", &add_strings, py::arg("key"), py::arg("values"), py::arg("scalar"),
           py::arg("resizes"), py::arg("number") = py::none())
      .def("add_sparse", &add_sparse)
      .def("add_rows", &add_rows)
      .def("add_indexed", &add_indexed)
      .def("add_private", &add_private)
      .def("add_memory", &add_memory, py::arg("key"), py::arg("parts"))
      .def("keys",
           [](const PythonState& self, std::size_t first) {
             py::list keys;
             const auto& all = self.state.tensors();
             for (auto i = first; i < all.size(); ++i) keys.append(all[i].first);
             return keys;
           })
      .def("__len__", [](const PythonState& self) { return self.state.tensors().size(); })
      .def("set_strings",
           [](PythonState& self, std::size_t number, std::vector<std::string> values) {
             auto& kept = *self.strings.at(number);
             if (kept.size() != values.size()) {
               kept = std::move(values);
               return;
             }
             // The state refers to a scalar by the address of its text, so the values are moved
             // into place.
             std::move(values.begin(), values.end(), kept.begin());
           })
      .def("release_memory", [](PythonState& self) { self.owners.clear(); })
      .def("strings",
           [](const PythonState& self, std::size_t number) {
             py::list list;
             for (const auto& one : *self.strings.at(number)) list.append(py::bytes(one));
             return list;
           })
      .def("add_cursor", [](PythonState& self, const std::string& key,
                            Cursor& cursor) { self.state.add(key, cursor); })
      .def("add_nothing",
           [](PythonState& self, const std::string& key, const py::dtype& dtype,
              const py::object& shape) {
             self.state.add(key, nothing(stored_dtype(dtype, key), dims_of(shape)));
           })
      .def("add_nothing_named",
           [](PythonState& self, const std::string& key, const std::string& dtype,
              const py::object& shape) {
             const auto found = dtype_from_name(dtype);
             if (!found) throw Error(Code::invalid_argument, cat("there is no dtype ", dtype));
             self.state.add(key, nothing(*found, dims_of(shape)));
           })
      .def("describe_all",
           [](PythonState& self, const std::map<std::string, std::string>& attributes) {
             Attributes said;
             for (const auto& [name, json] : attributes) said.emplace(name, Json{json});
             self.state.describe(std::move(said));
           })
      .def("describe", [](PythonState& self, const std::string& key, const std::string& units,
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
