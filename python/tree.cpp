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

// The class of the numbers or texts in a list or tuple; null if it is neither, or if they have
// several classes.
PyTypeObject* class_of_all(PyObject* value) {
  if (!PyList_Check(value) && !PyTuple_Check(value)) return nullptr;
  const auto size = PySequence_Fast_GET_SIZE(value);
  auto* const first = size > 0 ? Py_TYPE(PySequence_Fast_GET_ITEM(value, 0)) : nullptr;
  for (py::ssize_t i = 1; i < size; ++i) {
    if (Py_TYPE(PySequence_Fast_GET_ITEM(value, i)) != first) return nullptr;
  }
  return first;
}

py::object element_of(PyObject* value) {
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(class_of_all(value)));
}

// Whether an int does not fit int64.
bool needs_64_bits(PyObject* value) {
  int beyond = 0;
  PyLong_AsLongLongAndOverflow(value, &beyond);
  return beyond != 0;
}

// Writes the numbers into the array; returns false if they do not fit it. `is_large`: the array is
// for an int that does not fit int64.
bool renew_numbers(const py::object& array, PyObject* value, bool is_large) {
  if (PyLong_CheckExact(value) && needs_64_bits(value) != is_large) return false;
  if (PyObject_SetItem(array.ptr(), Py_Ellipsis, value) == 0) return true;
  if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) throw py::error_already_set();
  PyErr_Clear();
  return false;
}

// Returns false if a text cannot be encoded.
bool renew_texts(std::vector<std::string>& kept, PyObject* value, bool several) {
  std::vector<std::string> now;
  const auto take = [&](PyObject* one) {
    py::detail::make_caster<std::string> text;
    if (!text.load(one, false)) return false;
    now.push_back(py::detail::cast_op<std::string&>(text));
    return true;
  };
  const auto size = several ? PySequence_Fast_GET_SIZE(value) : 1;
  for (py::ssize_t i = 0; i < size; ++i) {
    if (!take(several ? PySequence_Fast_GET_ITEM(value, i) : value)) return false;
  }
  if (kept.size() != now.size()) {
    kept = std::move(now);
  } else {
    // The state refers to a scalar by the address of its text.
    std::move(now.begin(), now.end(), kept.begin());
  }
  return true;
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
  return nodes_.emplace_back(Node{kind, py::type::of(value), {}, {}, {}});
}

