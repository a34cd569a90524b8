#include "sample.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/checksum.hpp"

namespace cairn::bench {
namespace {

constexpr std::int64_t item = sizeof(double);

}  // namespace

std::int64_t Recipe::bytes() const {
  std::int64_t sum = 0;
  for (const auto& one : tensors) sum += one.rows * one.columns * item;
  return sum;
}

Recipe Recipe::one_tensor(std::int64_t bytes) {
  return {{{"u", std::max<std::int64_t>(1, bytes / (1024 * item)), 1024}}};
}

Recipe Recipe::many_small(int ranks) {
  Recipe recipe;
  for (int i = 0; i < 2000; ++i) {
    recipe.tensors.push_back({"small/" + std::to_string(i), std::int64_t{512} * ranks, 1});
  }
  return recipe;
}

Recipe Recipe::mixed(std::int64_t bytes) {
  if (bytes < std::int64_t{8} << 20) throw std::runtime_error("a mixed state has 8 MiB or more");
  Recipe recipe;
  auto& all = recipe.tensors;
  for (int i = 0; i < 1000; ++i) all.push_back({"small/" + std::to_string(i), 256, 1});
  for (int i = 0; i < 8; ++i) all.push_back({"replica/" + std::to_string(i), 16384, 1, true});
  for (int i = 0; i < 20; ++i) all.push_back({"scalar/" + std::to_string(i), 1, 1, true});
  const auto rest = bytes - recipe.bytes(), medium = rest * 15 / 100 / 300, large = rest * 85 / 400;
  for (int i = 0; i < 300; ++i) {
    all.push_back({"medium/" + std::to_string(i), medium / (64 * item), 64});
  }
  for (int i = 0; i < 4; ++i) {
    all.push_back({"large/" + std::to_string(i), large / (1024 * item), 1024});
  }
  return recipe;
}

Sample::Sample(Recipe recipe, int rank, int ranks, Fill fill)
    : recipe_(std::move(recipe)), rank_(rank) {
  std::size_t at = 0;
  for (const auto& one : recipe_.tensors) {
    const auto edge = [&](int r) { return one.replicated ? 0 : one.rows * r / ranks; };
    const auto end = one.replicated ? one.rows : edge(rank + 1);
    parts_.push_back({edge(rank), end - edge(rank), at});
    const auto bytes = static_cast<std::size_t>(parts_.back().rows * one.columns * item);
    at += (bytes + 63) / 64 * 64;
  }
  memory_.resize(at);
  if (fill == Fill::nothing) return;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto& one = recipe_.tensors[i];
    auto* out = memory_.data() + parts_[i].at;
    const auto seed = mixed_bits(i);
    const auto first = static_cast<std::uint64_t>(parts_[i].start * one.columns);
    const auto count = static_cast<std::uint64_t>(parts_[i].rows * one.columns);
    for (std::uint64_t k = 0; k < count; ++k) {
      const auto value = mixed_bits(seed + first + k);
      std::memcpy(out + k * item, &value, sizeof value);
    }
  }
}

State Sample::state() {
  State state;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto& one = recipe_.tensors[i];
    auto* data = static_cast<void*>(memory_.data() + parts_[i].at);
    if (one.rows == 1 && one.columns == 1) {
      state.add(one.key, slice(DType::float64, data, Dims{}, Dims{}, Dims{}));
    } else if (parts_[i].rows == 0) {
      state.add(one.key, nothing(DType::float64, {one.rows, one.columns}));
    } else {
      state.add(one.key, slice(DType::float64, data, {one.rows, one.columns}, {parts_[i].start, 0},
                               {parts_[i].rows, one.columns}));
    }
  }
  return state;
}

std::vector<BareDataset> Sample::datasets() const {
  std::vector<BareDataset> all;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto& one = recipe_.tensors[i];
    std::string name = one.key;  // no groups, which would have to be made first
    std::replace(name.begin(), name.end(), '/', '_');
    const bool mine = !one.replicated || rank_ == 0;
    all.push_back({std::move(name), one.rows, one.columns, parts_[i].start,
                   mine ? parts_[i].rows : 0, memory_.data() + parts_[i].at});
  }
  return all;
}

void Sample::poison() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {  // gaps between tensors stay as they are
    const auto bytes = parts_[i].rows * recipe_.tensors[i].columns * item;
    std::memset(memory_.data() + parts_[i].at, 0xcd, static_cast<std::size_t>(bytes));
  }
}

}  // namespace cairn::bench
