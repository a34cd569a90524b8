#include "code.hpp"

#include <locale>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cairn/async.hpp"
#include "cairn/error.hpp"
#include "cairn/sharding.hpp"
#include "stored.hpp"

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
                           const py::gil_scoped_acquire lock;  // the list is a Python object, too
                           return function.call(shards_of, py::cast(tensors));
                         });
}

// The description of a tensor that device_of gets.
py::object seen(const LocalTensor& tensor) {
  py::list parts;
  for (const auto& one : tensor.slices) {
    parts.append(py::make_tuple(tuple_of(one.box.start), tuple_of(one.box.extent)));
  }
  return py::module_::import("types").attr("SimpleNamespace")(
      py::arg("dtype") = std::string(dtype_name(tensor.dtype)),
      py::arg("shape") = tuple_of(tensor.shape), py::arg("parts") = parts,
      py::arg("device_type") = tensor.device_type, py::arg("device_index") = tensor.device_index);
}
DeviceTask device_in(const py::object& result) {
  return parse_device_task(py::cast<std::string>(py::str(result)));
}

std::vector<std::string> prefixes_in(const py::object& result) {
  std::vector<std::string> all;
  if (result.is_none()) return all;
  if (py::isinstance<py::str>(result) || !py::isinstance<py::iterable>(result)) {
    const std::string kind = py::str(py::type::of(result).attr("__name__"));
    throw Error(Code::application, "a saver returns a list of prefixes, or None",
                cat("there is a ", kind));
  }
  const auto fsdecode = py::module_::import("os").attr("fsdecode");
  for (const auto& one : result) all.push_back(py::cast<std::string>(fsdecode(one)));
  return all;
}
RegisteredSaver saver_of(const py::handle& one) {
  if (!py::hasattr(one, "name") || !py::hasattr(one, "save") || !py::hasattr(one, "restore")) {
    throw Error(Code::invalid_argument, "hooks.savers has something that is no cairn.Saver");
  }
  RegisteredSaver saver;
  saver.name = py::cast<std::string>(py::str(one.attr("name")));
  saver.save = [function = Callable(one.attr("save"))](const std::string& prefix) {
    return function.call(prefixes_in, prefix);
  };
  saver.restore = [function = Callable(one.attr("restore"))](const std::string& prefix) {
    function.call([](const py::object&) {}, prefix);
  };
  return saver;
}

Migrate migrate_of(const py::object& value) {
  if (!PyCallable_Check(value.ptr())) {
    throw Error(Code::invalid_argument, "hooks.migrate cannot be used", "it is no function",
                "Give one function, which looks at the version.");
  }
  return [function = Callable(value)](const Application& from, Migration& how) {
    auto* maker = dynamic_cast<PythonMaker*>(how.state.maker().get());
    if (maker) maker->migrate(function, from, how.options);
  };
}

[[noreturn]] void refuse(const std::string& name) {
  throw Error(Code::invalid_argument, cat("'", name, "' is no option that is a function"), "",
              "Functions may be: hooks.before_save, hooks.savers, hooks.migrate, store.policy, "
              "store.device_of, when.clock, async.on_change.");
}

}  // namespace

thread_local Call* Call::innermost_ = nullptr;

void Call::keep(const py::error_already_set& failure, const Error& error) {
  if (innermost_) innermost_->kept_.push_back({failure, error.problem()});
}

void Call::raise_interrupt() const {
  for (const auto& one : kept_) {
    if (!one.failure.matches(PyExc_Exception)) throw py::error_already_set(one.failure);
  }
}

void Call::raise(const Error& error) const {
  raise_interrupt();
  const std::string_view text = error.what();
  for (const auto& one : kept_) {
    if (text.find(one.problem) != text.npos) raise_from(error, one.failure);
  }
  throw Error(error);
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
    } else if (name == "hooks.savers") {
      for (const auto& one : py::list(value)) options.hooks.savers.push_back(saver_of(one));
    } else if (name == "hooks.migrate") {
      options.hooks.migrate = migrate_of(value);
    } else if (name == "store.device_of") {
      options.store.device_of = [function = Callable(value)](int rank, const LocalTensor& tensor) {
        const py::gil_scoped_acquire lock;  // the arguments are Python objects, too
        return function.call(device_in, rank, seen(tensor));
      };
    } else if (name == "when.clock") {
      options.when.clock = [function = Callable(value)] {
        return function.call([](const py::object& now) { return py::cast<double>(now); });
      };
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
      .def_property_readonly("device",
                             [](const ShardableTensor& self) { return to_string(self.task); })
      .def(
          "piece",
          [](const ShardableTensor& self, const py::object& start, const py::object& extent) {
            return piece_of(self, Box{dims_of(start), dims_of(extent)});
          },
          py::arg("start"), py::arg("extent"), "The same tensor with this part of its slice only.")
      .def("__repr__", [](const ShardableTensor& self) {
        std::ostringstream text;
        text.imbue(std::locale::classic());
        text << "<cairn.ShardableTensor " << self << '>';
        return text.str();
      });
  py::class_<ShardingCallback, Policy>(module, "ShardingPolicy");
  py::class_<MaxShardSizePolicy, ShardingCallback, std::shared_ptr<MaxShardSizePolicy>>(
      module, "MaxShardSizePolicy", "Shards of at most so many bytes, each a data file.")
      .def(py::init<std::int64_t>(), py::arg("max_bytes"));
  py::class_<PerDevicePolicy, ShardingCallback, std::shared_ptr<PerDevicePolicy>>(
      module, "PerDevicePolicy",
      "Another policy (none: one data file), called for each device of a rank by itself.")
      .def(py::init([](const py::object& policy) {
             return std::make_shared<PerDevicePolicy>(policy.is_none() ? nullptr
                                                                       : policy_of(policy));
           }),
           py::arg("policy") = py::none());
}

}  // namespace cairn::python
