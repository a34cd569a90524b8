#pragma once
// Two sharding policies as a user writes them. docs/sharding-policies.md walks through them.
#include <cairn/cairn.hpp>

#include <algorithm>
#include <stdexcept>

/// Puts everything that one call sees into one shard.
class AllInOne : public cairn::ShardingCallback {
 public:
  std::string description() const override { return "all in one"; }
  std::optional<std::string> parameters() const override { return ""; }

  std::vector<cairn::Shard> operator()(
      const std::vector<cairn::ShardableTensor>& tensors) const override {
    cairn::Shard shard;
    for (const auto& tensor : tensors) cairn::add_to(shard, tensor);
    return {shard};
  }
};

/// Deals each tensor over `param` shards in stripes along its first dimension. A tensor that cannot
/// be cut goes whole to the shard with the fewest bytes.
class ParameterPolicy : public cairn::ShardingCallback {
 public:
  explicit ParameterPolicy(int param) : param_(param) {
    if (param < 1) throw std::invalid_argument("ParameterPolicy: there is no shard");
  }
  std::string description() const override { return "stripes"; }
  std::optional<std::string> parameters() const override {
    return "param=" + std::to_string(param_);
  }

  std::vector<cairn::Shard> operator()(
      const std::vector<cairn::ShardableTensor>& tensors) const override {
    struct Bin {
      cairn::Shard shard;
      std::int64_t bytes = 0;
    };
    std::vector<Bin> bins(static_cast<std::size_t>(param_));
    const auto put = [](Bin& bin, cairn::ShardableTensor tensor) {
      bin.bytes += tensor.bytes;
      cairn::add_to(bin.shard, std::move(tensor));
    };

    // Re-slice: stripe i of each tensor goes to shard i.
    std::vector<cairn::ShardableTensor> whole;
    for (const auto& tensor : tensors) {
      if (!can_be_striped(tensor)) {
        whole.push_back(tensor);
        continue;
      }
      const auto rows = tensor.slice.extent[0];
      for (int i = 0; i < param_; ++i) {
        cairn::Box stripe = tensor.slice;
        stripe.start[0] += rows * i / param_;
        stripe.extent[0] = rows * (i + 1) / param_ - rows * i / param_;
        put(bins[static_cast<std::size_t>(i)], cairn::piece_of(tensor, stripe));
      }
    }

    // Merge: the other tensors, largest first, go to the shard with the fewest bytes.
    std::stable_sort(whole.begin(), whole.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    const auto by_bytes = [](const Bin& a, const Bin& b) { return a.bytes < b.bytes; };
    for (auto& tensor : whole) {
      put(*std::min_element(bins.begin(), bins.end(), by_bytes), std::move(tensor));
    }

    // Order: data files are numbered as the shards are returned. Empty ones make no file.
    std::stable_sort(bins.begin(), bins.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    std::vector<cairn::Shard> shards;
    for (auto& bin : bins) shards.push_back(std::move(bin.shard));
    return shards;
  }

 private:
  bool can_be_striped(const cairn::ShardableTensor& tensor) const {
    return cairn::dtype_assembles_in_tensorflow(tensor.dtype) && !tensor.slice.empty() &&
           tensor.slice.rank() > 0 && tensor.slice.extent[0] >= param_;
  }

  int param_;
};
