// Parses and writes TensorFlow's names of devices (cairn/device.hpp).
#include "cairn/device.hpp"

#include <charconv>
#include <optional>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

class DeviceParser {
 public:
  explicit DeviceParser(std::string_view text) : text_(text) {}

  DeviceTask parse() {
    if (text_.empty() || text_.front() != '/') malformed("it must begin with /");
    for (auto rest = text_; !rest.empty();) {
      rest.remove_prefix(1);
      const auto part = rest.substr(0, rest.find('/'));
      rest.remove_prefix(part.size());
      const auto colon = part.find(':');
      if (colon == part.npos) malformed(cat("'", part, "' has no colon"));
      const auto name = part.substr(0, colon), value = part.substr(colon + 1);
      if (value.empty()) malformed(cat("'", part, "' has no value"));
      take(name, value);
    }
    if (!job_ || !replica_ || !task_ || !type_) {
      malformed("job, replica, task and device must all be there");
    }
    return {*job_, *replica_, *task_, *type_, *index_};
  }

 private:
  [[noreturn]] void malformed(std::string_view reason) const {
    throw Error(Code::invalid_argument, cat("device \"", text_, "\" is malformed"),
                std::string(reason), "Write it as \"/job:worker/replica:0/task:3/device:CPU:0\".");
  }
  int number(std::string_view digits) const {
    int value = -1;
    const auto* const last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(digits.data(), last, value);
    if (error != std::errc{} || end != last || value < 0) {
      malformed(cat("'", digits, "' is no number"));
    }
    return value;
  }
  // Sets a part that may be given only once.
  template <class T>
  void once(std::optional<T>& slot, T value, std::string_view what) const {
    if (slot) malformed(cat(what, " is given twice"));
    slot = std::move(value);
  }
  // One part of the name. "cpu:0" and "gpu:0" are TensorFlow's old forms of "device:CPU:0" and
  // "device:GPU:0".
  void take(std::string_view name, std::string_view value) {
    if (name == "job") {
      once(job_, std::string(value), "job");
    } else if (name == "replica") {
      once(replica_, number(value), "replica");
    } else if (name == "task") {
      once(task_, number(value), "task");
    } else if (name == "device") {
      const auto second = value.find(':');
      if (second == value.npos) malformed("device needs a type and a number");
      once(type_, std::string(value.substr(0, second)), "device");
      index_ = number(value.substr(second + 1));
    } else if (name == "cpu" || name == "gpu") {
      once(type_, std::string(name == "cpu" ? "CPU" : "GPU"), "device");
      index_ = number(value);
    } else {
      malformed(cat("unknown part '", name, "'"));
    }
  }

  std::string_view text_;
  std::optional<std::string> job_, type_;
  std::optional<int> replica_, task_, index_;
};

}  // namespace

DeviceTask parse_device_task(std::string_view text) { return DeviceParser(text).parse(); }

std::string to_string(const DeviceTask& task) {
  return cat("/job:", task.job, "/replica:", task.replica, "/task:", task.task,
             "/device:", task.device_type, ":", task.device_index);
}

}  // namespace cairn
