#pragma once
/// The tensors that a rank saves to a checkpoint and gets back from it.
#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cairn/attributes.hpp"
#include "cairn/box.hpp"
#include "cairn/dtype.hpp"
#include "cairn/object_graph.hpp"
#include "cairn/slice_memory.hpp"

namespace cairn {

class Cursor;
class Error;
struct CheckpointContents;
class RefreshedState;
namespace detail {
class StateMaker;
}

/// One slice that this rank holds: its box in global coordinates, and its elements.
struct LocalSlice {
  Box box;
  std::shared_ptr<SliceMemory> memory;
  /// True for dimensions that the stored slice spells "-", TensorFlow's sign for a whole dimension;
  /// the slice must hold all of them. Empty: none. Only DTensor needs this: see Layout.
  std::vector<bool> dash = {};
  /// The slice's device, if it is not its tensor's (patches() sets it). As in LocalTensor.
  std::string device_type = {};  ///< empty: the slice is on its tensor's device
  std::optional<int> device_index = std::nullopt;
};

/// How a tensor that consists of several slices is stored. Every reader gets the same elements.
enum class Storage {
  /// Slice by slice; but dense if TensorFlow cannot assemble the dtype from slices
  /// (dtype_assembles_in_tensorflow), and from 8,000 slices on, where it becomes slow. A large
  /// slice that several ranks hold may be cut, so that they share the work of writing it.
  automatic,
  sliced,  ///< each slice is an entry of its own, written by a rank that holds it
  /// The tensor is one plain row-major entry in one data file; each rank writes a part of it. Dense
  /// tensors share a data file, unless the sharding policy deals them to several (dense_files).
  dense
};

struct LocalTensor;
struct SparseFill;
struct Unresolved;
class Rows;

/// The source of a tensor that the application moves, resizes or cuts anew between saves.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// Sets shape, boxes and memory of `tensor`, a copy of the state's, to the application's present
  /// ones. The thread that called a save or restore calls it at the beginning; so several threads
  /// may call it at a time if they save one state. Its errors are thrown on all ranks.
  virtual void refresh(LocalTensor& tensor) const = 0;
  /// Called before the state keeps this tensor between calls: removes memory (a View's) that must
  /// not be kept alive. refresh() sets it again.
  virtual void let_go(LocalTensor&) const {}
};

/// This rank's part of one tensor of the job: no slice, one slice, several (patches), or all of it.
struct LocalTensor {
  DType dtype{};
  Dims shape;                             ///< shape of the whole tensor, over all ranks
  std::vector<LocalSlice> slices;         ///< disjoint
  std::shared_ptr<StringMemory> strings;  ///< for DType::string, in place of slices
  std::string device_type = "CPU";        ///< the memory's device: "CUDA", "HIP", …
  /// The device's number; none: 0 for "CPU", else the rank's number within its node.
  std::optional<int> device_index = std::nullopt;
  Storage storage = Storage::automatic;  ///< ranks that give another value must agree on it
  /// For ragged, rank-private and indexed data (cairn/ragged.hpp, cairn/indexed.hpp): a save or
  /// restore finds key, shape and slices with all ranks.
  std::shared_ptr<const Unresolved> unresolved = nullptr;
  /// Elements that no rank holds are allowed (cairn/sparse.hpp). Null: they are an error.
  std::shared_ptr<const SparseFill> sparse = nullptr;
  bool frozen = false;        ///< as if FrozenOptions::keys had its key; ranks may differ
  bool captured = false;      ///< a save with Until::released copies it at the call
  bool made_by_save = false;  ///< added by the library: an object graph, TensorFlow's save_counter
  std::shared_ptr<Rows> resizes = nullptr;         ///< not null: cairn/resizable.hpp
  std::shared_ptr<TensorSource> source = nullptr;  ///< null: the tensor stays as it was given
  /// The error that makes the tensor unusable: State::add, which knows the key, throws it.
  std::shared_ptr<const Error> refused = nullptr;
};

/// A slice of a global tensor, of any dtype: `data` is the slice's first element. State::add throws
/// the errors of a slice, with the key.
LocalTensor slice(DType dtype, void* data, Dims global_shape, Dims start, Dims extent,
                  Dims strides = {});
LocalTensor slice(DType dtype, const void* data, Dims global_shape, Dims start, Dims extent,
                  Dims strides = {});

/// The same for a typed pointer. Strides are in elements: a field with halos passes the address of
/// its first owned element and the strides of the array with halos.
template <Element T>
LocalTensor slice(T* data, Dims global_shape, Dims start, Dims extent, Dims strides = {}) {
  using Pointer = std::conditional_t<std::is_const_v<T>, const void*, void*>;
  return slice(dtype_of<std::remove_cv_t<T>>::value, static_cast<Pointer>(data),
               std::move(global_shape), std::move(start), std::move(extent), std::move(strides));
}

