// Sharding policies (cairn/sharding.hpp), except MaxShardSizePolicy.
#include <map>
#include <ostream>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/sharding.hpp"
#include "exchange/box_check.hpp"

namespace cairn {

// For policies that cut slices themselves. What they ask for is checked here, so that errors name
// the slice and not what validate_shards() makes of it later.
ShardableTensor piece_of(const ShardableTensor& tensor, Box slice) {
  const auto refuse = [&](const char* why) {
    throw Error(Code::sharding,
                cat("tensor '", tensor.key, "': the slice ", any_box_text(tensor.slice),
                    " cannot be cut to ", any_box_text(slice)),
                why)
        .of_tensor(tensor.key);
  };
  if (slice == tensor.slice) return tensor;
  if (!lies_inside(tensor.slice, tensor.shape)) refuse("the slice itself leaves the tensor");
  if (tensor.dtype == DType::string) refuse("string tensors are stored whole");
  if (!lies_inside(slice, tensor.shape) || !tensor.slice.contains(slice)) {
    refuse("a piece is a part of its slice");
  }
  ShardableTensor piece = tensor;
  piece.bytes = slice.count() * static_cast<std::int64_t>(dtype_size(tensor.dtype));
  piece.slice = std::move(slice);
  return piece;
}

void add_to(Shard& shard, ShardableTensor tensor) {
  auto& slices = shard[tensor.key];
  if (slices.contains(tensor.slice)) {
    throw Error(Code::sharding,
                cat("tensor '", tensor.key, "', slice \"",
                    slice_spec_text(tensor.shape, tensor.slice), "\" is given twice to one shard"))
        .of_tensor(tensor.key);
  }
  auto slice = tensor.slice;
  slices.emplace(std::move(slice), std::move(tensor));
}

std::optional<std::string> ShardingCallback::fingerprint() const {
  const auto mine = parameters();
  if (!mine) return std::nullopt;
  const auto text = description();
  return cat(text.size(), ' ', text, *mine);  // the length keeps the two apart
}

std::vector<int> ShardingCallback::dense_files(const std::vector<ShardableTensor>& tensors) const {
  return std::vector<int>(tensors.size(), 0);
}

namespace {

// A policy made of a function, as sharding_policy() returns it.
class FunctionPolicy : public ShardingCallback {
 public:
  using Function = std::function<std::vector<Shard>(const std::vector<ShardableTensor>&)>;
  FunctionPolicy(std::string description, Function function, std::optional<std::string> parameters)
      : description_(std::move(description)),
        function_(std::move(function)),
        parameters_(std::move(parameters)) {}
  std::string description() const override { return description_; }
  std::optional<std::string> parameters() const override { return parameters_; }
  std::vector<Shard> operator()(const std::vector<ShardableTensor>& tensors) const override {
    return function_(tensors);
  }

 private:
  std::string description_;
  Function function_;
  std::optional<std::string> parameters_;
};

}  // namespace

std::shared_ptr<const ShardingCallback> sharding_policy(
    std::string description,
    std::function<std::vector<Shard>(const std::vector<ShardableTensor>&)> function,
    std::optional<std::string> parameters) {
  if (!function) {
    throw Error(Code::invalid_argument,
                cat("the sharding policy '", description, "' has no function"));
  }
  return std::make_shared<FunctionPolicy>(std::move(description), std::move(function),
                                          std::move(parameters));
}

std::ostream& operator<<(std::ostream& out, const ShardableTensor& tensor) {
  return out << '\'' << tensor.key << "' " << dtype_name(tensor.dtype) << shape_text(tensor.shape)
             << ", slice " << slice_spec_text(tensor.shape, tensor.slice) << ", "
             << bytes_text(static_cast<double>(tensor.bytes)) << " on " << to_string(tensor.task);
}

std::string ShardByTaskPolicy::description() const { return "all tensors of a task in one shard"; }

// It has none, and says so: otherwise it would be called for every save.
std::optional<std::string> ShardByTaskPolicy::parameters() const { return ""; }

std::vector<Shard> ShardByTaskPolicy::operator()(
    const std::vector<ShardableTensor>& tensors) const {
  if (tensors.empty()) return {};
  std::vector<Shard> shards(1);
  for (const auto& tensor : tensors) add_to(shards[0], tensor);
  return shards;
}

PerDevicePolicy::PerDevicePolicy(std::shared_ptr<const ShardingCallback> policy)
    : policy_(policy ? std::move(policy) : std::make_shared<ShardByTaskPolicy>()) {}

std::string PerDevicePolicy::description() const {
  return cat("each device apart: ", policy_->description());
}

// Unknown if those of the other policy are, which is then called for every save.
std::optional<std::string> PerDevicePolicy::parameters() const { return policy_->parameters(); }

std::vector<Shard> PerDevicePolicy::operator()(const std::vector<ShardableTensor>& tensors) const {
  std::map<DeviceTask, std::vector<ShardableTensor>> by_device;
  for (const auto& tensor : tensors) by_device[tensor.task].push_back(tensor);
  std::vector<Shard> shards;
  for (const auto& [device, its] : by_device) {
    for (auto& shard : (*policy_)(its)) shards.push_back(std::move(shard));
  }
  return shards;
}

std::vector<int> PerDevicePolicy::dense_files(const std::vector<ShardableTensor>& tensors) const {
  return policy_->dense_files(tensors);
}

}  // namespace cairn
