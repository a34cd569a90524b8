#pragma once
/// The dicts and lists that a state was made of. A state of the same form is not made anew: only
/// where its tensors lie, and the values that were copied, are brought up to date.
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "torch_tensors.hpp"

namespace cairn::python {

/// Recorded while a state is made, in the order in which it is walked: each container is entered,
/// each of its values says one thing, and it is left.
class Tree {
 public:
  /// `copied(key, value)` gives a tensor in host memory that has the elements of one that is not.
  /// The collector of Python does not see what is kept here, so neither this function nor those
  /// that are given below may lead to whoever has the tree.
  Tree(std::shared_ptr<const TorchTensors> torch, py::object copied)
      : torch_(std::move(torch)), copied_(std::move(copied)) {}

  /// A dict, by its keys, in this order if it is `ordered`, or a list or tuple. What is another
  /// kind of mapping never fits.
  void enter(const py::object& container, const py::object& keys, bool ordered);
  /// A value of this class, in whose place `fetch(value)` gives another one: the only value in it.
  void enter_fetched(const py::object& value, const py::object& fetch);
  void leave();
  /// The same object again: one that is never gone, as None is.
  void same(const py::object& value);
  /// A number, or numbers of one class in a list or tuple, of which `array` has a copy.
  void held(const py::object& value, const py::object& array);
  /// A text, or texts of one class in a list or tuple: those of this number in the state.
  void texts(const py::object& value, std::size_t number);
  /// An array of NumPy; it is added to the state.
  void array(PythonState& state, const std::string& key, const py::object& value);

  /// A tensor of a state. Of a DTensor `spec` and `boxes` say where the local one lies in the
  /// whole.
  struct Given {
    std::string key;
    py::object value, local, spec;  ///< spec is none, and boxes null, unless it is a DTensor
    std::shared_ptr<const TensorBoxes> boxes;
    bool restoring = false;
    /// It may be tied to those before it of the same scope: to be the same memory. Less than 0: to
    /// none.
    int scope = 0;
    bool wanted = false;  ///< it is added although it is tied
  };
  /// It is added to the state, for which it gives true, unless it is tied to one before, whose key
  /// it gives. False: it is not plain memory, of the host unless it is `elsewhere`, and nothing
  /// happened.
  py::object tensor(PythonState& state, const Given& given, bool elsewhere);
  /// Of what is not: the key of the one before that it is tied to, so that nothing is left to do;
  /// or false.
  py::object tie(const Given& given);
  /// Then: its elements were copied to `host`.
  bool prepared(PythonState& state, const Given& given, const py::object& host);
  /// Something else: the state has to be made anew each time.
  void never() { never_ = true; }
  bool may_fit() const { return !never_; }

  /// Whether `root` has the form of what was recorded; the state that was made of that is then one
  /// of this. Else the state is good for nothing.
  bool fits(PythonState& state, const py::object& root);
  /// Nothing of the application's is kept alive any longer.
  void release() { held_.clear(); }

 private:
  enum class Kind { dict, sequence, fetched, same, held, texts, array, tensor };
  struct Node {
    Kind kind;
    py::object type;     // its values'
    py::object code;     // fetch, what is the same, or the array that holds a copy
    py::object element;  // the class of numbers or texts in a list; none: there is one by itself
    std::vector<py::object> keys;
    std::size_t values = 0, leaf = 0;
    bool ordered = false;
  };
  struct Leaf {
    std::string key;
    py::object spec;  // none: no DTensor
    py::object mesh, placements, tensor_meta;
    TensorFacts facts;               // of the memory that is saved
    std::optional<TensorFacts> own;  // of the tensor, by which it is known as tied to another
    std::shared_ptr<const TensorBoxes> boxes;  // null: all of it
    std::vector<std::shared_ptr<MovingMemory>> parts;
    std::optional<std::size_t> tie;  // the leaf before it that has the same elements
    int scope = 0;
    bool wanted = false, elsewhere = false;
    bool copied = false;  // its memory is that of a copy
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
  /// The leaf before it that has the same elements.
  std::optional<std::size_t> find_tie(const Leaf& leaf) const;
  void remember(const Leaf& leaf, std::size_t number);
  /// Of the tensor, or of its copy.
  std::shared_ptr<SliceMemory> memory_at(const Leaf& leaf, PyObject* tensor, const Dims& extent,
                                         const Dims& at) const;
  LocalTensor tensor_of(Leaf& leaf, PyObject* tensor) const;
  void move(Leaf& leaf, PyObject* tensor, const TensorFacts& facts) const;
  static bool is_same_spec(Leaf& leaf, PyObject* value);

  bool walk(PythonState& state, PyObject* value);
  bool walk_dict(PythonState& state, const Node& node, PyObject* value);
  bool walk_sequence(PythonState& state, const Node& node, PyObject* value);
  bool walk_tensor(Leaf& leaf, PyObject* value);
  bool walk_array(Array& array, PyObject* value);
  bool are_ties_the_same();

  std::shared_ptr<const TorchTensors> torch_;
  py::object copied_;
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