/// Throws invalid_argument if the last element lies beyond the `size` elements of a span.
void check_span_holds(std::size_t size, const Dims& extent, const Dims& strides,
                      const char* holder = "span");

namespace detail {
/// Throws invalid_argument unless all three have the same number of dimensions.
void require_dimensions(const Dims& shape, const Dims& start, const Dims& extent);
LocalTensor if_held(std::size_t size, const Dims& extent, const Dims& strides, LocalTensor tensor);
}  // namespace detail

/// The same for a span, whose size is checked.
template <Element T, std::size_t N>
LocalTensor slice(std::span<T, N> data, Dims global_shape, Dims start, Dims extent,
                  Dims strides = {}) {
  return detail::if_held(
      data.size(), extent, strides,
      slice(data.data(), std::move(global_shape), std::move(start), extent, strides));
}

/// The whole tensor on this rank. If several ranks give it, they are replicas; one is written.
template <Element T>
LocalTensor whole(T* data, Dims shape, Dims strides = {}) {
  return slice(data, shape, Dims(shape.size(), 0), shape, std::move(strides));
}

namespace detail {
template <class Vector>
concept VectorOfNumbers =
    Element<typename Vector::value_type> && !std::is_same_v<typename Vector::value_type, bool> &&
    std::is_same_v<std::remove_const_t<Vector>, std::vector<typename Vector::value_type>>;

using AskBytes = std::function<std::span<const std::byte>()>;
LocalTensor whole_vector(DType dtype, AskBytes ask, bool writable);
LocalTensor slice_of_vector(DType dtype, AskBytes ask, bool writable, Dims global_shape, Dims start,
                            Dims extent, Dims strides);
template <class Vector>
AskBytes bytes_of(Vector* values) {
  return [values] { return std::as_bytes(std::span(*values)); };
}
}  // namespace detail

/// A vector by reference: each save and restore asks where its elements lie and how many there are.
/// So it may grow, shrink and be swapped, but must stay at its address as long as the State is
/// used. No restore resizes it (see resizable and ragged). A vector too short for its slice is an
/// error of that save or restore, on all ranks. A const one is for saving only.
template <detail::VectorOfNumbers Vector>
LocalTensor slice(Vector* values, Dims global_shape, Dims start, Dims extent, Dims strides = {}) {
  return detail::slice_of_vector(dtype_of<typename Vector::value_type>::value,
                                 detail::bytes_of(values), !std::is_const_v<Vector>,
                                 std::move(global_shape), std::move(start), std::move(extent),
                                 std::move(strides));
}
/// The whole tensor, of this fixed shape; without a shape it has as many elements as the vector.
template <detail::VectorOfNumbers Vector>
LocalTensor whole(Vector* values, Dims shape, Dims strides = {}) {
  return slice(values, shape, Dims(shape.size(), 0), shape, std::move(strides));
}
template <detail::VectorOfNumbers Vector>
LocalTensor whole(Vector* values) {
  return detail::whole_vector(dtype_of<typename Vector::value_type>::value,
                              detail::bytes_of(values), !std::is_const_v<Vector>);
}

/// The tensor that a function returns. The function is called at once and then at each save and
/// restore: for buffers that are swapped, subviews, patches that come and go. It must return
/// neither ragged, rank-private nor indexed data. The state keeps the tensor only while a save or
/// restore runs.
LocalTensor each_time(std::function<LocalTensor()> give);

/// Several slices of one tensor. All must have the same dtype and global shape; each keeps its
/// device.
LocalTensor patches(std::vector<LocalTensor> slices);

/// This rank has no part of the tensor. To leave the key out of the state means the same.
LocalTensor nothing(DType dtype, Dims global_shape);

LocalTensor strings(std::vector<std::string>& values);
LocalTensor strings(std::string& value);  ///< a scalar

/// The same tensor, to be stored in this way: state.add("h", stored(Storage::dense, slice(…))).
LocalTensor stored(Storage storage, LocalTensor tensor);

/// What an object graph needs besides a state's keys (docs/object-graph.md).
struct ObjectNotes {
  std::vector<std::pair<std::string, std::string>> aliases;  ///< path, and its target
  std::map<std::string, std::string> names;                  ///< names of variables, by key
  std::shared_ptr<const ObjectGraph> graph;  ///< null: a save makes one of the paths
};

