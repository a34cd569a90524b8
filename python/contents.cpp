// Reading a checkpoint of any origin.
#include <mutex>

#include "bindings.hpp"
#include "cairn/bundle.hpp"
#include "cairn/error.hpp"
#include "store/commit/names.hpp"
#include "store/contents/find_checkpoints.hpp"
#include "store/directory/named_checkpoint.hpp"

namespace cairn::python {
namespace {

struct Reader {
  explicit Reader(const std::string& path) : reader(resolve_checkpoint({nullptr, path}).path()) {}
  BundleReader reader;
  std::mutex one_at_a_time;
};

const StoredTensor& tensor_of(const Reader& self, const std::string& key) {
  const auto* tensor = self.reader.contents().find(key);
  if (!tensor) throw py::key_error(key);
  return *tensor;
}

py::array read(Reader& self, const std::string& key, const Dims& start, const Dims& extent) {
  const auto& tensor = tensor_of(self, key);
  auto bytes = [&] {
    const py::gil_scoped_release free;
    const std::lock_guard lock(self.one_at_a_time);
    return self.reader.read(key, Box{start, extent});
  }();
  return array_of(tensor.dtype, extent, std::move(bytes));
}

py::list read_strings(Reader& self, const std::string& key) {
  tensor_of(self, key);
  const auto values = [&] {
    const py::gil_scoped_release free;
    const std::lock_guard lock(self.one_at_a_time);
    return self.reader.read_strings(key);
  }();
  py::list list;
  for (const auto& one : values) list.append(py::bytes(one));
  return list;
}

py::dict attributes_of(const Attributes& attributes) {
  py::dict all;
  for (const auto& [name, value] : attributes) all[py::str(name)] = value.json();
  return all;
}

py::object meta_of(const CheckpointContents& contents) {
  if (!contents.meta) return py::none();
  const auto& meta = *contents.meta;
  py::dict told;
  told["step"] = meta.step;
  told["sequence"] = meta.sequence;
  told["wall_time_seconds"] = meta.wall_time_seconds;
  told["version"] = meta.version;
  told["ranks"] = meta.ranks;
  told["policy"] = meta.policy;
  if (const auto& by = meta.application; !by.empty()) {
    py::dict application;
    application["name"] = by.name;
    application["version"] = by.version;
    application["commit"] = by.commit;
    told["application"] = application;
  }
  told["uuid"] = meta.uuid;
  told["metric"] = meta.metric;
  py::list thinned;  // patterns of keys
  for (const auto& one : meta.thinned) thinned.append(one.keys);
  told["thinned"] = thinned;
  told["attributes"] = attributes_of(meta.descriptions.attributes);
  return told;
}

}  // namespace

py::array array_of(DType dtype, const Dims& extent, std::string bytes) {
  auto type = numpy_dtype(dtype);
  auto* kept = new std::string(std::move(bytes));
  const py::capsule owner(kept, [](void* gone) { delete static_cast<std::string*>(gone); });
  // Strides are given, because pybind11 before 2.12 would read the size of an element where NumPy 1
  // has it.
  std::vector<py::ssize_t> strides;
  for (const auto stride : row_major_strides(extent)) {
    strides.push_back(stride * static_cast<py::ssize_t>(dtype_size(dtype)));
  }
  return py::array(std::move(type), std::vector<py::ssize_t>(extent.begin(), extent.end()),
                   std::move(strides), kept->data(), owner);
}

void add_contents(py::module_& module) {
  module.def("list_checkpoints", [](const std::string& directory) {
    py::list list;
    for (const auto& prefix : list_prefixes({nullptr, directory})) {
      const auto split = commit::split_step(prefix);
      list.append(py::make_tuple(split ? py::object(py::int_(split->step)) : py::none(),
                                 (io::Path(directory) / prefix).string()));
    }
    return list;
  });
  py::class_<Reader>(module, "Reader")
      .def(py::init<std::string>(), py::call_guard<py::gil_scoped_release>())
      .def("keys",
           [](const Reader& self) {
             py::list keys;
             for (const auto& one : self.reader.contents().tensors) keys.append(one.key);
             return keys;
           })
      .def("prefix", [](const Reader& self) { return self.reader.contents().prefix; })
      .def("format",
           [](const Reader& self) {
             const auto format = self.reader.contents().format;
             return words(format).at(static_cast<std::size_t>(format));
           })
      .def("meta", [](const Reader& self) { return meta_of(self.reader.contents()); })
      .def("shape", [](const Reader& self,
                       const std::string& key) { return tuple_of(tensor_of(self, key).shape); })
      .def("dtype_name",
           [](const Reader& self, const std::string& key) {
             return std::string(dtype_name(tensor_of(self, key).dtype));
           })
      .def("dtype",
           [](const Reader& self, const std::string& key) -> py::object {
             const auto dtype = tensor_of(self, key).dtype;
             if (dtype == DType::string) return py::dtype("O");
             return numpy_dtype(dtype);
           })
      .def("problem",
           [](const Reader& self, const std::string& key) { return tensor_of(self, key).problem; })
      .def("slices",
           [](const Reader& self, const std::string& key) {
             py::list slices;
             for (const auto& one : tensor_of(self, key).slices) {
               const auto place = py::make_tuple(tuple_of(one.box.start), tuple_of(one.box.extent),
                                                 one.file, one.offset, one.stored_bytes);
               if (one.codec == Codec::none) {
                 slices.append(place);
               } else {
                 const auto encoded = py::make_tuple(static_cast<int>(one.codec), one.raw_bytes);
                 slices.append(place + encoded);
               }
             }
             return slices;
           })
      .def("description",
           [](const Reader& self, const std::string& key) {
             const auto& said = self.reader.contents().description(key);
             return py::make_tuple(said.units, said.dimensions, said.coordinates,
                                   attributes_of(said.attributes));
           })
      .def(
          "read",
          [](Reader& self, const std::string& key, const py::object& start,
             const py::object& extent) { return read(self, key, dims_of(start), dims_of(extent)); })
      .def("read_strings", &read_strings);
}

}  // namespace cairn::python