void Tree::enter(const py::object& container, const py::object& keys, bool ordered) {
  const bool is_dict = PyDict_Check(container.ptr());
  if (!is_dict && !PyList_Check(container.ptr()) && !PyTuple_Check(container.ptr())) never();
  auto& node = add(is_dict ? Kind::dict : Kind::sequence, container);
  node.ordered = ordered;
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

void Tree::held(const py::object& value, const py::object& array) {
  auto& node = add(Kind::held, value);
  node.code = array;
  node.element = element_of(value.ptr());
  node.leaf = PyLong_CheckExact(value.ptr()) && needs_64_bits(value.ptr()) ? 1 : 0;
}

void Tree::texts(const py::object& value, std::size_t number) {
  auto& node = add(Kind::texts, value);
  node.leaf = number;
  node.element = element_of(value.ptr());
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
    tensor.frozen = leaf.trains == false;
    return tensor;
  }
  auto tensor = nothing(leaf.facts.dtype, leaf.boxes->shape);
  tensor.frozen = leaf.trains == false;
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

std::optional<std::size_t> Tree::find_tie(const Leaf& leaf) const {
  if (leaf.wanted || leaf.scope < 0 || !leaf.own || element_count(leaf.own->shape) == 0) {
    return std::nullopt;
  }
  const auto [first, end] = by_address_.equal_range(leaf.own->data);
  const auto found = std::find_if(first, end, [&](const auto& one) {
    const auto& other = leaves_[one.second];
    if (other.scope != leaf.scope || !other.own->same_elements(*leaf.own)) return false;
    if (!other.boxes != !leaf.boxes) return false;
    return !leaf.boxes || other.boxes->shape == leaf.boxes->shape;
  });
  return found == end ? std::nullopt : std::optional(found->second);
}

void Tree::remember(const Leaf& leaf, std::size_t number) {
  if (!leaf.tie && leaf.scope >= 0 && leaf.own) by_address_.emplace(leaf.own->data, number);
}

Tree::Leaf Tree::leaf_of(const Given& given) {
  Leaf leaf;
  leaf.key = given.key;
  leaf.boxes = given.boxes;
  leaf.scope = given.scope;
  leaf.wanted = given.wanted;
  leaf.trains = given.trains;
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
  remember(leaf, leaves_.size());
  leaves_.push_back(std::move(leaf));
}

void Tree::add_to_state(PythonState& state, Leaf leaf, const Given& given,
                        const py::object& memory) {
  held_.push_back(memory);
  state.state.add(leaf.key, tensor_of(leaf, memory.ptr()));
  add_leaf(std::move(leaf), given);
}

py::object Tree::tensor(PythonState& state, const Given& given, bool elsewhere) {
  const auto facts = torch_->look(given.local.ptr(), !elsewhere);
  if (!facts || (given.restoring && shares_elements(*facts)) ||
      (given.boxes && given.boxes->local_shape != facts->shape)) {
    return py::bool_(false);
  }
  auto leaf = leaf_of(given);
  leaf.facts = *facts;
  leaf.own = facts;
  leaf.elsewhere = elsewhere;
  leaf.tie = find_tie(leaf);
  if (const auto tie = leaf.tie) {
    add_leaf(std::move(leaf), given);
    return py::str(leaves_[*tie].key);
  }
  add_to_state(state, std::move(leaf), given, given.local);
  return py::bool_(true);
}

py::object Tree::tie(const Given& given) {
  auto leaf = leaf_of(given);
  leaf.own = torch_->look(given.local.ptr(), false);
  leaf.tie = find_tie(leaf);
  const auto tie = leaf.tie;
  if (!tie) return py::bool_(false);
  leaf.copied = true;
  add_leaf(std::move(leaf), given);
  return py::str(leaves_[*tie].key);
}

bool Tree::prepared(PythonState& state, const Given& given, const py::object& host) {
  const auto facts = torch_->look(host.ptr(), true);
  if (!facts || (given.boxes && given.boxes->local_shape != facts->shape)) return false;
  auto leaf = leaf_of(given);
  leaf.facts = *facts;
  leaf.own = torch_->look(given.local.ptr(), false);
  leaf.copied = true;
  add_to_state(state, std::move(leaf), given, host);
  return true;
}

bool Tree::fits(PythonState& state, const py::object& root) {
  release();
  if (never_ || !open_.empty() || nodes_.empty()) return false;
  at_ = 0;
  moved_ = false;
  return walk(state, root.ptr()) && (!moved_ || are_ties_the_same());
}

bool Tree::walk(PythonState& state, PyObject* value) {
  const auto& node = nodes_[at_++];
  if (node.kind == Kind::same) return value == node.code.ptr();
  if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != node.type.ptr()) return false;
  held_.push_back(py::reinterpret_borrow<py::object>(value));
  switch (node.kind) {
    case Kind::dict:
      return walk_dict(state, node, value);
    case Kind::sequence:
      return walk_sequence(state, node, value);
    case Kind::fetched: {
      const py::object fetched = node.code(py::handle(value));
      held_.push_back(fetched);
      return walk(state, fetched.ptr());
    }
    case Kind::held:
      if (node.element && (!element_of(value).is(node.element) ||
                           PySequence_Fast_GET_SIZE(value) != PyObject_Size(node.code.ptr()))) {
        return false;
      }
      return renew_numbers(node.code, value, node.leaf != 0);
    case Kind::texts:
      if (node.element && !element_of(value).is(node.element)) return false;
      return renew_texts(*state.strings.at(node.leaf), value, bool(node.element));
    case Kind::array:
      return walk_array(arrays_[node.leaf], value);
    case Kind::tensor:
      return walk_tensor(leaves_[node.leaf], value);
    case Kind::same:
      break;
  }
  return false;
}