/// The tensors of one rank, in the order in which they were added. It refers to the application's
/// memory and owns none of it: a pointer must stay valid, an object given by reference must stay at
/// its address as long as the state is used. A save does not change the state, so several managers
/// may save it from several threads; anything else is for one thread at a time.
class State {
 public:
  /// Throws invalid_argument for a key that is empty, not UTF-8, begins with a zero byte or with
  /// "_cairn/", or is there already; and for slices that lie outside the shape or overlap. A save
  /// accepts slices that share memory. A restore throws invalid_argument, before it touches
  /// anything, if elements share memory: those of one slice, or of two slices, texts or vectors,
  /// unless both have one dtype and shape and the same stored bytes (tied weights).
  State& add(std::string key, LocalTensor tensor);

  /// One value for the job; every rank holds it.
  template <Element T>
  State& add(std::string key, T& value) {
    return add(std::move(key), whole(&value, {}));
  }
  /// A small replicated array, with the length that it has at each save and restore.
  template <Element T>
  State& add(std::string key, std::vector<T>& values) {
    return add(std::move(key), whole(&values));
  }
  template <Element T, std::size_t N>
  State& add(std::string key, std::array<T, N>& values) {
    return add(std::move(key), whole(values.data(), {static_cast<std::int64_t>(N)}));
  }
  State& add(std::string key, std::string& value) { return add(std::move(key), strings(value)); }
  State& add(std::string key, std::vector<std::string>& values) {
    return add(std::move(key), strings(values));
  }
  /// The tensor that a function returns at each save and restore: see each_time.
  template <std::invocable Give>
  requires std::convertible_to<std::invoke_result_t<Give&>, LocalTensor> State& add(std::string key,
                                                                                    Give give) {
    return add(std::move(key), each_time(std::move(give)));
  }

  /// Adds the tensors of another state, as KEY/its key, with its aliases and names: states make a
  /// tree, whose keys are paths. Tensors added to `part` later are not in this state. Throws
  /// invalid_argument if `part` carries an object graph, and for a key that is there already: then
  /// it has added none.
  State& add(const std::string& key, const State& part);
  /// Adds a list of states as KEY/0/…, KEY/1/…; all or none.
  State& add(const std::string& key, const std::vector<State>& parts);

  State& add(const std::string& key, Cursor& cursor);  ///< cairn/cursor.hpp: KEY/deal, KEY/done

  /// Makes the object under `target` (a key, or a path that keys begin with) known under `path`
  /// too.
  State& alias(std::string path, std::string target);
  /// The variable's name of the tensor under `key`. The object graph has it, and a restore looks
  /// for it in a checkpoint without the key.
  State& name(const std::string& key, std::string variable_name);
  /// The object graph that saves store, such as that of a checkpoint that was restored.
  State& carry(std::shared_ptr<const ObjectGraph> graph);

  /// Describes a tensor (units, names of dimensions, …) or, by a path that keys begin with, a group
  /// of tensors; replaces an earlier description. Saves store it with the tensor. Throws
  /// invalid_argument if it cannot be stored (cairn/attributes.hpp). A rank may describe tensors of
  /// others.
  State& describe(std::string key, Description description);
  /// Describes the whole checkpoint; names that were given before get the new value.
  State& describe(Attributes attributes);
  const Descriptions& descriptions() const { return descriptions_; }

  /// The tensors as they were given; those of each_time have no slices.
  const std::vector<std::pair<std::string, LocalTensor>>& tensors() const { return tensors_; }
  const LocalTensor* find(std::string_view key) const;
  const ObjectNotes& objects() const { return objects_; }

  /// How to store the tensors whose own Storage is `automatic`. The same on all ranks.
  State& store(Storage storage) { return storage_ = storage, *this; }
  Storage storage() const { return storage_; }

  /// A restore fills the tensors that `maker` makes from the checkpoint (model/state_maker.hpp), in
  /// place of those in this state. Null: those in this state.
  State& made_by(std::shared_ptr<detail::StateMaker> maker);
  const std::shared_ptr<detail::StateMaker>& maker() const { return maker_; }
  /// Calls the maker, if there is one.
  void make(const CheckpointContents&);

 private:
  friend class RefreshedState;  // model/refreshed_state.hpp
  void require_new(const std::string& key) const;
  State& take(State part);

  void append(std::string key, LocalTensor tensor);

  Storage storage_ = Storage::automatic;
  std::vector<std::pair<std::string, LocalTensor>> tensors_;
  std::vector<std::size_t> followed_;  // tensors with a source
  std::map<std::string, std::size_t, std::less<>> position_;
  ObjectNotes objects_;
  Descriptions descriptions_;
  std::shared_ptr<detail::StateMaker> maker_;
};

}  // namespace cairn
