#include "torch_devices.hpp"

#include <cstdint>
#include <utility>

#include "base/text.hpp"
#include "cairn/background.hpp"
#include "cairn/error.hpp"

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
        at_(std::move(at)) {
    if (at_.empty()) at_ = Dims(facts.shape.size(), 0);
    for (std::size_t d = 0; d < strides_.size(); ++d) {
      strides_[d] *= item_;
      first_ += at_[d] * strides_[d];
    }
  }

  void read(const Box& part, std::byte* out) const override { copy(copies_->to_host, part, out); }
  void write(const Box& part, const std::byte* in) override { copy(copies_->to_device, part, in); }
  bool writable() const override { return true; }
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
  Dims at_;
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
