#include "tree.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "torch_devices.hpp"

namespace cairn::python {
namespace {

bool are_equal(const py::object& one, const py::object& other) {
  if (one.ptr() == other.ptr()) return true;
  const int equal = PyObject_RichCompareBool(one.ptr(), other.ptr(), Py_EQ);
  if (equal < 0) throw py::error_already_set();
  return equal == 1;
}

// Elements that share memory, as those of expand() do, cannot be filled.
bool shares_elements(const TensorFacts& facts) {
  for (std::size_t d = 0; d < facts.shape.size(); ++d) {
    if (facts.shape[d] > 1 && facts.strides[d] == 0) return true;
  }
  return false;
}

}  // namespace

Tree::Node& Tree::add(Kind kind, const py::object& value) {
  if (!open_.empty()) ++nodes_[open_.back()].values;
  held_.push_back(value);
  return nodes_.emplace_back(Node{kind, py::type::of(value), {}, {}});
}

void Tree::enter(const py::object& container, const py::object& keys) {
  const bool is_dict = PyDict_Check(container.ptr());
  if (!is_dict && !PyList_Check(container.ptr()) && !PyTuple_Check(container.ptr())) never();
  auto& node = add(is_dict ? Kind::dict : Kind::sequence, container);
  if (is_dict) {
    for (const auto& key : keys) node.keys.push_back(py::reinterpret_borrow<py::object>(key));
  }
  open_.push_back(nodes_.size() - 1);
}

void Tree::enter_fetched(const py::object& value, const py::object& fetch) {
  add(Kind::fetched, value).code = fetch;
  open_.push_back(nodes_.size() - 1);
}

void Tree::leave() {
  const auto& node = nodes_[open_.back()];
  if (node.kind == Kind::dict && node.values != node.keys.size()) never();
  if (node.kind == Kind::fetched && node.values != 1) never();
  open_.pop_back();
}

void Tree::same(const py::object& value) { add(Kind::same, value).code = value; }

void Tree::renewed(const py::object& value, const py::object& renew) {
  add(Kind::renewed, value).code = renew;
}

void Tree::array(PythonState& state, const std::string& key, const py::object& value) {
  auto& node = add(Kind::array, value);
  node.leaf = arrays_.size();
  const auto memory = memory_of(value, key);
  held_.push_back(memory.owner);
  auto moving = std::make_shared<MovingMemory>(host_memory(memory.dtype, memory.data,
                                                           memory.writable ? memory.data : nullptr,
                                                           memory.extent, memory.strides));
  auto tensor = nothing(memory.dtype, memory.extent);
  tensor.slices.push_back({Box::whole(memory.extent), moving});
  arrays_.push_back({key, memory.dtype, memory.extent, moving});
  state.state.add(key, std::move(tensor));
}

std::shared_ptr<SliceMemory> Tree::memory_at(const Leaf& leaf, PyObject* tensor, const Dims& extent,
                                             const Dims& at) const {
  const auto& facts = leaf.facts;
  if (leaf.elsewhere) return device_memory(torch_->copies(), leaf.key, tensor, facts, at);
  auto* data = facts.data;
  for (std::size_t d = 0; d < at.size(); ++d) {
    data += at[d] * facts.strides[d] * static_cast<std::int64_t>(dtype_size(facts.dtype));
  }
  return host_memory(facts.dtype, data, data, extent, facts.strides);
}

LocalTensor Tree::tensor_of(Leaf& leaf, PyObject* tensor_or_copy) const {
  const auto put = [&](LocalTensor& tensor, const Box& box, const Dims& at) {
    leaf.parts.push_back(
        std::make_shared<MovingMemory>(memory_at(leaf, tensor_or_copy, box.extent, at)));
    tensor.slices.push_back({box, leaf.parts.back()});
  };
  if (!leaf.boxes) {
    auto tensor = nothing(leaf.facts.dtype, leaf.facts.shape);
    put(tensor, Box::whole(leaf.facts.shape), {});
    return tensor;
  }
  auto tensor = nothing(leaf.facts.dtype, leaf.boxes->shape);
  for (const auto& part : leaf.boxes->parts) put(tensor, part.box, part.at);
  return tensor;
}

void Tree::move(Leaf& leaf, PyObject* tensor, const TensorFacts& facts) const {
  leaf.facts = facts;
  for (std::size_t i = 0; i < leaf.parts.size(); ++i) {
    const bool whole = !leaf.boxes;
    const auto& extent = whole ? facts.shape : leaf.boxes->parts[i].box.extent;
    leaf.parts[i]->move(memory_at(leaf, tensor, extent, whole ? Dims{} : leaf.boxes->parts[i].at));
  }
}

bool Tree::is_tied(const Leaf& leaf) const {
  if (!leaf.own || element_count(leaf.own->shape) == 0) return false;
  const auto [first, end] = by_address_.equal_range(leaf.own->data);
  return std::any_of(first, end, [&](const auto& one) {
    const auto& other = leaves_[one.second];
    if (!other.own->same_elements(*leaf.own) || !other.boxes != !leaf.boxes) return false;
    return !leaf.boxes || other.boxes->shape == leaf.boxes->shape;
  });
}

Tree::Leaf Tree::leaf_of(const Given& given) {
  Leaf leaf;
  leaf.key = given.key;
  leaf.boxes = given.boxes;
  if (given.spec.is_none()) return leaf;
  const auto& names = TorchNames::get();
  leaf.spec = given.spec;
  leaf.mesh = attribute_or_null(leaf.spec.ptr(), names.mesh);
  leaf.placements = attribute_or_null(leaf.spec.ptr(), names.placements);
  leaf.tensor_meta = attribute_or_null(leaf.spec.ptr(), names.tensor_meta);
  return leaf;
}

void Tree::add_leaf(Leaf leaf, const Given& given) {
  add(Kind::tensor, given.value).leaf = leaves_.size();
  if (!leaf.tied && leaf.own) by_address_.emplace(leaf.own->data, leaves_.size());
  leaves_.push_back(std::move(leaf));
}

void Tree::add_to_state(PythonState& state, Leaf leaf, const Given& given,
                        const py::object& memory) {
  held_.push_back(memory);
  auto tensor = tensor_of(leaf, memory.ptr());
  tensor.tied = leaf.tied;
  state.state.add(leaf.key, std::move(tensor));
  add_leaf(std::move(leaf), given);
}

bool Tree::tensor(PythonState& state, const Given& given, bool elsewhere) {
  const auto facts = torch_->look(given.local.ptr(), !elsewhere);
  if (!facts || (given.restoring && shares_elements(*facts)) ||
      (given.boxes && given.boxes->local_shape != facts->shape)) {
    return false;
  }
  auto leaf = leaf_of(given);
  leaf.facts = *facts;
  leaf.own = facts;
  leaf.elsewhere = elsewhere;
  leaf.tied = is_tied(leaf);
  if (leaf.tied && !given.restoring) {
    add_leaf(std::move(leaf), given);
  } else {  // whether both are stored, and the same, the restore finds out
    add_to_state(state, std::move(leaf), given, given.local);
  }
  return true;
}

bool Tree::is_tied(const Given& given) {
  auto leaf = leaf_of(given);
  leaf.own = torch_->look(given.local.ptr(), false);
  leaf.tied = is_tied(leaf);
  if (!leaf.tied) return false;
  leaf.prepare = py::none();
  add_leaf(std::move(leaf), given);
  return true;
}

bool Tree::prepared(PythonState& state, const Given& given, const py::object& host,
                    const py::object& prepare) {
  const auto facts = torch_->look(host.ptr(), true);
  if (!facts || (given.boxes && given.boxes->local_shape != facts->shape)) return false;
  auto leaf = leaf_of(given);
  leaf.facts = *facts;
  leaf.own = torch_->look(given.local.ptr(), false);
  leaf.prepare = prepare;
  add_to_state(state, std::move(leaf), given, host);
  return true;
}

bool Tree::fits(const py::object& root) {
  release();
  if (never_ || !open_.empty() || nodes_.empty()) return false;
  at_ = 0;
  moved_ = false;
  return walk(root.ptr()) && (!moved_ || are_ties_the_same());
}

bool Tree::walk(PyObject* value) {
  const auto& node = nodes_[at_++];
  if (node.kind == Kind::same) return value == node.code.ptr();
  if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != node.type.ptr()) return false;
  held_.push_back(py::reinterpret_borrow<py::object>(value));
  switch (node.kind) {
    case Kind::dict:
      return walk_dict(node, value);
    case Kind::sequence:
      return walk_sequence(node, value);
    case Kind::fetched: {
      const py::object fetched = node.code(py::handle(value));
      held_.push_back(fetched);
      return walk(fetched.ptr());
    }
    case Kind::renewed:
      return py::cast<bool>(node.code(py::handle(value)));
    case Kind::array:
      return walk_array(arrays_[node.leaf], value);
    case Kind::tensor:
      return walk_tensor(leaves_[node.leaf], value);
    case Kind::same:
      break;
  }
  return false;
}

