#include "model/copy_part.hpp"

#include <cstring>

#include "base/copy.hpp"

namespace cairn {
namespace {

// Shorter runs are copied by memcpy: their ends do not fill whole lines of a cache.
constexpr std::size_t far_run_bytes = 1024;

}  // namespace

void copy_run(std::byte* to, const std::byte* from, std::size_t bytes, bool far) {
  if (far && bytes >= far_run_bytes) return copy_past_caches_unordered(to, from, bytes);
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void copy_part(const Box& part, std::size_t element_bytes, std::byte* to, const Box& to_box,
               const std::byte* from, const Box& from_box, bool far) {
  if (part.empty()) return;
  const auto bytes_of = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * element_bytes;
  };
  // Elements that are copied at once, and the offsets of the next of them in both arrays.
  std::int64_t run = 1, put = 0, get = 0;
  auto outer = part.rank();  // dimensions along which runs lie apart
  // A run goes on into the next dimension as long as the part is whole, in both arrays, in the
  // dimensions after it.
  for (bool one_run = true; outer > 0 && one_run; --outer) {
    const auto d = outer - 1;
    run *= part.extent[d];
    one_run = part.extent[d] == to_box.extent[d] && part.extent[d] == from_box.extent[d];
  }
  const auto put_by = row_major_strides(to_box.extent), get_by = row_major_strides(from_box.extent);
  for (std::size_t d = 0; d < part.rank(); ++d) {
    put += (part.start[d] - to_box.start[d]) * put_by[d];
    get += (part.start[d] - from_box.start[d]) * get_by[d];
  }
  // Goes through the indices of the outer dimensions as an odometer does.
  for (Dims at(outer);;) {
    copy_run(to + bytes_of(put), from + bytes_of(get), bytes_of(run), far);
    auto d = outer;
    for (; d > 0; --d) {
      put += put_by[d - 1], get += get_by[d - 1];
      if (++at[d - 1] < part.extent[d - 1]) break;
      put -= at[d - 1] * put_by[d - 1], get -= at[d - 1] * get_by[d - 1];
      at[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

}  // namespace cairn
