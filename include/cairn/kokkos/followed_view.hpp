#pragma once
/// A View that is given by reference. Programs use cairn/kokkos.hpp.
#include <Kokkos_Core.hpp>

#include <cstddef>
#include <memory>
#include <utility>

#include "cairn/kokkos/view_memory.hpp"
#include "cairn/state.hpp"

namespace cairn::kokkos {

/// The View at an address, looked at anew at each save and restore. Owns no part of its allocation.
/// As long as the View keeps its data, extents and strides, the tensor's SliceMemory stays the same
/// object.
template <class View, class Exec>
class FollowedView : public TensorSource {
  using Unmanaged =
      Kokkos::View<typename View::data_type, typename View::array_layout,
                   typename View::device_type, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  using Memory = ViewMemory<Unmanaged, Exec>;

 public:
  FollowedView(const View* view, bool is_whole, const Exec& exec)
      : view_(view),
        is_whole_(is_whole),
        exec_(exec),
        data_(view->data()),
        extent_(extents(*view)),
        strides_(kokkos::strides(*view)),
        memory_(memory()) {}

  void refresh(LocalTensor& tensor) const override {
    auto extent = extents(*view_);
    const bool stays =
        data_ == view_->data() && extent_ == extent && strides_ == kokkos::strides(*view_);
    auto& slice = tensor.slices.at(0);
    slice.memory = stays ? memory_ : memory();
    if (is_whole_) tensor.shape = extent;
    slice.box.extent = std::move(extent);
  }

 private:
  std::shared_ptr<SliceMemory> memory() const {
    return std::make_shared<Memory>(Unmanaged(*view_), exec_);
  }

  const View* const view_;
  const bool is_whole_;
  const Exec exec_;
  const void* const data_;
  const Dims extent_, strides_;
  const std::shared_ptr<SliceMemory> memory_;
};

}  // namespace cairn::kokkos
