#include "code.hpp"

#include <pybind11/stl.h>

#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cairn/async.hpp"
#include "cairn/error.hpp"
#include "cairn/sharding.hpp"

namespace cairn::python {
namespace {

using Policy = std::shared_ptr<ShardingCallback>;

std::vector<Shard> shards_of(const py::object& result) {
  const auto wrong = [](const py::handle& what) {
    const std::string kind = py::str(py::type::of(what).attr("__name__"));
    return Error(Code::application, "a sharding policy returns lists of lists of ShardableTensor",
                 cat("there is a ", kind));
  };
  std::vector<Shard> shards;
  if (!py::isinstance<py::iterable>(result)) throw wrong(result);
  for (const auto& list : py::reinterpret_borrow<py::iterable>(result)) {
    if (!py::isinstance<py::iterable>(list)) throw wrong(list);
    auto& shard = shards.emplace_back();
    for (const auto& one : py::reinterpret_borrow<py::iterable>(list)) {
      if (!py::isinstance<ShardableTensor>(one)) throw wrong(one);
      add_to(shard, py::cast<ShardableTensor>(one));
    }
  }
  return shards;
}

std::shared_ptr<const ShardingCallback> policy_of(const py::object& value) {
  if (py::isinstance<ShardingCallback>(value)) return py::cast<Policy>(value);
  const std::string name = py::str(py::getattr(value, "__name__", py::type::of(value)));
  return sharding_policy(name,
                         [function = Callable(value)](const std::vector<ShardableTensor>& tensors) {
                           const py::gil_scoped_acquire lock;  // the list is Python's, too
                           return function.call(shards_of, py::cast(tensors));
                         });
}

[[noreturn]] void refuse(const std::string& name) {
  throw Error(Code::invalid_argument, cat("'", name, "' is no option that is a function"), "",
              "Functions may be: hooks.before_save, store.policy, async.on_change.");
}

const auto ignore = [](const py::object&) {};

thread_local std::optional<py::error_already_set> kept_interrupt;

}  // namespace

void keep_interrupt(const py::error_already_set& interrupt) {
  if (!kept_interrupt) kept_interrupt.emplace(interrupt);
}

void raise_interrupt() {
  if (!kept_interrupt) return;
  const auto interrupt = *std::exchange(kept_interrupt, std::nullopt);
  throw py::error_already_set(interrupt);
}

void set_code(ManagerOptions& options, const Functions& code) {
  for (const auto& [name, value] : code) {
    if (name == "hooks.before_save") {
      py::list all;
      if (py::isinstance<py::function>(value) || !py::isinstance<py::iterable>(value)) {
        all.append(value);
      } else {
        all = py::list(value);
      }
      for (const auto& one : all) {
        options.hooks.before_save.emplace_back(
            [function = Callable(py::reinterpret_borrow<py::object>(one))](std::int64_t step) {
              function.call(ignore, step);
            });
      }
    } else if (name == "store.policy") {
      options.store.policy = policy_of(value);
    } else if (name == "async.on_change") {
      options.async.on_change = [function = Callable(value)](const SaveHandle& handle) {
        function.call(ignore, handle);
      };
    } else {
      refuse(name);
    }
  }
}

void set_code(SaveOptions& options, const Functions& code) {
  for (const auto& [name, value] : code) {
    if (name != "policy") refuse(name);
    options.policy = policy_of(value);
  }
}

void add_code(py::module_& module) {
  py::class_<ShardableTensor>(module, "ShardableTensor",
                              "A slice of a tensor, as a sharding policy sees it.")
      .def_readonly("name", &ShardableTensor::name)
      .def_readonly("key", &ShardableTensor::key)
      .def_property_readonly(
          "dtype", [](const ShardableTensor& self) { return std::string(dtype_name(self.dtype)); })
      .def_property_readonly("shape",
                             [](const ShardableTensor& self) { return tuple_of(self.shape); })
      .def_property_readonly("start",
                             [](const ShardableTensor& self) { return tuple_of(self.slice.start); })
      .def_property_readonly(
          "extent", [](const ShardableTensor& self) { return tuple_of(self.slice.extent); })
      .def_readonly("bytes", &ShardableTensor::bytes)
      .def(
          "piece",
          [](const ShardableTensor& self, const py::object& start, const py::object& extent) {
            return piece_of(self, Box{dims_of(start), dims_of(extent)});
          },
          py::arg("start"), py::arg("extent"), "The same tensor with this part of its slice only.")
      .def("__repr__", [](const ShardableTensor& self) {
        std::ostringstream text;
        text << "<cairn.ShardableTensor " << self << '>';
        return text.str();
      });
  py::class_<ShardingCallback, Policy>(module, "ShardingPolicy");
  py::class_<MaxShardSizePolicy, ShardingCallback, std::shared_ptr<MaxShardSizePolicy>>(
      module, "MaxShardSizePolicy", "Shards of at most so many bytes, each a data file.")
      .def(py::init<std::int64_t>(), py::arg("max_bytes"));
}

}  // namespace cairn::python
