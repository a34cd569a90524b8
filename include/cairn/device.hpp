#pragma once
/// Device tasks: where a slice lives, in TensorFlow's spelling.
#include <compare>
#include <string>
#include <string_view>

namespace cairn {

/// "/job:NAME/replica:0/task:RANK/device:CUDA:0". One MPI rank is one task.
struct DeviceTask {
  std::string job = "worker";
  int replica = 0;
  int task = 0;
  std::string device_type = "CPU";
  int device_index = 0;
  bool operator==(const DeviceTask&) const = default;
  auto operator<=>(const DeviceTask&) const = default;
};

/// Accepts also "cpu:0" and "gpu:0" as TensorFlow's older spelling of the device. Throws
/// invalid_argument when a part is missing, doubled or no number.
DeviceTask parse_device_task(std::string_view text);
std::string to_string(const DeviceTask& task);

}  // namespace cairn