// Looks up each key anew, since code of the application may run in between.
bool Tree::walk_dict(PythonState& state, const Node& node, PyObject* value) {
  if (PyDict_Size(value) != std::ssize(node.keys)) return false;
  if (node.ordered) {
    std::size_t i = 0;
    for (const auto& key : py::reinterpret_borrow<py::object>(value)) {
      if (i == node.keys.size() || !py::type::of(key).is(py::type::of(node.keys[i])) ||
          !are_equal(py::reinterpret_borrow<py::object>(key), node.keys[i++])) {
        return false;
      }
    }
  }
  for (const auto& key : node.keys) {
    auto* one = PyDict_GetItemWithError(value, key.ptr());
    if (!one && PyErr_Occurred()) throw py::error_already_set();
    if (!one || !walk(state, one)) return false;
  }
  return true;
}

bool Tree::walk_sequence(PythonState& state, const Node& node, PyObject* value) {
  const auto size = node.values;
  for (std::size_t i = 0; i < size; ++i) {
    // Code of the application may run in between, and change the list.
    if (PySequence_Fast_GET_SIZE(value) != static_cast<py::ssize_t>(size)) return false;
    if (!walk(state, PySequence_Fast_GET_ITEM(value, static_cast<py::ssize_t>(i)))) return false;
  }
  return PySequence_Fast_GET_SIZE(value) == static_cast<py::ssize_t>(size);
}

// Another tensor may have another spec object with the same contents; the same object may have been
// changed.
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
  if (leaf.trains && attribute_or_null(value, TorchNames::get().requires_grad).ptr() !=
                         (*leaf.trains ? Py_True : Py_False)) {
    return false;
  }
  auto local = leaf.spec ? attribute_or_null(value, TorchNames::get().local_tensor)
                         : py::reinterpret_borrow<py::object>(value);
  if (!local) return false;
  held_.push_back(local);
  if (leaf.own && torch_->is_unchanged(local.ptr(), *leaf.own)) {
    // For a tensor of a device, another object may stand for the same elements.
    if (leaf.elsewhere && !leaf.tie) move(leaf, local.ptr(), leaf.facts);
    if (!leaf.copied || leaf.tie) return true;
  } else {
    moved_ = true;
    leaf.own = torch_->look(local.ptr(), false);
    if (leaf.tie) return false;
  }
  if (leaf.copied) {
    local = copied_(leaf.key, py::handle(value));
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

// A tensor that has moved may now share memory with another one, or no longer with one to which it
// was tied.
bool Tree::are_ties_the_same() {
  by_address_.clear();
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const auto& leaf = leaves_[i];
    if (find_tie(leaf) != leaf.tie) return false;
    remember(leaf, i);
  }
  return true;
}

namespace {

Tree::Given given(const std::string& key, const py::object& value, const py::object& local,
                  const py::object& spec, const std::shared_ptr<TensorBoxes>& boxes, bool restoring,
                  int scope, bool wanted) {
  return {key, value, local, spec, boxes, restoring, scope, wanted};
}

}  // namespace

void add_tree(py::module_& module) {
  py::class_<Tree::Given>(module, "GivenTensor")
      .def(py::init(&given))
      .def_readonly("value", &Tree::Given::value)
      .def_readwrite("trains", &Tree::Given::trains)
      .def_property_readonly("boxes", [](const Tree::Given& self) {
        return std::const_pointer_cast<TensorBoxes>(self.boxes);
      });
  py::class_<Tree>(module, "Tree")
      .def(py::init([](const std::shared_ptr<TorchTensors>& torch, const py::object& copied) {
        return std::make_unique<Tree>(torch, copied);
      }))
      .def("enter", &Tree::enter)
      .def("enter_fetched", &Tree::enter_fetched)
      .def("leave", &Tree::leave)
      .def("same", &Tree::same)
      .def("held", &Tree::held)
      .def("texts", &Tree::texts)
      .def("array", &Tree::array)
      .def("tensor", &Tree::tensor)
      .def("tie", &Tree::tie)
      .def("prepared", &Tree::prepared)
      .def("never", &Tree::never)
      .def_property_readonly("may_fit", &Tree::may_fit)
      .def("fits", &Tree::fits)
      .def("release", &Tree::release);
}

}  // namespace cairn::python
