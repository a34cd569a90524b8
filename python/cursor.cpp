// The position of a job in its data.
#include "cairn/cursor.hpp"

#include <iterator>
#include <span>
#include <utility>

#include "bindings.hpp"

namespace cairn::python {
namespace {

py::tuple take(Cursor& self, std::int64_t samples) {
  const auto batch = self.take(samples);
  const auto bytes = std::as_bytes(std::span(batch.samples));
  std::string copy(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto array = array_of(DType::int64, {std::ssize(batch.samples)}, std::move(copy));
  return py::make_tuple(std::move(array), batch.epoch, batch.first);
}

// Marks a batch as done by its place; the samples themselves are not compared.
void done_at(Cursor& self, std::int64_t count, std::int64_t epoch, std::int64_t first) {
  self.done(
      Cursor::Batch{std::vector<std::int64_t>(static_cast<std::size_t>(count)), epoch, first});
}

}  // namespace

void add_cursor(py::module_& module) {
  py::class_<Cursor>(module, "Cursor")
      .def(
          py::init([](std::int64_t samples, std::uint64_t seed, bool shuffle, int rank, int ranks) {
            return Cursor(samples, {seed, shuffle, rank, ranks});
          }))
      .def("take", &take)
      .def("done", py::overload_cast<std::int64_t>(&Cursor::done))
      .def("done_at", &done_at)
      .def("rewind", &Cursor::rewind)
      .def("next_epoch", &Cursor::next_epoch)
      .def("batches", &Cursor::batches)
      .def_property_readonly("epoch", &Cursor::epoch)
      .def_property_readonly("left", &Cursor::left)
      .def_property_readonly("share", &Cursor::share)
      .def_property_readonly("waiting", &Cursor::waiting)
      .def_property_readonly("samples", &Cursor::samples)
      .def_property_readonly("seed", &Cursor::seed)
      .def_property_readonly("shuffle", &Cursor::shuffle)
      .def_property_readonly("rank", &Cursor::rank)
      .def_property_readonly("ranks", &Cursor::ranks);
}

}  // namespace cairn::python
