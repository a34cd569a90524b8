#pragma once
/// Slices that keep the owner of their memory alive. Programs use cairn/kokkos.hpp.
#include <Kokkos_Core.hpp>
#include <memory>
#include <utility>

#include "cairn/state.hpp"

namespace cairn::kokkos {

/// SliceMemory together with the owner of its bytes, such as a View whose address is all that
/// `memory` has.
template <class Owner>
class OwningMemory : public SliceMemory {
 public:
  OwningMemory(std::shared_ptr<SliceMemory> memory, Owner owner)
      : owner_(std::move(owner)), memory_(std::move(memory)) {}
  void read(const Box& part, std::byte* out) const override {
    std::as_const(*memory_).read(part, out);
  }
  void write(const Box& part, const std::byte* in) override { memory_->write(part, in); }
  const std::byte* contiguous() const override { return std::as_const(*memory_).contiguous(); }
  std::byte* contiguous_writable() override { return memory_->contiguous_writable(); }
  bool writable() const override { return memory_->writable(); }
  std::shared_ptr<const SliceMemory> for_any_thread() const override {
    return std::as_const(*memory_).for_any_thread();
  }
  Footprint footprint() const override { return memory_->footprint(); }
  std::shared_ptr<StagingMemory> staging() const override { return memory_->staging(); }

 private:
  Owner owner_;
  std::shared_ptr<SliceMemory> memory_;
};

template <class Owner>
LocalTensor keeping(const Owner& owner, LocalTensor tensor) {
  for (auto& slice : tensor.slices) {
    slice.memory = std::make_shared<OwningMemory<Owner>>(std::move(slice.memory), owner);
  }
  return tensor;
}

/// T with `Rank` pointers: double*** for double and Rank 3.
template <class T, std::size_t Rank>
struct PointersTo {
  using type = typename PointersTo<T, Rank - 1>::type*;
};
template <class T>
struct PointersTo<T, 0> {
  using type = T;
};

/// A View of the elements at an address, with given strides. Owns nothing.
template <class T, std::size_t Rank, class Device>
using ViewAt = Kokkos::View<typename PointersTo<T, Rank>::type, Kokkos::LayoutStride, Device,
                            Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

template <std::size_t Rank>
Kokkos::LayoutStride layout_of(const Dims& extent, const Dims& strides) {
  Kokkos::LayoutStride layout;
  for (std::size_t d = 0; d < extent.size(); ++d) {  // extent has Rank entries
    layout.dimension[d] = static_cast<std::size_t>(extent[d]);
    layout.stride[d] = static_cast<std::size_t>(strides[d]);
  }
  return layout;
}

}  // namespace cairn::kokkos
