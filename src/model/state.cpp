#include "cairn/state.hpp"

#include <algorithm>
#include <iterator>

#include "base/text.hpp"
#include "model/check_tensor.hpp"
#include "model/descriptions.hpp"
#include "model/follow.hpp"
#include "model/keys.hpp"
#include "model/state_maker.hpp"

namespace cairn {
namespace {

// A vector of strings. Its length is the tensor's shape, unless the application gave the tensor a
// shape of more or fewer dimensions.
class StringVector : public StringMemory, public TensorSource {
 public:
  explicit StringVector(std::vector<std::string>& values) : values_(values) {}
  std::vector<std::string> get() const override { return values_; }
  void set(std::vector<std::string> values) override { values_ = std::move(values); }
  Footprint footprint() const override { return footprint_of(values_); }
  void refresh(LocalTensor& tensor) const override {
    if (tensor.shape.size() == 1) tensor.shape[0] = static_cast<std::int64_t>(values_.size());
  }

 private:
  std::vector<std::string>& values_;
};

class OneString : public StringMemory {
 public:
  explicit OneString(std::string& value) : value_(value) {}
  std::vector<std::string> get() const override { return {value_}; }
  void set(std::vector<std::string> values) override { value_ = std::move(values.at(0)); }
  Footprint footprint() const override { return footprint_of(value_); }