// In whatever order it has its keys now: each is asked for.
bool Tree::walk_dict(const Node& node, PyObject* value) {
  if (PyDict_Size(value) != std::ssize(node.keys)) return false;
  for (const auto& key : node.keys) {
    auto* one = PyDict_GetItemWithError(value, key.ptr());
    if (!one && PyErr_Occurred()) throw py::error_already_set();
    if (!one || !walk(one)) return false;
  }
  return true;
}

bool Tree::walk_sequence(const Node& node, PyObject* value) {
  const auto size = node.values;
  for (std::size_t i = 0; i < size; ++i) {
    // Code of the application may run in between, and change it.
    if (PySequence_Fast_GET_SIZE(value) != static_cast<py::ssize_t>(size)) return false;
    if (!walk(PySequence_Fast_GET_ITEM(value, static_cast<py::ssize_t>(i)))) return false;
  }
  return PySequence_Fast_GET_SIZE(value) == static_cast<py::ssize_t>(size);
}

// The spec is another object where the tensor is; the same one may have been changed.
bool Tree::is_same_spec(Leaf& leaf, PyObject* value) {
  const auto& names = TorchNames::get();
  auto spec = attribute_or_null(value, names.spec);
  if (!spec) return false;
  auto mesh = attribute_or_null(spec.ptr(), names.mesh);
  auto placements = attribute_or_null(spec.ptr(), names.placements);
  auto tensor_meta = attribute_or_null(spec.ptr(), names.tensor_meta);
  if (!mesh || !placements || !tensor_meta || !are_equal(mesh, leaf.mesh) ||
      !are_equal(placements, leaf.placements) || !are_equal(tensor_meta, leaf.tensor_meta)) {
    return false;
  }
  leaf.spec = std::move(spec);
  leaf.mesh = std::move(mesh);
  leaf.placements = std::move(placements);
  leaf.tensor_meta = std::move(tensor_meta);
  return true;
}

