// The inner pieces of a save, one at a time.
#include <benchmark/benchmark.h>

#include <cstring>

#include "base/checksum.hpp"
#include "cairn/box.hpp"
#include "cairn/state.hpp"
#include "exchange/exchange.hpp"

namespace {

using namespace cairn;

constexpr std::int64_t mib = std::int64_t{1} << 20;

void per_byte(benchmark::State& state, std::int64_t bytes) {
  state.SetBytesProcessed(state.iterations() * bytes);
}

void checksum(benchmark::State& state) {
  const std::vector<std::byte> bytes(static_cast<std::size_t>(state.range(0)), std::byte{7});
  for (auto _ : state) benchmark::DoNotOptimize(crc32c(bytes));
  per_byte(state, state.range(0));
}

void checksum_combine(benchmark::State& state) {
  std::uint32_t crc = 1;
  for (auto _ : state) benchmark::DoNotOptimize(crc = crc32c_combine(crc, 5, 64 * mib));
}

// A grid of three-dimensional boxes, and the same grid moved by half a box.
std::vector<Box> cubes(std::int64_t side, std::int64_t shift) {
  std::vector<Box> all;
  for (std::int64_t i = 0; i < 8; ++i)
    for (std::int64_t j = 0; j < 8; ++j)
      for (std::int64_t k = 0; k < 8; ++k)
        all.push_back({{i * side + shift, j * side + shift, k * side + shift}, {side, side, side}});
  return all;
}

void boxes_intersect(benchmark::State& state) {
  const auto a = cubes(64, 0), b = cubes(64, 32);
  for (auto _ : state)
    for (std::size_t i = 0; i < a.size(); ++i) benchmark::DoNotOptimize(intersect(a[i], b[i]));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(a.size()));
}

void boxes_subtract(benchmark::State& state) {
  const auto a = cubes(64, 0), b = cubes(64, 32);
  for (auto _ : state)
    for (std::size_t i = 0; i < a.size(); ++i) benchmark::DoNotOptimize(subtract(a[i], b[i]));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(a.size()));
}

/// 64 ranks have saved and 48 restore 100 tensors cut in rows.
void plan_restore(benchmark::State& state) {
  const int stored = 64, wanted = 48;
  const std::int64_t rows = 64 * 48, columns = 256;
  std::vector<plan::Source> sources;
  std::vector<plan::Target> targets;
  for (int t = 0; t < 100; ++t) {
    for (int r = 0; r < stored; ++r)
      sources.push_back({t, {{r * rows / stored, 0}, {rows / stored, columns}}, 8, -1});
    for (int r = 0; r < wanted; ++r)
      targets.push_back({t, {{r * rows / wanted, 0}, {rows / wanted, columns}}, r, t});
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        plan::plan_exchange(sources, targets, wanted, 16 * mib, plan::Packing::fill));
  }
}

// Row-major bytes from memory in another order: 64 MiB of doubles, one MiB at a time.
void pack(benchmark::State& state, const Dims& extent, const Dims& strides, std::size_t elements) {
  const std::vector<double> data(elements, 1.5);
  const auto memory = host_memory(DType::float64, data.data(), nullptr, extent, strides);
  std::vector<std::byte> out(static_cast<std::size_t>(mib));
  const auto rows = mib / 8 / extent[1];
  for (auto _ : state) {
    for (std::int64_t row = 0; row + rows <= extent[0]; row += rows) {
      memory->read({{row, 0}, {rows, extent[1]}}, out.data());
      benchmark::ClobberMemory();
    }
  }
  per_byte(state, extent[0] / rows * mib);
}

constexpr std::int64_t side = 2048, columns = 4096;

void pack_row_major(benchmark::State& state) {
  pack(state, {side, columns}, {columns, 1}, side * columns);
}
void pack_layout_left(benchmark::State& state) {
  pack(state, {side, columns}, {1, side}, side * columns);
}
void pack_with_halo(benchmark::State& state) {
  pack(state, {side, columns}, {columns + 2, 1}, side * (columns + 2));
}
void pack_every_other(benchmark::State& state) {
  pack(state, {side, columns}, {2 * columns, 2}, 2 * side * columns);
}

void memcpy_touched(benchmark::State& state) {
  const std::vector<std::byte> from(static_cast<std::size_t>(64 * mib), std::byte{1});
  auto to = from;
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  per_byte(state, 64 * mib);
}

BENCHMARK(checksum)->Arg(4096)->Arg(mib)->Arg(64 * mib);
BENCHMARK(checksum_combine);
BENCHMARK(boxes_intersect);
BENCHMARK(boxes_subtract);
BENCHMARK(plan_restore)->Unit(benchmark::kMillisecond);
BENCHMARK(memcpy_touched)->Unit(benchmark::kMillisecond);
BENCHMARK(pack_row_major)->Unit(benchmark::kMillisecond);
BENCHMARK(pack_layout_left)->Unit(benchmark::kMillisecond);
BENCHMARK(pack_with_halo)->Unit(benchmark::kMillisecond);
BENCHMARK(pack_every_other)->Unit(benchmark::kMillisecond);

}  // namespace
