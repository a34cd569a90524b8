// Saves the same state under several sharding policies, shows the data files that each makes, and
// restores from them. usage: sharding_policies DIRECTORY
#include "policies.hpp"

#include <cstdio>
#include <filesystem>
#include <map>
#include <numeric>

namespace {

struct Model {
  std::int64_t step = 100;
  std::vector<float> weights = std::vector<float>(1000 * 64);
  std::vector<std::uint16_t> half = std::vector<std::uint16_t>(4000);
  std::vector<double> bias = std::vector<double>(640);
  std::string note = "a note";

  cairn::State state() {
    auto on_device = cairn::whole(bias.data(), {640});
    on_device.device_type = "CUDA";  // pretends to be GPU memory
    cairn::State state;
    state.add("step", step);
    state.add("weights", cairn::whole(weights.data(), {1000, 64}));
    state.add("half", cairn::slice(cairn::DType::float16, static_cast<void*>(half.data()), {4000},
                                   {0}, {4000}));
    state.add("bias", std::move(on_device));
    state.add("note", note);
    return state;
  }
  bool operator==(const Model&) const = default;
};

void save_under(const char* title, const std::filesystem::path& directory,
                cairn::ManagerOptions options) {
  Model model;
  std::iota(model.weights.begin(), model.weights.end(), 1.0f);
  std::iota(model.half.begin(), model.half.end(), std::uint16_t{1});
  std::iota(model.bias.begin(), model.bias.end(), 0.5);
  {
    cairn::CheckpointManager manager(cairn::serial_group(), directory, options);
    manager.save(model.step, model.state());
    std::map<int, std::string> files;
    for (const auto& tensor : manager.open(model.step).tensors) {
      for (const auto& slice : tensor.slices) {
        files[slice.file] += "  " + tensor.key;
        if (tensor.sliced) files[slice.file] += cairn::shape_text(slice.box.extent);
      }
    }
    std::printf("%s\n", title);
    for (const auto& [file, keys] : files) std::printf("  file %d:%s\n", file, keys.c_str());
  }
  // A restore takes no policy: the checkpoint says where everything is.
  Model back;
  auto state = back.state();
  cairn::CheckpointManager(cairn::serial_group(), directory).restore_latest(state);
  if (back != model) throw std::runtime_error("what was restored is not what was saved");
}

void save_all(const std::filesystem::path& directory) {
  cairn::ManagerOptions options;
  save_under("the default, one shard a task", directory / "default", options);

  options.store.policy = std::make_shared<cairn::MaxShardSizePolicy>(100'000);
  save_under("MaxShardSizePolicy(100'000)", directory / "max", options);

  options.store.policy = std::make_shared<AllInOne>();
  save_under("AllInOne", directory / "all_in_one", options);

  options.store.policy = std::make_shared<cairn::PerDevicePolicy>();
  save_under("PerDevicePolicy", directory / "devices", options);

  options.store.policy = std::make_shared<ParameterPolicy>(3);
  save_under("ParameterPolicy(3)", directory / "stripes", options);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw std::runtime_error("usage: sharding_policies DIRECTORY");
    save_all(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sharding_policies: %s\n", error.what());
    return 1;
  }
  return 0;
}
