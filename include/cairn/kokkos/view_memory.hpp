#pragma once
/// The elements of a Kokkos View as SliceMemory. Programs use cairn/kokkos.hpp.
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "cairn/error.hpp"
#include "cairn/kokkos/compat.hpp"
#include "cairn/kokkos/pinned.hpp"
#include "cairn/kokkos/staging.hpp"
#include "cairn/state.hpp"

namespace cairn::kokkos {

template <class View>
inline constexpr std::size_t rank_of = std::size_t(unsigned(View::rank));

template <class View>
Dims extents(const View& view) {
  Dims out(rank_of<View>);
  for (std::size_t d = 0; d < out.size(); ++d) out[d] = static_cast<std::int64_t>(view.extent(d));
  return out;
}

template <class View>
Dims strides(const View& view) {
  Dims out(rank_of<View>);
  for (std::size_t d = 0; d < out.size(); ++d) out[d] = static_cast<std::int64_t>(view.stride(d));
  return out;
}

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
  const SliceMemory* for_any_thread() const override {  // without the fence, which comes first
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

/// Where the elements of a box lie in a strided array. With this, one kernel copies a box of any
/// layout and rank to or from row-major memory.
struct BoxWalk {
  std::int64_t extent[8] = {}, stride[8] = {}, offset = 0;
  int rank = 0;

  BoxWalk(const Box& part, const Dims& strides) : rank(static_cast<int>(part.rank())) {
    for (std::size_t d = 0; d < part.rank(); ++d) {
      extent[d] = part.extent[d];
      stride[d] = strides[d];
      offset += part.start[d] * strides[d];
    }
  }

  /// Returns whether the box is row-major memory without gaps, from `offset` on.
  bool flat() const {
    std::int64_t expected = 1;
    for (int d = rank - 1; d >= 0; --d) {
      if (extent[d] != 1 && stride[d] != expected) return false;
      expected *= extent[d];
    }
    return true;
  }

  KOKKOS_FUNCTION std::int64_t operator()(std::int64_t element) const {
    std::int64_t at = offset;
    for (int d = rank - 1; d >= 0; --d) {
      at += element % extent[d] * stride[d];
      element /= extent[d];
    }
    return at;
  }
};

template <class T>
struct Pack {
  BoxWalk walk;
  const T* strided;
  T* row_major;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { row_major[i] = strided[walk(i)]; }
};

template <class T>
struct Unpack {
  BoxWalk walk;
  T* strided;
  const T* row_major;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { strided[walk(i)] = row_major[i]; }
};

/// A View of a memory space that the host cannot reach. A box that is not flat is packed into a
/// row-major temporary in that space, so that only flat bytes are copied to or from the host.
/// Kernel and copy are queued on one execution-space instance, and a fence of this instance ends
/// the call. The temporary has room for `staging_bytes` at most (but for one element at least).
template <class View, class Exec>
class StagedViewMemory : public SliceMemory {
  using T = typename View::non_const_value_type;
  using Space = typename View::memory_space;
  using Pool = StagingPool<Space>;
  using Temporary = std::optional<typename Pool::Buffer>;
  template <class Byte, class MemorySpace>
  using Bytes = Kokkos::View<Byte*, Kokkos::LayoutRight, MemorySpace,
                             Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;

  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(Kokkos::SpaceAccessibility<Exec, Space>::accessible,
                "the execution space of the instance cannot reach the memory of the View");

 public:
  static constexpr std::int64_t default_staging_bytes = std::int64_t{64} << 20;

  StagedViewMemory(const View& view, const Exec& exec,
                   std::int64_t staging_bytes = default_staging_bytes)
      : view_(view),
        exec_(exec),
        strides_(kokkos::strides(view)),
        limit_(std::max<std::int64_t>(1, staging_bytes / static_cast<std::int64_t>(sizeof(T)))) {}

  void read(const Box& part, std::byte* out) const override {
    if (part.empty()) return;
    Temporary temporary;
    for_pieces(part, 0, [&](const Box& piece, std::int64_t elements) {
      const BoxWalk walk(piece, strides_);
      const T* from = view_.data() + walk.offset;
      if (!walk.flat()) {
        T* row_major = room(temporary, part);
        Kokkos::parallel_for("cairn::pack", Policy(exec_, 0, elements),
                             Pack<T>{walk, view_.data(), row_major});
        from = row_major;
      }
      const auto bytes = static_cast<std::size_t>(elements) * sizeof(T);
      Kokkos::deep_copy(exec_, Bytes<char, Kokkos::HostSpace>(reinterpret_cast<char*>(out), bytes),
                        Bytes<const char, Space>(reinterpret_cast<const char*>(from), bytes));
      out += bytes;
    });
    fence(exec_, "cairn::read: fence after the copy to the host");
    if (temporary) Pool::instance().give_back(exec_, std::move(*temporary));
  }

  void write(const Box& part, const std::byte* in) override {
    if constexpr (std::is_const_v<typename View::value_type>) {
      throw Error(Code::invalid_argument, "the memory of a slice is a const View",
                  "it was given for saving only", "Restore into a View that may be written.");
    } else {
      if (part.empty()) return;
      Temporary temporary;
      for_pieces(part, 0, [&](const Box& piece, std::int64_t elements) {
        const BoxWalk walk(piece, strides_);
        const bool flat = walk.flat();
        T* to = flat ? view_.data() + walk.offset : room(temporary, part);
        const auto bytes = static_cast<std::size_t>(elements) * sizeof(T);
        Kokkos::deep_copy(
            exec_, Bytes<char, Space>(reinterpret_cast<char*>(to), bytes),
            Bytes<const char, Kokkos::HostSpace>(reinterpret_cast<const char*>(in), bytes));
        if (!flat) {
          Kokkos::parallel_for("cairn::unpack", Policy(exec_, 0, elements),
                               Unpack<T>{walk, view_.data(), to});
        }
        in += bytes;
      });
      fence(exec_, "cairn::write: fence after the copy from the host");
      if (temporary) Pool::instance().give_back(exec_, std::move(*temporary));
    }
  }

  bool writable() const override { return !std::is_const_v<typename View::value_type>; }
  Footprint footprint() const override {
    constexpr auto item = static_cast<std::int64_t>(sizeof(T));
    Footprint where{reinterpret_cast<const std::byte*>(view_.data()), strides_, item};
    for (auto& stride : where.strides) stride *= item;
    return where;
  }
  std::shared_ptr<StagingMemory> staging() const override {
    return SpaceMemory<PinnedSpace>::instance();
  }

 private:
  // Room for the largest piece of a box. It is taken when the first piece needs it.
  T* room(Temporary& temporary, const Box& part) const {
    if (!temporary) {
      const auto elements = static_cast<std::size_t>(std::min(part.count(), limit_));
      temporary.emplace(Pool::instance().take(exec_, elements * sizeof(T)));
    }
    return reinterpret_cast<T*>(temporary->data());
  }

  // Cuts a box into pieces of at most limit_ elements. The pieces follow each other in the
  // row-major order of the box.
  template <class Run>
  void for_pieces(const Box& part, std::size_t dim, const Run& run) const {
    const auto count = part.count();
    if (count <= limit_) return run(part, count);
    const auto rows = std::max<std::int64_t>(1, limit_ / (count / part.extent[dim]));
    for (std::int64_t done = 0; done < part.extent[dim]; done += rows) {
      Box piece = part;
      piece.start[dim] += done;
      piece.extent[dim] = std::min(rows, part.extent[dim] - done);
      for_pieces(piece, dim + 1, run);
    }
  }

  View view_;
  Exec exec_;
  Dims strides_;
  std::int64_t limit_;
};

template <class View>
inline constexpr bool host_reaches =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename View::memory_space>::accessible;

template <class View, class Exec>
using ViewMemory = std::conditional_t<host_reaches<View>, HostViewMemory<View, Exec>,
                                      StagedViewMemory<View, Exec>>;

}  // namespace cairn::kokkos
