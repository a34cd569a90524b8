#pragma once
/// The differences between Kokkos 3.4 to 5.x that matter to Cairn. Only this file knows them.
#include <Kokkos_Core.hpp>

#include <string_view>
#include <type_traits>
#include <vector>

#include "cairn/dtype.hpp"

static_assert(KOKKOS_VERSION >= 30400, "Cairn needs Kokkos 3.4 or later");

namespace cairn::kokkos {

/// Waits for the work of this instance only. Kokkos before 3.6 has no labels on fences.
template <class Exec>
void fence(const Exec& exec, const char* label) {
  if constexpr (requires { exec.fence(label); }) {
    exec.fence(label);
  } else {
    exec.fence();
  }
}

/// Whether fences carry labels, so that tools can tell one from another.
template <class Exec>
inline constexpr bool fence_has_label = requires(const Exec& exec) {
  exec.fence("label");
};

/// The number of the device that an instance works on: one device may be unable to reach the memory
/// of another.
template <class Exec>
int device_number([[maybe_unused]] const Exec& exec) {
  if constexpr (requires { exec.cuda_device(); }) {
    return exec.cuda_device();
  } else if constexpr (requires { exec.hip_device(); }) {
    return exec.hip_device();
  } else {
    return 0;
  }
}

/// Whether a thread that is not the program's may work on an instance of its own: Kokkos then makes
/// its device the thread's current one. With hosts there is no need for it.
template <class Exec>
inline constexpr bool has_own_instances = KOKKOS_VERSION >= 40400 &&
                                          (
                                              requires(const Exec& exec) { exec.cuda_device(); } ||
                                              requires(const Exec& exec) { exec.hip_device(); });
/// Another instance on the same device.
template <class Exec>
Exec another_instance(const Exec& like) {
#if KOKKOS_VERSION >= 40400
  return Kokkos::Experimental::partition_space(like, std::vector<int>{1}).at(0);
#else
  return like;
#endif
}

/// Host memory that devices copy to and from by themselves; plain memory where there is no device.
/// Kokkos 4.0 and later have a common name for it.
#if defined(KOKKOS_HAS_SHARED_HOST_PINNED_SPACE)
using PinnedSpace = Kokkos::SharedHostPinnedSpace;
#elif defined(KOKKOS_ENABLE_CUDA)
using PinnedSpace = Kokkos::CudaHostPinnedSpace;
#elif defined(KOKKOS_ENABLE_HIP)
using PinnedSpace = Kokkos::Experimental::HIPHostPinnedSpace;
#else
using PinnedSpace = Kokkos::HostSpace;
#endif

/// TensorFlow's word for the kind of device whose memory this is.
template <class MemorySpace>
const char* device_type() {
  const std::string_view name = MemorySpace::execution_space::name();
  if (name == "Cuda") return "CUDA";
  if (name == "HIP") return "HIP";
  if (name == "SYCL") return "SYCL";
  if (name == "OpenMPTarget" || name == "OpenACC") return "GPU";
  return "CPU";
}

/// Kokkos' half types. On hosts they are, depending on the version, a float, a wrapped float, or 16
/// bits.
template <class T>
inline constexpr bool is_half = std::is_same_v<T, Kokkos::Experimental::half_t>;
#ifdef KOKKOS_BHALF_T_IS_FLOAT
template <class T>
inline constexpr bool is_bhalf = std::is_same_v<T, Kokkos::Experimental::bhalf_t>;
#else
template <class T>
inline constexpr bool is_bhalf = false;
#endif

}  // namespace cairn::kokkos

namespace cairn {

template <class T>
requires((kokkos::is_half<T> ||
          kokkos::is_bhalf<T>)&&!std::is_floating_point_v<T>) struct dtype_of<T>
    : dtype_is<sizeof(T) == sizeof(float) ? DType::float32
               : kokkos::is_half<T>       ? DType::float16
                                          : DType::bfloat16> {
};

}  // namespace cairn
