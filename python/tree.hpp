#pragma once
/// The dicts and lists from which a state was made. If they have the same form at the next save,
/// the state is not made anew: only the addresses of its tensors and the copied values are updated.
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "torch_tensors.hpp"

namespace cairn::python {

/// It is recorded while a state is made, in the order of the walk: enter() for each container, one
/// call for each of its values, then leave().
class Tree {
 public:
  /// `copied(key, value)` returns a tensor in host memory with the elements of one that is not.
  /// Python's garbage collector does not see references in here, so neither this function nor those
  /// that are given below may refer to the owner of the tree.
  Tree(std::shared_ptr<const TorchTensors> torch, py::object copied)
      : torch_(std::move(torch)), copied_(std::move(copied)) {}

  /// A dict, by its keys, in this order if it is `ordered`; or a list or tuple. Another kind of
  /// mapping never fits.
  void enter(const py::object& container, const py::object& keys, bool ordered);
  /// A value of this class, which `fetch(value)` replaces by another one: the only value in it.
  void enter_fetched(const py::object& value, const py::object& fetch);
  void leave();
  /// An object that must be the same next time, and that always exists, such as None.
  void same(const py::object& value);
  /// A number, or numbers of one class in a list or tuple; `array` holds a copy.
  void held(const py::object& value, const py::object& array);
  /// A text, or texts of one class in a list or tuple; they have this number in the state.
  void texts(const py::object& value, std::size_t number);
  /// Adds an array of NumPy to the state.
  void array(PythonState& state, const std::string& key, const py::object& value);

  /// A tensor of a state. For a DTensor `spec` and `boxes` say where the local tensor lies in the
  /// whole.
  struct Given {
    std::string key;
    py::object value, local, spec;  ///< spec is none, and boxes null, unless it is a DTensor
    std::shared_ptr<const TensorBoxes> boxes;
    bool restoring = false;
    /// It may be tied to (have the same memory as) an earlier tensor of the same scope. Less than
    /// 0: to none.
    int scope = 0;
    bool wanted = false;  ///< add it even if it is tied
    /// Of a parameter whose kind decides whether it is frozen: whether it requires a gradient.
    std::optional<bool> trains = std::nullopt;
  };
  /// Adds a tensor to the state and returns True. If it is tied to an earlier tensor, returns that
  /// one's key instead. Returns False, and does nothing, if it is not plain memory (of the host, or
  /// of a device if `elsewhere`).
  py::object tensor(PythonState& state, const Given& given, bool elsewhere);
  /// For a tensor that is not plain memory: returns the key of the earlier tensor to which it is
  /// tied, so that nothing is left to do; or False.
  py::object tie(const Given& given);
  /// For one that is not tied: adds it, with its elements copied to `host`.
  bool prepared(PythonState& state, const Given& given, const py::object& host);
  /// Any other value: the state has to be made anew each time.
  void never() { never_ = true; }
  bool may_fit() const { return !never_; }

  /// Returns whether `root` has the recorded form; then the state is updated to its values. Else
  /// the state is unusable.
  bool fits(PythonState& state, const py::object& root);
  /// Releases all objects of the application.
  void release() { held_.clear(); }

 private:
  enum class Kind { dict, sequence, fetched, same, held, texts, array, tensor };
  struct Node {
    Kind kind;
    py::object type;     // class of the value
    py::object code;     // fetch, the object that stays the same, or the array with a copy
    py::object element;  // class of numbers or texts in a list; none: a single value
    std::vector<py::object> keys;
    std::size_t values = 0, leaf = 0;
    bool ordered = false;
  };
  struct Leaf {
    std::string key;
    py::object spec;  // none: no DTensor
    py::object mesh, placements, tensor_meta;
    TensorFacts facts;                         // facts of the memory that is saved
    std::optional<TensorFacts> own;            // facts of the tensor itself, to find ties
    std::shared_ptr<const TensorBoxes> boxes;  // null: all of it
    std::vector<std::shared_ptr<MovingMemory>> parts;
    std::optional<std::size_t> tie;  // the earlier leaf with the same elements
    int scope = 0;
    bool wanted = false, elsewhere = false;
    bool copied = false;  // its memory is a copy
    std::optional<bool> trains;
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
  /// Returns the earlier leaf that has the same elements.
  std::optional<std::size_t> find_tie(const Leaf& leaf) const;
  void remember(const Leaf& leaf, std::size_t number);
  /// The memory of the tensor, or of its copy.
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
  std::vector<std::size_t> open_;  // containers that were entered and not left
  std::vector<Leaf> leaves_;
  std::unordered_multimap<const std::byte*, std::size_t> by_address_;  // leaves that are not tied
  std::vector<Array> arrays_;
  std::vector<py::object> held_;  // objects to which the state refers
  std::size_t at_ = 0;
  bool never_ = false, moved_ = false;
};

void add_tree(py::module_&);

}  // namespace cairn::python
