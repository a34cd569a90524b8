#pragma once
/// A View that is given by reference. Programs use cairn/kokkos.hpp.
#include <Kokkos_Core.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "cairn/kokkos/view_memory.hpp"
#include "cairn/state.hpp"

namespace cairn::kokkos {

/// The View that stands at an address, whichever it is at each look. Owns no part of its
/// allocation.
template <class View, class Exec>
class FollowedView : public SliceMemory, public TensorSource {
  using Unmanaged =
      Kokkos::View<typename View::data_type, typename View::array_layout,
                   typename View::device_type, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  using Memory = ViewMemory<Unmanaged, Exec>;

 public:
  FollowedView(const View* view, bool is_whole, const Exec& exec)
      : view_(view), is_whole_(is_whole), exec_(exec) {}

  void look(LocalTensor& tensor) override {
    auto extent = extents(*view_);
    if (!memory_ || data_ != view_->data() || extent_ != extent || strides_ != strides(*view_)) {
      memory_ = std::make_unique<Memory>(Unmanaged(*view_), exec_);
      data_ = view_->data();
      extent_ = extent;
      strides_ = strides(*view_);
    }
    if (is_whole_) tensor.shape = extent;
    tensor.slices.at(0).box.extent = std::move(extent);
  }

  void read(const Box& part, std::byte* out) const override { memory().read(part, out); }
  void write(const Box& part, const std::byte* in) override { memory_->write(part, in); }
  const std::byte* contiguous() const override { return memory().contiguous(); }
  std::byte* contiguous_writable() override { return memory_->contiguous_writable(); }
  bool writable() const override { return memory().writable(); }
  Footprint footprint() const override { return memory().footprint(); }
  std::shared_ptr<StagingMemory> staging() const override { return memory().staging(); }

 private:
  const Memory& memory() const { return *memory_; }

  const View* view_;
  bool is_whole_;
  Exec exec_;
  std::unique_ptr<Memory> memory_;  // made by the first look
  const void* data_ = nullptr;
  Dims extent_, strides_;
};

}  // namespace cairn::kokkos
