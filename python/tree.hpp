#pragma once
/// The dicts and lists that a state was made of. A state of the same form is not made anew: only
/// where its tensors lie, and the values that were copied, are brought up to date.
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "torch_tensors.hpp"

namespace cairn::python {

/// Recorded while a state is made, in the order in which it is walked: each container is entered,
/// each of its values says one thing, and it is left.
class Tree {
 public:
  explicit Tree(std::shared_ptr<const TorchTensors> torch) : torch_(std::move(torch)) {}

  /// A dict, by its keys, or a list or tuple. What is another kind of mapping never fits.
  void enter(const py::object& container, const py::object& keys);
  /// A value of this class, in whose place `fetch(value)` gives another one: the only value in it.
  void enter_fetched(const py::object& value, const py::object& fetch);
  void leave();
  /// The same object again.
  void same(const py::object& value);
  /// A value of this class, which `renew(value)` brings up to date, or says that it cannot.
  void renewed(const py::object& value, const py::object& renew);
  /// An array of NumPy; it is added to the state.
  void array(PythonState& state, const std::string& key, const py::object& value);

  /// A tensor of a state. Of a DTensor `spec` and `boxes` say where the local one lies in the
  /// whole.
  struct Given {
    std::string key;
    py::object value, local, spec;  ///< spec is none, and boxes null, unless it is a DTensor
    std::shared_ptr<const TensorBoxes> boxes;
    bool restoring = false;
  };
  /// It is added to the state unless it is tied to one before and saved. False: it is not plain
  /// memory, of the host unless it is `elsewhere`, and nothing happened.
  bool tensor(PythonState& state, const Given& given, bool elsewhere);
  /// Of what is not: whether it is tied to one before, so that nothing is left to do.
  bool is_tied(const Given& given);
  /// Then: its elements were copied to `host`, as `prepare(value)` does again.
  bool prepared(PythonState& state, const Given& given, const py::object& host,
                const py::object& prepare);
  /// Something else: the state has to be made anew each time.
  void never() { never_ = true; }

  /// Whether `root` has the form of what was recorded; the state that was made of that is then one
  /// of this. Else the state is good for nothing.
  bool fits(const py::object& root);
  /// Nothing of the application's is kept alive any longer.
  void release() { held_.clear(); }

 private:
  enum class Kind { dict, sequence, fetched, same, renewed, array, tensor };
  struct Node {
    Kind kind;
    py::object type;  // its values'
    py::object code;  // fetch, renew, or what is the same
    std::vector<py::object> keys;
    std::size_t values = 0, leaf = 0;
  };
  struct Leaf {
    std::string key;
    py::object prepare;  // none: the tensor's own memory
    py::object spec;     // none: no DTensor
    py::object mesh, placements, tensor_meta;
    TensorFacts facts;               // of the memory that is saved
    std::optional<TensorFacts> own;  // of the tensor, by which it is known as tied to another
    std::shared_ptr<const TensorBoxes> boxes;  // null: all of it
    std::vector<std::shared_ptr<MovingMemory>> parts;
    bool tied = false, elsewhere = false;
  };
  struct Array {
    std::string key;
    DType dtype;
    Dims extent;
    std::shared_ptr<MovingMemory> memory;
  };

  Node& add(Kind kind, const py::object& value);
  static Leaf leaf_of(const Given& given);
  void add_leaf(Leaf leaf, const Given& given);
  void add_to_state(PythonState& state, Leaf leaf, const Given& given, const py::object& memory);
  /// Whether a leaf before it has the same elements.
  bool is_tied(const Leaf& leaf) const;
  /// Of the tensor, or of its copy.
  std::shared_ptr<SliceMemory> memory_at(const Leaf& leaf, PyObject* tensor, const Dims& extent,
                                         const Dims& at) const;
  LocalTensor tensor_of(Leaf& leaf, PyObject* tensor) const;
  void move(Leaf& leaf, PyObject* tensor, const TensorFacts& facts) const;
  static bool is_same_spec(Leaf& leaf, PyObject* value);

  bool walk(PyObject* value);
  bool walk_dict(const Node& node, PyObject* value);
  bool walk_sequence(const Node& node, PyObject* value);
  bool walk_tensor(Leaf& leaf, PyObject* value);
  bool walk_array(Array& array, PyObject* value);
  bool are_ties_the_same();

  std::shared_ptr<const TorchTensors> torch_;
  std::vector<Node> nodes_;
  std::vector<std::size_t> open_;  // containers that were entered
  std::vector<Leaf> leaves_;
  std::unordered_multimap<const std::byte*, std::size_t> by_address_;  // leaves that are not tied
  std::vector<Array> arrays_;
  std::vector<py::object> held_;  // what the state refers to
  std::size_t at_ = 0;
  bool never_ = false, moved_ = false;
};

void add_tree(py::module_&);

}  // namespace cairn::python
