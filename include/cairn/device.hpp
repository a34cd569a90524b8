#pragma once
/// Device tasks: where a slice lives, in TensorFlow's spelling.
#include <compare>
#include <string>
#include <string_view>

namespace cairn {

/// A device of a task: "/job:NAME/replica:0/task:RANK/device:CUDA:0". One MPI rank is one task,
/// which may have memory on several devices.
struct DeviceTask {
  std::string job = "worker";
  int replica = 0;
  int task = 0;
  std::string device_type = "CPU";
  int device_index = 0;
  bool operator==(const DeviceTask&) const = default;
  auto operator<=>(const DeviceTask&) const = default;
  /// Whether both are of one task: job, replica and task are the same, whatever the devices are.
  bool same_task(const DeviceTask& other) const {
    return job == other.job && replica == other.replica && task == other.task;
  }
};

/// Accepts also "cpu:0" and "gpu:0" as TensorFlow's older spelling of the device. Throws
/// invalid_argument when a part is missing, doubled or no number.
DeviceTask parse_device_task(std::string_view text);
std::string to_string(const DeviceTask& task);

}  // namespace cairn
