// The code of docs/versions.md: a program of version 2.1 reads what version 1.3 saved.
#include <cstdio>
#include <filesystem>
#include <vector>

#include "cairn/cairn.hpp"

int main(int argc, char** argv) {
  const std::filesystem::path directory = argc > 1 ? argv[1] : "versions";
  {
    std::vector<float> celsius{20, 21};
    cairn::State state;
    state.add("celsius", celsius);
    cairn::ManagerOptions options;
    options.store.application = {"ocean", "1.3", ""};
    cairn::CheckpointManager manager(cairn::serial_group(), directory, options);
    manager.save(1, state);
  }
  std::vector<double> kelvin(2);
  cairn::State state;
  state.add("kelvin", kelvin);
  cairn::ManagerOptions options;
  options.store.application = {.name = "ocean", .version = "2.1", .commit = "f3a9c0"};
  options.hooks.migrate = [&](const cairn::Application& from, cairn::Migration& how) {
    if (!cairn::is_newer_version("2.0", from.version)) return;  // 2.0 and later have kelvin
    how.options.rename["kelvin"] = "celsius";
    how.options.convert_keys["kelvin"] = cairn::Conversion::exact;  // float32 was stored
    how.finish = [&] {
      for (auto& one : kelvin) one += 273.15;
    };
  };
  cairn::CheckpointManager manager(cairn::serial_group(), directory, options);
  const auto report = manager.restore_latest(state);
  return report && kelvin[0] == 293.15 && kelvin[1] == 294.15 ? 0 : 1;
}
