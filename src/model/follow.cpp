// Tensors that are looked at anew at each save and restore.
#include "model/follow.hpp"

#include <cstddef>
#include <optional>

#include "base/text.hpp"

namespace cairn {
namespace {

// A vector of the application. As long as its elements stay where they were at first, the tensor
// keeps the same SliceMemory.
class FollowedVector : public TensorSource {
 public:
  struct Part {
    Dims extent, strides;
  };
  FollowedVector(DType dtype, detail::AskBytes ask, bool writable, std::optional<Part> part)
      : dtype_(dtype),
        ask_(std::move(ask)),
        may_write_(writable),
        part_(std::move(part)),
        // Where the elements were at first.
        first_(find()),
        memory_(memory_of(first_)) {}

  void refresh(LocalTensor& tensor) const override {
    const auto now = find();
    // In the usual case nothing is allocated: the memory of the beginning serves again.
    const bool stays = now.data() == first_.data() && now.size() == first_.size();
    auto& slice = tensor.slices.at(0);
    slice.memory = stays ? memory_ : memory_of(now);
    // A slice keeps its shape and box; a whole vector has the shape of its length.
    if (part_) return;
    tensor.shape = slice.box.extent = extent_of(now);
  }

 private:
  using Bytes = std::span<const std::byte>;

  // Throws invalid_argument if the vector has too few elements.
  Bytes find() const {
    const auto bytes = ask_();
    const auto size = bytes.size() / dtype_size(dtype_);
    if (part_) check_span_holds(size, part_->extent, part_->strides, "vector");
    return bytes;
  }
  Dims extent_of(Bytes bytes) const {
    return {static_cast<std::int64_t>(bytes.size() / dtype_size(dtype_))};
  }
  std::shared_ptr<SliceMemory> memory_of(Bytes bytes) const {
    // The vector itself is not const, only this view of it.
    auto* writable = may_write_ ? const_cast<std::byte*>(bytes.data()) : nullptr;
    return host_memory(dtype_, bytes.data(), writable, part_ ? part_->extent : extent_of(bytes),
                       part_ ? part_->strides : Dims{});
  }

  const DType dtype_;
  const detail::AskBytes ask_;
  const bool may_write_;
  const std::optional<Part> part_;  // nothing: all of the vector
  const Bytes first_;
  const std::shared_ptr<SliceMemory> memory_;
};

// A tensor of one slice that lies in the vector. refresh() gives it its memory.
LocalTensor of_vector(LocalTensor tensor, Box box, std::shared_ptr<FollowedVector> vector) {
  tensor.slices.push_back({std::move(box), nullptr});
  vector->refresh(tensor);
  tensor.source = std::move(vector);
  return tensor;
}

// A tensor that a function of the application gives anew at each refresh.
class Given : public TensorSource {
 public:
  explicit Given(std::function<LocalTensor()> give) : give_(std::move(give)) {}

  void refresh(LocalTensor& tensor) const override {
    auto now = looked_at(give_());
    if (now.unresolved) {
      throw Error(
          Code::invalid_argument, "a function gives ragged, rank-private or indexed data",
          "such data is asked for its size anew in any case",
          "Add what it gives itself, or make what each_time gives rank_private or indexed.");
    }
    // What was said of the tensor when it was added counts more than what the function says.
    if (tensor.storage != Storage::automatic) now.storage = tensor.storage;
    if (tensor.sparse) now.sparse = tensor.sparse;
    now.unresolved = std::move(tensor.unresolved);
    tensor = std::move(now);
  }
  void let_go(LocalTensor& tensor) const override {
    tensor.slices.clear();
    tensor.strings = nullptr;
  }

 private:
  std::function<LocalTensor()> give_;
};

}  // namespace

namespace detail {

LocalTensor whole_vector(DType dtype, AskBytes ask, bool writable) {
  auto vector = std::make_shared<FollowedVector>(dtype, std::move(ask), writable, std::nullopt);
  return of_vector(nothing(dtype, {0}), Box::whole({0}), std::move(vector));
}

LocalTensor slice_of_vector(DType dtype, AskBytes ask, bool writable, Dims shape, Dims start,
                            Dims extent, Dims strides) {
  return or_refused([&] {
    require_dimensions(shape, start, extent);
    auto vector = std::make_shared<FollowedVector>(
        dtype, std::move(ask), writable, FollowedVector::Part{extent, std::move(strides)});
    return of_vector(nothing(dtype, std::move(shape)), {std::move(start), std::move(extent)},
                     std::move(vector));
  });
}

}  // namespace detail

LocalTensor each_time(std::function<LocalTensor()> give) {
  return or_refused([&] {
    if (!give) throw Error(Code::invalid_argument, "each_time was given no function");
    auto source = std::make_shared<Given>(std::move(give));
    LocalTensor tensor;
    source->refresh(tensor);
    tensor.source = std::move(source);
    return tensor;
  });
}

LocalTensor looked_at(LocalTensor tensor) {
  if (!tensor.source) return tensor;
  const auto source = std::move(tensor.source);
  source->refresh(tensor);
  tensor.source = nullptr;
  return tensor;
}

Error named(const Error& error, std::string_view key) {
  const auto quoted = cat("'", key, "'");
  const bool known = error.problem().find(quoted) != std::string::npos;
  return Error(error.code(),
               known ? error.problem() : cat("tensor ", quoted, ": ", error.problem()),
               error.reason(), error.way_out())
      .at(error.path())
      .on_rank(error.rank())
      .of_tensor(std::string(key));
}

}  // namespace cairn
