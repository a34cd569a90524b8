#pragma once
/// DualViews: a save reads the newer side and changes neither. A restore first brings the host's
/// side up to date, then writes it and marks it as modified, so that the program's next sync copies
/// it to the device.
#include <Kokkos_Core.hpp>
#include <Kokkos_DualView.hpp>

#include <memory>
#include <utility>

#include "cairn/kokkos.hpp"

namespace cairn {

namespace kokkos {

template <class Dual>
class DualViewMemory : public SliceMemory {
  using Host = typename Dual::t_host;
  using Device = typename Dual::t_dev;

 public:
  explicit DualViewMemory(const Dual& dual)
      : dual_(dual),
        host_(dual.view_host(), typename Host::execution_space()),
        device_(dual.view_device(), typename Device::execution_space()) {}

  void read(const Box& part, std::byte* out) const override { newer().read(part, out); }
  void write(const Box& part, const std::byte* in) override {
    if (part.empty()) return;
    // Elements that the restore does not write, such as gaps that are kept, keep the values of the
    // newer side.
    if (dual_.need_sync_host()) dual_.sync_host();
    dual_.clear_sync_state();
    dual_.modify_host();
    host_.write(part, in);
  }
  const std::byte* contiguous() const override { return newer().contiguous(); }
  // Not contiguous_writable(): a caller that writes through an address would not mark the host's
  // side as modified.
  bool writable() const override { return host_.writable(); }
  std::shared_ptr<const SliceMemory> for_any_thread() const override {
    return newer().for_any_thread();
  }
  Footprint footprint() const override { return newer().footprint(); }
  std::shared_ptr<StagingMemory> staging() const override { return newer().staging(); }

 private:
  const SliceMemory& newer() const {
    if (dual_.need_sync_host()) return device_;
    return host_;
  }

  Dual dual_;  // shares its flags with the program's DualView
  ViewMemory<Host, typename Host::execution_space> host_;
  ViewMemory<Device, typename Device::execution_space> device_;
};

}  // namespace kokkos

/// This rank's box of a global tensor, as for a View (cairn/kokkos.hpp). The State keeps a copy of
/// a DualView given by value; the copy shares its memory and its flags.
template <class Data, class... Properties>
LocalTensor slice(const Kokkos::DualView<Data, Properties...>& dual, Dims global_shape,
                  Dims start) {
  using Dual = Kokkos::DualView<Data, Properties...>;
  return kokkos::slice_of(
      dual.view_device(), std::move(global_shape), std::move(start), [&](LocalTensor& tensor) {
        tensor.slices[0].memory = std::make_shared<kokkos::DualViewMemory<Dual>>(dual);
      });
}

/// All of it on this rank.
template <class Data, class... Properties>
LocalTensor whole(const Kokkos::DualView<Data, Properties...>& dual) {
  auto shape = kokkos::extents(dual.view_device());
  Dims start(shape.size(), 0);
  return slice(dual, std::move(shape), std::move(start));
}

/// The same for the DualView at this address, looked at anew at each save and restore.
template <class Data, class... Properties>
LocalTensor slice(const Kokkos::DualView<Data, Properties...>* dual, Dims global_shape,
                  Dims start) {
  return each_time([=] { return slice(*dual, global_shape, start); });
}
template <class Data, class... Properties>
LocalTensor whole(const Kokkos::DualView<Data, Properties...>* dual) {
  return each_time([=] { return whole(*dual); });
}

}  // namespace cairn
