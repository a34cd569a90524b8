// Tensors that are looked at anew at each save and restore.
#include "model/follow.hpp"

#include <cstddef>
#include <optional>

#include "base/text.hpp"

namespace cairn {
namespace {

// A vector, its own memory: between two looks its elements are taken to stay where they are.
class FollowedVector : public SliceMemory, public TensorSource {
 public:
  struct Part {
    Dims extent, strides;
  };
  FollowedVector(DType dtype, detail::AskBytes ask, bool writable, std::optional<Part> part)
      : dtype_(dtype), ask_(std::move(ask)), may_write_(writable), part_(std::move(part)) {}

  void look(LocalTensor& tensor) override {
    const auto bytes = ask_();
    const auto size = bytes.size() / dtype_size(dtype_);
    const auto extent = part_ ? part_->extent : Dims{static_cast<std::int64_t>(size)};
    if (part_) check_span_holds(size, part_->extent, part_->strides, "vector");
    if (!memory_ || bytes.data() != data_ || size != size_) {
      // The vector is not const; only the look at it is.
      auto* writable = may_write_ ? const_cast<std::byte*>(bytes.data()) : nullptr;
      memory_ =
          host_memory(dtype_, bytes.data(), writable, extent, part_ ? part_->strides : Dims{});
      data_ = bytes.data();
      size_ = size;
    }
    if (part_) return;
    tensor.shape = extent;
    tensor.slices.at(0).box.extent = extent;
  }

  void read(const Box& part, std::byte* out) const override { memory_->read(part, out); }
  void write(const Box& part, const std::byte* in) override { memory_->write(part, in); }
  const std::byte* contiguous() const override { return std::as_const(*memory_).contiguous(); }
  std::byte* contiguous_writable() override { return memory_->contiguous_writable(); }
  bool writable() const override { return memory_->writable(); }
  Footprint footprint() const override { return memory_->footprint(); }

 private:
  DType dtype_;
  detail::AskBytes ask_;
  bool may_write_;
  std::optional<Part> part_;  // none: all of it
  std::shared_ptr<SliceMemory> memory_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

LocalTensor of_vector(LocalTensor tensor, Box box, std::shared_ptr<FollowedVector> vector) {
  tensor.slices.push_back({std::move(box), vector});
  vector->look(tensor);
  tensor.source = std::move(vector);
  return tensor;
}

class Given : public TensorSource {
 public:
  explicit Given(std::function<LocalTensor()> give) : give_(std::move(give)) {}

  void look(LocalTensor& tensor) override {
    auto now = looked_at(give_());
    if (now.unresolved) {
      throw Error(
          Code::invalid_argument, "a function gives ragged, rank-private or indexed data",
          "such data is asked for its size anew in any case",
          "Add what it gives itself, or make what each_time gives rank_private or indexed.");
    }
    if (tensor.storage != Storage::automatic) now.storage = tensor.storage;
    if (tensor.sparse) now.sparse = tensor.sparse;
    now.unresolved = std::move(tensor.unresolved);
    now.source = std::move(tensor.source);
    tensor = std::move(now);
  }
  void let_go(LocalTensor& tensor) override {
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
    source->look(tensor);
    tensor.source = std::move(source);
    return tensor;
  });
}

LocalTensor looked_at(LocalTensor tensor) {
  if (!tensor.source) return tensor;
  const auto source = std::move(tensor.source);
  source->look(tensor);
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
