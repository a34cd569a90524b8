#pragma once
/// Slices that own what their memory belongs to. Programs use cairn/kokkos.hpp.
#include <Kokkos_Core.hpp>
#include <memory>
#include <utility>

#include "cairn/state.hpp"

namespace cairn::kokkos {

/// Memory that goes with its owner, such as a View of which the memory sees only the address.
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

/// double*** for Rank 3.
template <class T, std::size_t Rank>
struct PointersTo {
  using type = typename PointersTo<T, Rank - 1>::type*;
};
template <class T>
struct PointersTo<T, 0> {
  using type = T;
};

/// The elements that lie from an address on, in these strides; owns nothing.
template <class T, std::size_t Rank, class Device>
using ViewAt = Kokkos::View<typename PointersTo<T, Rank>::type, Kokkos::LayoutStride, Device,
                            Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

template <std::size_t Rank>
Kokkos::LayoutStride layout_of(const Dims& extent, const Dims& strides) {
  Kokkos::LayoutStride layout;
  for (std::size_t d = 0; d < extent.size(); ++d) {  // Rank of them
    layout.dimension[d] = static_cast<std::size_t>(extent[d]);
    layout.stride[d] = static_cast<std::size_t>(strides[d]);
  }
  return layout;
}

}  // namespace cairn::kokkos
