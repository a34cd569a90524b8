// Single bundles, for one process: a registered saver writes them, and several can be merged.
#include "cairn/bundle.hpp"

#include <unistd.h>

#include <mutex>

#include "bindings.hpp"
#include "cairn/error.hpp"
#include "cairn/slice_memory.hpp"

namespace cairn::python {
namespace {

// Any thread may use it, one at a time.
class Writer {
 public:
  explicit Writer(const std::string& prefix) : writer_(std::in_place, prefix) {}
  ~Writer() {
    // A forked child must not remove what its parent writes.
    if (getpid() != process_) (void)new std::optional<BundleWriter>(std::move(writer_));
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void add(const std::string& key, const py::object& value, const py::object& shape,
           const py::object& start) {
    const auto memory = memory_of(value, key);
    const auto whole = shape.is_none() ? memory.extent : dims_of(shape);
    const Box box{shape.is_none() ? Dims(whole.size(), 0) : dims_of(start), memory.extent};
    with([&](BundleWriter& writer) {
      const auto elements =
          host_memory(memory.dtype, memory.data, nullptr, memory.extent, memory.strides);
      std::string copy;
      const auto* bytes = elements->contiguous();
      // If the tensor is larger than the address space, the writer throws before it reads.
      const auto size = static_cast<std::int64_t>(dtype_size(memory.dtype));
      if (!bytes && element_count(memory.extent) <= PTRDIFF_MAX / size) {
        copy.resize(static_cast<std::size_t>(element_count(memory.extent) * size));
        elements->read(Box::whole(memory.extent), reinterpret_cast<std::byte*>(copy.data()));
        bytes = reinterpret_cast<const std::byte*>(copy.data());
      }
      writer.add_slice(key, memory.dtype, whole, box, bytes);
    });
  }
  void add_strings(const std::string& key, const std::vector<std::string>& values, bool scalar) {
    const auto shape = scalar ? Dims{} : Dims{static_cast<std::int64_t>(values.size())};
    with([&](BundleWriter& writer) { writer.add_strings(key, shape, values); });
  }
  void finish() {
    with([](BundleWriter& writer) { writer.finish(); });
  }
  /// Removes what was written, unless the bundle is finished.
  void discard() {
    if (getpid() != process_) return;
    const py::gil_scoped_release free;
    const std::lock_guard lock(one_at_a_time_);
    writer_.reset();
  }

 private:
  template <class F>
  void with(const F& function) {
    if (getpid() != process_) {
      throw Error(Code::invalid_argument, "a bundle is written by the process that began it",
                  "this is a forked child of it", "Write another bundle.");
    }
    const py::gil_scoped_release free;
    const std::lock_guard lock(one_at_a_time_);
    if (!writer_) {
      throw Error(Code::invalid_argument, "the bundle was given up", "", "Begin another one.");
    }
    function(*writer_);
  }

  const pid_t process_ = getpid();
  std::mutex one_at_a_time_;
  std::optional<BundleWriter> writer_;
};

}  // namespace

void add_bundle(py::module_& module) {
  py::class_<Writer>(module, "BundleWriter")
      .def(py::init<std::string>())
      .def("add", &Writer::add)
      .def("add_strings", &Writer::add_strings)
      .def("finish", &Writer::finish)
      .def("discard", &Writer::discard);
  module.def("merge", [](const std::vector<std::string>& prefixes, const std::string& destination,
                         bool remove_inputs, bool allow_missing, bool overwrite) {
    const py::gil_scoped_release free;
    merge_checkpoints(
        {prefixes.begin(), prefixes.end()}, destination,
        {.remove_inputs = remove_inputs, .allow_missing = allow_missing, .overwrite = overwrite});
  });
}

}  // namespace cairn::python
