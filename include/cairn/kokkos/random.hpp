#pragma once
/// Pools of random generators: after a restore each generator goes on with the same bits as in a
/// run without interruption.
#include <Kokkos_Core.hpp>
#include <Kokkos_Random.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "cairn/kokkos.hpp"
#include "cairn/ragged.hpp"

namespace cairn {

namespace kokkos {

/// Room for one generator as the pool's get_state() returns it.
template <class Generator>
struct GeneratorBytes {
  alignas(Generator) unsigned char bytes[sizeof(Generator)];
};

template <class Pool>
struct TakeGenerators {
  using Generator = typename Pool::generator_type;
  Pool pool;
  GeneratorBytes<Generator>* out;
  KOKKOS_FUNCTION void operator()(int i) const {
    for (auto& byte : out[i].bytes) byte = 0;  // also padding bytes
    new (out[i].bytes) Generator(pool.get_state(i));
  }
};

template <class Pool>
struct PutGenerators {
  using Generator = typename Pool::generator_type;
  Pool pool;
  const GeneratorBytes<Generator>* in;
  KOKKOS_FUNCTION void operator()(int i) const {
    pool.free_state(*reinterpret_cast<const Generator*>(in[i].bytes));
  }
};

/// The generators of a pool as bytes, [generators, bytes of one].
template <class Pool>
class PoolMemory : public SliceMemory {
  using Generator = typename Pool::generator_type;
  using Exec = typename Pool::device_type::execution_space;
  using Bytes = GeneratorBytes<Generator>;
  using Room = Kokkos::View<Bytes*, typename Pool::device_type>;
  static_assert(
      std::is_trivially_copyable_v<Generator>,
      "the generators of this pool refer to memory of the pool (XorShift1024 on devices)");

 public:
  PoolMemory(const Pool& pool, int generators) : pool_(pool), generators_(generators) {}

  void read(const Box& part, std::byte* out) const override {
    if (part.empty()) return;
    memory_of(taken()).read(part, out);
  }
  // A restore may write the pool in several pieces. All generators are taken first, so that a piece
  // keeps what earlier pieces wrote.
  void write(const Box& part, const std::byte* in) override {
    if (part.empty()) return;
    const auto room = taken();
    memory_of(room).write(part, in);
    Kokkos::parallel_for("cairn::random pool: put", Kokkos::RangePolicy<Exec>(0, generators_),
                         PutGenerators<Pool>{pool_, room.data()});
    fence(Exec(), "cairn::random pool: fence after putting");
  }
  bool writable() const override { return true; }

 private:
  Room taken() const {
    const Room room(Kokkos::view_alloc(Kokkos::WithoutInitializing, "cairn::random pool"),
                    static_cast<std::size_t>(generators_));
    Kokkos::parallel_for("cairn::random pool: take", Kokkos::RangePolicy<Exec>(0, generators_),
                         TakeGenerators<Pool>{pool_, room.data()});
    fence(Exec(), "cairn::random pool: fence after taking");
    return room;
  }
  static auto memory_of(const Room& room) {
    using Flat = Kokkos::View<std::uint8_t**, Kokkos::LayoutRight, typename Pool::device_type,
                              Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    return ViewMemory<Flat, Exec>(
        Flat(reinterpret_cast<std::uint8_t*>(room.data()), room.extent(0), sizeof(Bytes)), Exec());
  }

  Pool pool_;
  int generators_;
};

/// The number of generators that a pool has unless its constructor was given another.
template <class Pool>
int usual_generators() {
  return static_cast<int>(typename Pool::device_type::execution_space().concurrency());
}

}  // namespace kokkos

/// The state of this rank's pool, a Random_XorShift64_Pool or, on hosts, a Random_XorShift1024_Pool
/// with so many generators. The default is the number that the constructor with only a seed makes:
/// the concurrency of the execution space. The state is stored as a rank-private item
/// (cairn/ragged.hpp), uint8 [generators, bytes of one], for programs with the same Kokkos.
/// Restored with the same concurrency, the pool goes on as the saved one would have, bit for bit;
/// Kokkos decides how a kernel's iterations share the generators. With another concurrency the
/// number of generators differs, which is an error of the restore that names both numbers. The
/// program may then leave the pool out of the state, and seed it. No kernel may use the pool during
/// a save or restore.
template <class Pool>
LocalTensor random_pool(const Pool& pool, int generators = kokkos::usual_generators<Pool>(),
                        PrivateOptions options = {}) {
  using Bytes = kokkos::GeneratorBytes<typename Pool::generator_type>;
  LocalTensor tensor;
  tensor.dtype = DType::uint8;
  tensor.device_type = kokkos::device_type<typename Pool::device_type::memory_space>();
  tensor.shape = {generators, static_cast<std::int64_t>(sizeof(Bytes))};
  tensor.slices.push_back(
      {Box::whole(tensor.shape), std::make_shared<kokkos::PoolMemory<Pool>>(pool, generators)});
  return rank_private(std::move(tensor), std::move(options));
}

}  // namespace cairn