 private:
  std::string& value_;
};

LocalTensor slice_of(DType dtype, const void* data, void* writable, Dims shape, Dims start,
                     Dims extent, Dims strides) {
  return or_refused([&] {
    detail::require_dimensions(shape, start, extent);
    auto tensor = nothing(dtype, std::move(shape));
    auto memory = host_memory(dtype, data, writable, extent, std::move(strides));
    tensor.slices.push_back({Box{std::move(start), std::move(extent)}, std::move(memory)});
    return tensor;
  });
}

// Only slices of numbers can be put together.
void require_patch(const LocalTensor& one) {
  const auto not_this = [](std::string what, std::string reason, std::string way_out = "") {
    throw Error(Code::invalid_argument, "patches() was given " + std::move(what), std::move(reason),
                std::move(way_out));
  };
  if (one.sparse) not_this("a sparse tensor", "", "Give sparse(patches(…), fill).");
  if (one.unresolved) {
    not_this("ragged, rank-private or indexed data", "it has no slices before ranks meet");
  }
  if (one.resizes) not_this("resizable data", "it is all of its tensor");
  if (one.strings) not_this("strings", "a string tensor is whole on each rank that has it");
}

// Adds the slices of a patch to the tensor that the first patch has become.
void add_patch(LocalTensor& all, LocalTensor& next) {
  if (next.dtype != all.dtype || next.shape != all.shape) {
    throw Error(Code::invalid_argument, cat("patches of one tensor disagree: ",
                                            dtype_name(all.dtype), shape_text(all.shape), " and ",
                                            dtype_name(next.dtype), shape_text(next.shape)));
  }
  if (all.storage == Storage::automatic) all.storage = next.storage;
  if (next.storage != Storage::automatic && next.storage != all.storage) {
    throw Error(Code::invalid_argument, "patches of one tensor are to be stored in two ways");
  }
  const bool elsewhere =
      next.device_type != all.device_type || next.device_index != all.device_index;
  // A tensor has one device, that of the first patch. Slices of patches elsewhere say so
  // themselves.
  for (auto& one : next.slices) {
    if (elsewhere && one.device_type.empty()) {
      one.device_type = next.device_type;
      one.device_index = next.device_index;
    }
    all.slices.push_back(std::move(one));
  }
}

}  // namespace

LocalTensor slice(DType dtype, void* data, Dims shape, Dims start, Dims extent, Dims strides) {
  return slice_of(dtype, data, data, std::move(shape), std::move(start), std::move(extent),
                  std::move(strides));
}

LocalTensor slice(DType dtype, const void* data, Dims shape, Dims start, Dims extent,
                  Dims strides) {
  return slice_of(dtype, data, nullptr, std::move(shape), std::move(start), std::move(extent),
                  std::move(strides));
}

namespace detail {

void require_dimensions(const Dims& shape, const Dims& start, const Dims& extent) {
  if (start.size() == shape.size() && extent.size() == shape.size()) return;
  throw Error(Code::invalid_argument,
              cat("a slice with start ", shape_text(start), " and extent ", shape_text(extent),
                  " is given for a tensor of shape ", shape_text(shape)),
              "all three need the same number of dimensions");
}

LocalTensor if_held(std::size_t size, const Dims& extent, const Dims& strides, LocalTensor tensor) {
  return or_refused([&] {
    if (!tensor.refused) check_span_holds(size, extent, strides);
    return std::move(tensor);
  });
}

}  // namespace detail

// Finds the lowest and the highest element that the strides lead to: both must be in the span.
void check_span_holds(std::size_t size, const Dims& extent, const Dims& strides,
                      const char* holder) {
  if (element_count(extent) == 0) return;
  const auto refuse = [&](std::string reason) {
    throw Error(Code::invalid_argument,
                cat("a slice of extent ", shape_text(extent), " does not fit its ", holder, " of ",
                    size, " elements"),
                std::move(reason));
  };
  const Dims steps = strides.empty() ? row_major_strides(extent) : strides;
  std::int64_t first = 0, last = 0;  // of all dimensions together
  for (std::size_t d = 0; d < extent.size() && d < steps.size(); ++d) {
    std::int64_t way = 0;
    auto& end = steps[d] < 0 ? first : last;
    if (__builtin_mul_overflow(extent[d] - 1, steps[d], &way) ||
        __builtin_add_overflow(end, way, &end)) {
      refuse(cat("its strides ", shape_text(steps), " lead past 2^63 elements"));
    }
  }
  if (first < 0) refuse(cat("its first element would be number ", first));
  if (static_cast<std::uint64_t>(last) >= size) {
    refuse(cat("its last element would be number ", last));
  }
}

LocalTensor patches(std::vector<LocalTensor> slices) {
  if (slices.empty()) {
    throw Error(Code::invalid_argument, "patches() was given no slice", "",
                "Use nothing(dtype, shape) for a rank that holds none.");
  }
  bool follow = false;
  for (const auto& one : slices) {
    if (one.refused) return one;
    follow = follow || one.source;
    require_patch(one);
  }
  // A patch may be another one at each save, so all are joined anew each time.
  if (follow) {
    return each_time([slices = std::move(slices)] {
      auto now = slices;
      for (auto& one : now) one = looked_at(std::move(one));
      return patches(std::move(now));
    });
  }
  LocalTensor all = std::move(slices.front());
  for (std::size_t i = 1; i < slices.size(); ++i) add_patch(all, slices[i]);
  return all;
}

LocalTensor stored(Storage storage, LocalTensor tensor) {
  tensor.storage = storage;
  return tensor;
}

LocalTensor nothing(DType dtype, Dims shape) {
  LocalTensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return tensor;
}

LocalTensor strings(std::vector<std::string>& values) {
  auto tensor = nothing(DType::string, {static_cast<std::int64_t>(values.size())});
  const auto vector = std::make_shared<StringVector>(values);
  tensor.strings = vector;
  tensor.source = vector;
  return tensor;
}

LocalTensor strings(std::string& value) {
  auto tensor = nothing(DType::string, {});
  tensor.strings = std::make_shared<OneString>(value);
  return tensor;
}

void State::require_new(const std::string& key) const {
  if (!find(key)) return;
  throw Error(Code::invalid_argument, cat("key '", key, "' is in the state already"),
              "each tensor has one key", "Give several slices of one tensor with patches().")
      .of_tensor(key);
}

State& State::add(std::string key, LocalTensor tensor) {
  check_key(key);
  require_new(key);
  check_tensor(key, tensor);
  append(std::move(key), std::move(tensor));
  return *this;
}

// A tensor with a source is refreshed by each RefreshedState; followed_ has its place.
void State::append(std::string key, LocalTensor tensor) {
  position_.emplace(key, tensors_.size());
  if (tensor.source) {
    tensor.source->let_go(tensor);
    followed_.push_back(tensors_.size());
  }
  tensors_.emplace_back(std::move(key), std::move(tensor));
}

State& State::made_by(std::shared_ptr<detail::StateMaker> maker) {
  maker_ = std::move(maker);
  return *this;
}

// The state is emptied first: it may have been made for another checkpoint that the restore tried
// before.
void State::make(const CheckpointContents& contents) {
  if (!maker_) return;
  const auto maker = maker_;
  *this = State();
  maker_ = maker;
  maker->make(*this, contents);
}

// Copies all that the part has, below the key. Attributes of the part as a whole become those of
// the key.
State& State::add(const std::string& key, const State& part) {
  const auto below = [&](const std::string& path) { return key + '/' + path; };
  if (key.empty() || &part == this || part.objects_.graph) {
    throw Error(Code::invalid_argument, cat("a state cannot be added under '", key, "'"),
                key.empty()     ? "a part of a tree has a name"
                : &part == this ? "it is the state itself"
                                : "it carries an object graph, which is that of a whole checkpoint",
                "Let the outermost state carry the graph.")
        .of_tensor(key);
  }
  // All checks happen on a state of its own, so that an error leaves this state as it was.
  State grown;
  for (auto [name, tensor] : part.tensors_) {
    if (tensor.storage == Storage::automatic) tensor.storage = part.storage_;
    grown.add(below(name), std::move(tensor));
  }
  for (const auto& [path, target] : part.objects_.aliases) grown.alias(below(path), below(target));
  for (const auto& [name, variable] : part.objects_.names) grown.name(below(name), variable);
  for (const auto& [path, said] : part.descriptions_.by_key) grown.describe(below(path), said);
  if (const auto& said = part.descriptions_.attributes; !said.empty()) {
    grown.describe(key, {.attributes = said});
  }
  return take(std::move(grown));
}

State& State::add(const std::string& key, const std::vector<State>& parts) {
  State grown;
  for (std::size_t i = 0; i < parts.size(); ++i) grown.add(cat(key, '/', i), parts[i]);
  return take(std::move(grown));
}

// Adds all of the part or, if one of its keys is there already, nothing.
State& State::take(State part) {
  for (const auto& [key, tensor] : part.tensors_) require_new(key);
  for (auto& [key, tensor] : part.tensors_) append(std::move(key), std::move(tensor));
  auto& aliases = part.objects_.aliases;
  std::move(aliases.begin(), aliases.end(), std::back_inserter(objects_.aliases));
  for (auto& [key, variable] : part.objects_.names) objects_.names[key] = std::move(variable);
  for (auto& [path, said] : part.descriptions_.by_key) describe(path, std::move(said));
  return *this;
}

State& State::alias(std::string path, std::string target) {
  if (path == target || path.empty() || target.empty()) {
    throw Error(Code::invalid_argument, cat("alias '", path, "' of '", target, "'"),
                "an alias is another path to an object");
  }
  objects_.aliases.emplace_back(std::move(path), std::move(target));
  return *this;
}

State& State::name(const std::string& key, std::string variable_name) {
  if (!is_utf8(variable_name)) {
    throw Error(Code::invalid_argument, cat("the name of variable '", key, "' is not UTF-8"))
        .of_tensor(key);
  }
  objects_.names[key] = std::move(variable_name);
  return *this;
}

State& State::carry(std::shared_ptr<const ObjectGraph> graph) {
  objects_.graph = std::move(graph);
  return *this;
}

State& State::describe(std::string key, Description description) {
  check_key(key);
  // Throws if the description may not be stored; the text itself is not needed.
  descriptions::encode_new({.by_key = {{key, description}}});
  descriptions_.by_key.insert_or_assign(std::move(key), std::move(description));
  return *this;
}

State& State::describe(Attributes attributes) {
  descriptions::encode_new({.attributes = attributes});
  for (auto& [name, value] : attributes) {
    descriptions_.attributes.insert_or_assign(name, std::move(value));
  }
  return *this;
}

const LocalTensor* State::find(std::string_view key) const {
  const auto at = position_.find(key);
  return at == position_.end() ? nullptr : &tensors_[at->second].second;
}

}  // namespace cairn
