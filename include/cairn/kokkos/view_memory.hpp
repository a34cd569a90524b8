#pragma once
/// The elements of a Kokkos View as SliceMemory. Programs use cairn/kokkos.hpp.
#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "cairn/error.hpp"
#include "cairn/kokkos/compat.hpp"
#include "cairn/kokkos/staged_view.hpp"
#include "cairn/state.hpp"

namespace cairn::kokkos {

/// A View that the host can reach: strided host memory, read and written in place after a fence.
template <class View, class Exec>
class HostViewMemory : public SliceMemory {
 public:
  HostViewMemory(const View& view, const Exec& exec)
      : view_(view),
        exec_(exec),
        host_(host_memory(dtype_of<typename View::non_const_value_type>::value, view_.data(),
                          writable_data(), extents(view), strides(view))) {}

  void read(const Box& part, std::byte* out) const override {
    wait();
    std::as_const(*host_).read(part, out);
  }
  void write(const Box& part, const std::byte* in) override {
    if (part.empty() && writable()) return;  // an empty View may have no address
    wait();
    host_->write(part, in);
  }
  const std::byte* contiguous() const override {
    const auto* address = std::as_const(*host_).contiguous();
    if (address) wait();
    return address;
  }
  std::byte* contiguous_writable() override {
    auto* address = host_->contiguous_writable();
    if (address) wait();
    return address;
  }
  bool writable() const override { return !std::is_const_v<typename View::value_type>; }
  // Without the fence, which comes first.
  std::shared_ptr<const SliceMemory> for_any_thread() const override {
    wait();
    return std::as_const(*host_).for_any_thread();
  }
  Footprint footprint() const override { return host_->footprint(); }

 private:
  void wait() const { fence(exec_, "cairn::host access: fence before"); }

  void* writable_data() const {
    if constexpr (std::is_const_v<typename View::value_type>) {
      return nullptr;
    } else {
      return view_.data();
    }
  }

  View view_;
  Exec exec_;
  std::shared_ptr<SliceMemory> host_;
};

/// A StagedView for the program's thread and instance.
template <class View, class Exec>
class StagedViewMemory : public SliceMemory {
 public:
  static constexpr std::int64_t default_staging_bytes = std::int64_t{64} << 20;

  StagedViewMemory(const View& view, const Exec& exec,
                   std::int64_t staging_bytes = default_staging_bytes)
      : staged_(view, staging_bytes), exec_(exec) {}

  void read(const Box& part, std::byte* out) const override {
    const Read one{part, out};
    read_all({&one, 1});
  }
  void read_all(std::span<const Read> parts) const override { staged_.read(exec_, parts); }
  void write(const Box& part, const std::byte* in) override {
    if constexpr (std::is_const_v<typename View::value_type>) {
      throw Error(Code::invalid_argument, "the memory of a slice is a const View",
                  "it was given for saving only", "Restore into a View that may be written.");
    } else {
      staged_.write(exec_, part, in);
    }
  }
  bool writable() const override { return !std::is_const_v<typename View::value_type>; }
  std::shared_ptr<const SliceMemory> for_any_thread() const override {
    if constexpr (has_own_instances<Exec>) {
      OwnInstances<Exec>::instance().make(exec_);
      fence(exec_, "cairn::for_any_thread: fence before reads of other threads");
      return std::make_shared<ViewBeside<View, Exec>>(staged_, device_number(exec_));
    } else {
      return nullptr;
    }
  }
  Footprint footprint() const override { return staged_.footprint(); }
  std::shared_ptr<StagingMemory> staging() const override {
    return SpaceMemory<PinnedSpace>::instance();
  }

 private:
  StagedView<View, Exec> staged_;
  Exec exec_;
};

template <class View>
inline constexpr bool host_reaches =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename View::memory_space>::accessible;

template <class View, class Exec>
using ViewMemory = std::conditional_t<host_reaches<View>, HostViewMemory<View, Exec>,
                                      StagedViewMemory<View, Exec>>;

}  // namespace cairn::kokkos
