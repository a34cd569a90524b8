#include "torch_devices.hpp"

#include <cstdint>
#include <utility>

#include "base/text.hpp"
#include "cairn/background.hpp"
#include "cairn/error.hpp"
#include "cuda_driver.hpp"
#include "model/runs.hpp"

namespace cairn::python {
namespace {

class PinnedPages : public StagingMemory {
 public:
  PinnedPages(const py::object& pin, const py::object& unpin) : pin_(pin), unpin_(unpin) {}

  std::byte* take(std::size_t bytes) override {
    auto* memory = pages_->take(bytes);
    if (!memory) return nullptr;
    try {
      pin_.call(ignore, reinterpret_cast<std::uintptr_t>(memory), bytes);
    } catch (...) {  // such as an interrupt
      give_back(memory, bytes);
      throw;
    }
    return memory;
  }
  void give_back(std::byte* memory, std::size_t bytes) override {
    try {
      unpin_.call(ignore, reinterpret_cast<std::uintptr_t>(memory));
    } catch (const Error&) {  // the device's runtime has ended
    }
    pages_->give_back(memory, bytes);
  }

 private:
  const Callable pin_, unpin_;
  const std::shared_ptr<StagingMemory> pages_ = page_memory();
};

// A row-major tensor of CUDA's, which any thread reads by the driver: torch would take the
// interpreter's lock for each piece.
class BesideTorch : public SliceMemory {
 public:
  struct Tensor {
    const std::byte* first;  // of the slice
    Dims strides;            // in bytes
    Dims shape;              // of the tensor in which the slice is a box
    std::int64_t item_bytes;
    std::shared_ptr<StagingMemory> pinned;
  };
  BesideTorch(Tensor tensor, CudaDriver& driver, int device)
      : tensor_(std::move(tensor)), driver_(driver), device_(device) {}

  void read(const Box& part, std::byte* out) const override {
    const Read one{part, out};
    read_all({&one, 1});
  }
  void read_all(std::span<const Read> parts) const override {
    CudaDriver::Copies copies(driver_, device_);
    for (const auto& one : parts) copy(copies, one);
    copies.wait();
  }
  void write(const Box&, const std::byte*) override {
    throw Error(Code::internal, "a tensor is written beside the program");
  }
  bool writable() const override { return false; }
  std::shared_ptr<StagingMemory> staging() const override { return tensor_.pinned; }

 private:
  // The last dimensions of a part are one run as far as they are whole, and in one dimension more.
  void copy(CudaDriver::Copies& copies, const Read& one) const {
    const auto& part = one.part;
    if (part.empty()) return;
    auto bytes = tensor_.item_bytes;
    std::int64_t begin = 0, runs = 1;
    auto d = part.rank();
    for (bool whole = true; whole && d > 0;) {
      bytes *= part.extent[--d];
      begin += part.start[d] * tensor_.strides[d];
      whole = part.extent[d] == tensor_.shape[d];
    }
    Dims outer;
    for (std::size_t o = 0; o < d; ++o) {
      outer.push_back(part.extent[o]);
      begin += part.start[o] * tensor_.strides[o];
      runs *= part.extent[o];
    }
    for (std::int64_t run = 0; run < runs; ++run) {
      auto from = begin;
      const auto index = index_at(run, outer);
      for (std::size_t o = 0; o < d; ++o) from += index[o] * tensor_.strides[o];
      copies.to_host(tensor_.first + from, one.out + run * bytes, static_cast<std::size_t>(bytes));
    }
  }

  const Tensor tensor_;
  CudaDriver& driver_;
  const int device_;
};

class DeviceMemory : public SliceMemory {
 public:
  DeviceMemory(std::shared_ptr<const DeviceCopies> copies, std::string key, PyObject* tensor,
               const TensorFacts& facts, Dims at)
      : copies_(std::move(copies)),
        key_(std::move(key)),
        tensor_(tensor),
        first_(facts.data),
        strides_(facts.strides),
        item_(static_cast<std::int64_t>(dtype_size(facts.dtype))),
        shape_(facts.shape),
        at_(std::move(at)) {
    if (at_.empty()) at_ = Dims(facts.shape.size(), 0);
    const auto packed = row_major_strides(shape_);
    for (std::size_t d = 0; d < strides_.size(); ++d) {
      is_row_major_ = is_row_major_ && (shape_[d] == 1 || strides_[d] == packed[d]);
      strides_[d] *= item_;
      first_ += at_[d] * strides_[d];
    }
  }

  void read(const Box& part, std::byte* out) const override { copy(copies_->to_host, part, out); }
  void write(const Box& part, const std::byte* in) override { copy(copies_->to_device, part, in); }
  bool writable() const override { return true; }
  // Who saves waits for torch's stream (stays.py).
  std::shared_ptr<const SliceMemory> for_any_thread() const override {
    auto* driver = is_row_major_ ? CudaDriver::get() : nullptr;
    const auto device = driver ? driver->device_of(first_) : std::nullopt;
    if (!device) return nullptr;
    return std::make_shared<BesideTorch>(
        BesideTorch::Tensor{first_, strides_, shape_, item_, copies_->pinned}, *driver, *device);
  }
  Footprint footprint() const override { return {first_, strides_, item_}; }
  std::shared_ptr<StagingMemory> staging() const override { return copies_->pinned; }

 private:
  void copy(const Callable& how, const Box& part, const std::byte* memory) const {
    if (part.empty()) return;
    std::vector<std::int64_t> start, extent;
    for (std::size_t d = 0; d < part.rank(); ++d) {
      start.push_back(at_[d] + part.start[d]);
      extent.push_back(part.extent[d]);
    }
    try {
      how.call(ignore, py::handle(tensor_), start, extent,
               reinterpret_cast<std::uintptr_t>(memory));
    } catch (const Error& error) {
      throw Error(Code::application,
                  cat("tensor '", key_, "' could not be copied between its device and the host"),
                  error.what())
          .of_tensor(key_);
    }
  }

  const std::shared_ptr<const DeviceCopies> copies_;
  const std::string key_;
  PyObject* const tensor_;
  const std::byte* first_;
  Dims strides_;
  const std::int64_t item_;
  const Dims shape_;  // of the tensor, in which the slice begins at at_
  Dims at_;
  bool is_row_major_ = true;
};

}  // namespace

DeviceCopies::DeviceCopies(const py::object& to_host, const py::object& to_device,
                           const py::object& pin, const py::object& unpin)
    : to_host(to_host), to_device(to_device), pinned(std::make_shared<PinnedPages>(pin, unpin)) {}

std::shared_ptr<SliceMemory> device_memory(std::shared_ptr<const DeviceCopies> copies,
                                           std::string key, PyObject* tensor,
                                           const TensorFacts& facts, Dims at) {
  return std::make_shared<DeviceMemory>(std::move(copies), std::move(key), tensor, facts,
                                        std::move(at));
}

}  // namespace cairn::python
