#include "cairn/device.hpp"

#include <charconv>
#include <optional>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

[[noreturn]] void malformed(std::string_view text, std::string_view reason) {
  throw Error(Code::invalid_argument, cat("device \"", text, "\" is malformed"),
              std::string(reason), "Write it as \"/job:worker/replica:0/task:3/device:CPU:0\".");
}

}  // namespace

DeviceTask parse_device_task(std::string_view text) {
  std::optional<std::string> job, type;
  std::optional<int> replica, task, index;
  const auto number = [&](std::string_view digits) {
    int value = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || end != digits.data() + digits.size() || value < 0) {
      malformed(text, cat("'", digits, "' is no number"));
    }
    return value;
  };
  const auto once = [&](auto& slot, auto value, std::string_view what) {
    if (slot) malformed(text, cat(what, " is given twice"));
    slot = std::move(value);
  };
  if (text.empty() || text.front() != '/') malformed(text, "it must begin with /");
  for (auto rest = text; !rest.empty();) {
    rest.remove_prefix(1);
    const auto part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(part.size());
    const auto colon = part.find(':');
    if (colon == part.npos) malformed(text, cat("'", part, "' has no colon"));
    const auto name = part.substr(0, colon), value = part.substr(colon + 1);
    if (value.empty()) malformed(text, cat("'", part, "' has no value"));
    if (name == "job") {
      once(job, std::string(value), "job");
    } else if (name == "replica") {
      once(replica, number(value), "replica");
    } else if (name == "task") {
      once(task, number(value), "task");
    } else if (name == "device") {
      const auto second = value.find(':');
      if (second == value.npos) malformed(text, "device needs a type and a number");
      once(type, std::string(value.substr(0, second)), "device");
      index = number(value.substr(second + 1));
    } else if (name == "cpu" || name == "gpu") {
      once(type, std::string(name == "cpu" ? "CPU" : "GPU"), "device");
      index = number(value);
    } else {
      malformed(text, cat("unknown part '", name, "'"));
    }
  }
  if (!job || !replica || !task || !type) {
    malformed(text, "job, replica, task and device must all be there");
  }
  return {*job, *replica, *task, *type, *index};
}

std::string to_string(const DeviceTask& task) {
  return cat("/job:", task.job, "/replica:", task.replica, "/task:", task.task,
             "/device:", task.device_type, ":", task.device_index);
}

}  // namespace cairn