bool Tree::walk_tensor(Leaf& leaf, PyObject* value) {
  if (leaf.spec && !is_same_spec(leaf, value)) return false;
  auto local = leaf.spec ? attribute_or_null(value, TorchNames::get().local_tensor)
                         : py::reinterpret_borrow<py::object>(value);
  if (!local) return false;
  held_.push_back(local);
  if (leaf.own && torch_->is_unchanged(local.ptr(), *leaf.own)) {
    // Of a device's tensor another object may stand for the same elements.
    if (leaf.elsewhere && !leaf.tied) move(leaf, local.ptr(), leaf.facts);
    if (!leaf.prepare || leaf.tied) return true;
  } else {
    moved_ = true;
    leaf.own = torch_->look(local.ptr(), false);
    if (leaf.tied) return false;
  }
  if (leaf.prepare) {
    local = leaf.prepare(py::handle(value));
    held_.push_back(local);
  }
  const auto facts = torch_->look(local.ptr(), !leaf.elsewhere);
  if (!facts || facts->dtype != leaf.facts.dtype || facts->shape != leaf.facts.shape) return false;
  move(leaf, local.ptr(), *facts);
  return true;
}

bool Tree::walk_array(Array& array, PyObject* value) {
  const auto memory = memory_of(py::reinterpret_borrow<py::object>(value), array.key);
  if (memory.dtype != array.dtype || memory.extent != array.extent) return false;
  held_.push_back(memory.owner);
  array.memory->move(host_memory(memory.dtype, memory.data, memory.writable ? memory.data : nullptr,
                                 memory.extent, memory.strides));
  return true;
}

// What has moved may now be the memory of another one, or another may have stayed where it was
// tied to it.
bool Tree::are_ties_the_same() {
  by_address_.clear();
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const auto& leaf = leaves_[i];
    if (is_tied(leaf) != leaf.tied) return false;
    if (!leaf.tied && leaf.own) by_address_.emplace(leaf.own->data, i);
  }
  return true;
}

namespace {

Tree::Given given(const std::string& key, const py::object& value, const py::object& local,
                  const py::object& spec, const std::shared_ptr<TensorBoxes>& boxes,
                  bool restoring) {
  return {key, value, local, spec, boxes, restoring};
}

}  // namespace

void add_tree(py::module_& module) {
  py::class_<Tree::Given>(module, "GivenTensor")
      .def(py::init(&given))
      .def_readonly("value", &Tree::Given::value)
      .def_property_readonly("boxes", [](const Tree::Given& self) {
        return std::const_pointer_cast<TensorBoxes>(self.boxes);
      });
  py::class_<Tree>(module, "Tree")
      .def(py::init(
          [](const std::shared_ptr<TorchTensors>& torch) { return std::make_unique<Tree>(torch); }))
      .def("enter", &Tree::enter)
      .def("enter_fetched", &Tree::enter_fetched)
      .def("leave", &Tree::leave)
      .def("same", &Tree::same)
      .def("renewed", &Tree::renewed)
      .def("array", &Tree::array)
      .def("tensor", &Tree::tensor)
      .def("is_tied", py::overload_cast<const Tree::Given&>(&Tree::is_tied))
      .def("prepared", &Tree::prepared)
      .def("never", &Tree::never)
      .def("fits", &Tree::fits)
      .def("release", &Tree::release);
}

}  // namespace cairn::python
