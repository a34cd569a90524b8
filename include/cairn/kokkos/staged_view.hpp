#pragma once
/// Copies between a View that the host cannot reach and the host. Programs use cairn/kokkos.hpp.
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "cairn/error.hpp"
#include "cairn/kokkos/compat.hpp"
#include "cairn/kokkos/own_instance.hpp"
#include "cairn/kokkos/pinned.hpp"
#include "cairn/kokkos/staging.hpp"
#include "cairn/slice_memory.hpp"

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
/// Kernels and copies are queued on one execution-space instance, and a fence of this instance ends
/// the call. The temporary has room for `staging_bytes` at most (but for one element at least).
template <class View, class Exec>
class StagedView {
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
  StagedView(const View& view, std::int64_t staging_bytes)
      : view_(view),
        strides_(kokkos::strides(view)),
        limit_(std::max<std::int64_t>(1, staging_bytes / static_cast<std::int64_t>(sizeof(T)))) {}

  void read(const Exec& exec, std::span<const SliceMemory::Read> parts) const {
    Temporary temporary;
    for (const auto& part : parts) read(exec, part, temporary);
    fence(exec, "cairn::read: fence after the copy to the host");
    if (temporary) Pool::instance().give_back(exec, std::move(*temporary));
  }

  void write(const Exec& exec, const Box& part, const std::byte* in) const {
    if (part.empty()) return;
    Temporary temporary;
    for_pieces(part, 0, [&](const Box& piece, std::int64_t elements) {
      const BoxWalk walk(piece, strides_);
      const bool flat = walk.flat();
      T* to = flat ? view_.data() + walk.offset : room(exec, temporary, elements);
      const auto bytes = static_cast<std::size_t>(elements) * sizeof(T);
      Kokkos::deep_copy(
          exec, Bytes<char, Space>(reinterpret_cast<char*>(to), bytes),
          Bytes<const char, Kokkos::HostSpace>(reinterpret_cast<const char*>(in), bytes));
      if (!flat) {
        Kokkos::parallel_for("cairn::unpack", Policy(exec, 0, elements),
                             Unpack<T>{walk, view_.data(), to});
      }
      in += bytes;
    });
    fence(exec, "cairn::write: fence after the copy from the host");
    if (temporary) Pool::instance().give_back(exec, std::move(*temporary));
  }

  Footprint footprint() const {
    constexpr auto item = static_cast<std::int64_t>(sizeof(T));
    Footprint where{reinterpret_cast<const std::byte*>(view_.data()), strides_, item};
    for (auto& stride : where.strides) stride *= item;
    return where;
  }

 private:
  void read(const Exec& exec, const SliceMemory::Read& one, Temporary& temporary) const {
    if (one.part.empty()) return;
    auto* out = one.out;
    for_pieces(one.part, 0, [&](const Box& piece, std::int64_t elements) {
      const BoxWalk walk(piece, strides_);
      const T* from = view_.data() + walk.offset;
      if (!walk.flat()) {
        T* row_major = room(exec, temporary, elements);
        Kokkos::parallel_for("cairn::pack", Policy(exec, 0, elements),
                             Pack<T>{walk, view_.data(), row_major});
        from = row_major;
      }
      const auto bytes = static_cast<std::size_t>(elements) * sizeof(T);
      Kokkos::deep_copy(exec, Bytes<char, Kokkos::HostSpace>(reinterpret_cast<char*>(out), bytes),
                        Bytes<const char, Space>(reinterpret_cast<const char*>(from), bytes));
      out += bytes;
    });
  }

  // Pieces use it one after the other, as the instance works on them. The first is the largest.
  T* room(const Exec& exec, Temporary& temporary, std::int64_t elements) const {
    const auto bytes = static_cast<std::size_t>(elements) * sizeof(T);
    if (temporary && temporary->extent(0) < bytes) {
      fence(exec, "cairn: fence before a larger temporary is taken");
      temporary.reset();
    }
    if (!temporary) temporary.emplace(Pool::instance().take(exec, bytes));
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
  Dims strides_;
  std::int64_t limit_;
};

/// A StagedView for threads of the library, which use an instance of their own.
template <class View, class Exec>
class ViewBeside : public SliceMemory {
 public:
  ViewBeside(const StagedView<View, Exec>& staged, int device) : staged_(staged), device_(device) {}
  void read(const Box& part, std::byte* out) const override {
    const Read one{part, out};
    read_all({&one, 1});
  }
  void read_all(std::span<const Read> parts) const override {
    OwnInstances<Exec>::instance().with(device_,
                                        [&](const Exec& exec) { staged_.read(exec, parts); });
  }
  void write(const Box&, const std::byte*) override {
    throw Error(Code::internal, "a View is written beside the program");
  }
  bool writable() const override { return false; }
  std::shared_ptr<StagingMemory> staging() const override {
    return SpaceMemory<PinnedSpace>::instance();
  }

 private:
  StagedView<View, Exec> staged_;
  int device_;
};

}  // namespace cairn::kokkos
