// Memory of the host, strided or not, as a SliceMemory.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/state.hpp"

namespace cairn {
namespace {

// The loops over a part, which lies in memory and in row-major bytes. The fastest loop in these
// bytes comes first. Each loop has a count, and the bytes of a step on both sides.
struct Loops {
  Dims counts, in_memory, in_bytes;

  void add(std::int64_t count, std::int64_t memory, std::int64_t bytes) {
    if (!counts.empty() && memory == counts.back() * in_memory.back() &&
        bytes == counts.back() * in_bytes.back()) {
      counts.back() *= count;  // this loop goes on where the one before ends
      return;
    }
    counts.push_back(count), in_memory.push_back(memory), in_bytes.push_back(bytes);
  }
  void erase(std::size_t loop) {
    for (auto* dims : {&counts, &in_memory, &in_bytes}) {
      dims->erase(dims->begin() + static_cast<std::ptrdiff_t>(loop));
    }
  }
};

// Calls take(offset in memory, offset in row-major bytes) once for each turn of all loops.
template <class Take>
void each_turn(const Loops& loops, const Take& take) {
  std::int64_t memory = 0, bytes = 0;
  for (Dims at(loops.counts.size());;) {
    take(memory, bytes);
    std::size_t d = 0;
    for (; d < at.size(); ++d) {
      memory += loops.in_memory[d], bytes += loops.in_bytes[d];
      if (++at[d] < loops.counts[d]) break;
      memory -= at[d] * loops.in_memory[d], bytes -= at[d] * loops.in_bytes[d];
      at[d] = 0;
    }
    if (d == at.size()) return;
  }
}

// Copies elements of a size that the compiler knows. Item 0: it does not know the size.
template <std::size_t Item>
class Elements {
 public:
  explicit Elements(std::size_t item) : item_(item) {}

  // Copies two loops, each of which has the shortest step on one side. It copies a few lines of a
  // cache at a time, so that neither side fetches a line once for each of its elements.
  template <class Copy>
  void tile(const Loops& loops, std::size_t other, std::int64_t memory, std::int64_t bytes,
            const Copy& copy) const {
    constexpr std::int64_t side = 8;
    const auto count = loops.counts[0], others = loops.counts[other];
    for (std::int64_t o = 0; o < others; o += side) {
      const auto o_end = std::min(o + side, others);
      for (std::int64_t i = 0; i < count; i += side) {
        const auto i_end = std::min(i + side, count);
        for (auto x = i; x < i_end; ++x) {
          for (auto y = o; y < o_end; ++y) {
            copy(memory + x * loops.in_memory[0] + y * loops.in_memory[other],
                 bytes + x * loops.in_bytes[0] + y * loops.in_bytes[other], size());
          }
        }
      }
    }
  }
  template <class Copy>
  void line(const Loops& loops, std::int64_t memory, std::int64_t bytes, const Copy& copy) const {
    for (std::int64_t i = 0; i < loops.counts[0]; ++i) {
      copy(memory + i * loops.in_memory[0], bytes + i * loops.in_bytes[0], size());
    }
  }

 private:
  std::size_t size() const {
    if constexpr (Item > 0) return Item;
    return item_;
  }
  const std::size_t item_;
};

template <class Take>
void with_elements(std::size_t item, const Take& take) {
  switch (item) {
    case 1:
      return take(Elements<1>(item));
    case 2:
      return take(Elements<2>(item));
    case 4:
      return take(Elements<4>(item));
    case 8:
      return take(Elements<8>(item));
    case 16:
      return take(Elements<16>(item));
    default:
      return take(Elements<0>(item));
  }
}

// Copies a part between strided and row-major memory: whole runs at once where they lie together on
// both sides, element by element otherwise.
class HostMemory : public SliceMemory, public std::enable_shared_from_this<HostMemory> {
 public:
  HostMemory(DType dtype, const void* data, void* writable, Dims extent, Dims strides)
      : item_(static_cast<std::int64_t>(dtype_size(dtype))),
        data_(static_cast<const std::byte*>(data)),
        writable_(static_cast<std::byte*>(writable)),
        strides_(std::move(strides)) {
    if (strides_.empty()) strides_ = row_major_strides(extent);
    for (std::size_t d = 0; d < extent.size(); ++d) {
      if (extent[d] <= 1) strides_[d] = 0;  // it is never used, and may be any number
    }
    empty_ = element_count(extent) == 0;
    contiguous_ = empty_ || is_row_major(extent);
  }

  void read(const Box& part, std::byte* out) const override {
    if (part.empty()) return;
    const auto* memory = data_ + offset_of(part);
    copy_all(part, [&](std::int64_t at, std::int64_t byte, std::size_t size) {
      std::memcpy(out + byte, memory + at, size);
    });
  }

  void write(const Box& part, const std::byte* in) override {
    if (!writable_) {
      throw Error(Code::invalid_argument, "the memory of a slice is const",
                  "it was given for saving only", "Restore into memory that may be written.");
    }
    if (part.empty()) return;
    auto* const memory = writable_ + offset_of(part);
    copy_all(part, [&](std::int64_t at, std::int64_t byte, std::size_t size) {
      std::memcpy(memory + at, in + byte, size);
    });
  }

  const std::byte* contiguous() const override { return contiguous_ ? data_ : nullptr; }
  std::byte* contiguous_writable() override { return contiguous_ ? writable_ : nullptr; }
  std::shared_ptr<const SliceMemory> for_any_thread() const override { return shared_from_this(); }
  Footprint footprint() const override {
    Footprint where{data_, strides_, item_};
    for (auto& stride : where.strides) stride *= item_;
    return where;
  }
  // An empty slice of an empty array has no address, and nothing to write.
  bool writable() const override { return writable_ || empty_; }

 private:
  // Strides of dimensions with one index do not matter.
  bool is_row_major(const Dims& extent) const {
    std::int64_t expected = 1;
    for (auto d = extent.size(); d-- > 0;) {
      if (extent[d] != 1 && strides_[d] != expected) return false;
      expected *= extent[d];
    }
    return true;
  }

  std::int64_t offset_of(const Box& part) const {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < part.rank(); ++d) offset += part.start[d] * strides_[d];
    return offset * item_;
  }

  // Calls copy(offset in memory, offset in row-major bytes, bytes).
  template <class Copy>
  void copy_all(const Box& part, const Copy& copy) const {
    Loops loops;
    auto bytes = item_;
    // Dimensions of one index make no loop, and neighbouring loops that continue each other become
    // one.
    for (auto d = part.rank(); d-- > 0;) {
      if (part.extent[d] > 1) loops.add(part.extent[d], strides_[d] * item_, bytes);
      bytes *= part.extent[d];
    }
    if (loops.counts.empty()) return copy(0, 0, static_cast<std::size_t>(item_));
    // The innermost loop is a run on both sides.
    if (loops.in_memory[0] == item_ && loops.in_bytes[0] == item_) {
      const auto run = static_cast<std::size_t>(loops.counts[0] * item_);
      loops.erase(0);
      return each_turn(loops, [&](auto at, auto byte) { copy(at, byte, run); });
    }
    // In the loop that is fastest in the bytes, elements lie apart in memory. The loop with the
    // shortest step in memory goes with it, in tiles.
    std::size_t other = 0;
    for (std::size_t d = 1; d < loops.counts.size(); ++d) {
      if (std::abs(loops.in_memory[d]) < std::abs(loops.in_memory[other])) other = d;
    }
    auto outer = loops;
    if (other > 0) outer.erase(other);
    outer.erase(0);
    with_elements(static_cast<std::size_t>(item_), [&](const auto& elements) {
      each_turn(outer, [&](auto at, auto byte) {
        if (other > 0) return elements.tile(loops, other, at, byte, copy);
        elements.line(loops, at, byte, copy);
      });
    });
  }

  std::int64_t item_;
  const std::byte* data_;
  std::byte* writable_;
  Dims strides_;
  bool contiguous_ = false, empty_ = false;
};

// Whether all elements lie within a distance that can be counted in bytes. No memory reaches as far
// as 2^60 bytes, and two such distances add up without overflow.
bool is_in_reach(const Dims& extent, const Dims& strides, std::int64_t item) {
  constexpr auto most = std::int64_t{1} << 60;
  std::int64_t first = 0, last = 0;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    if (extent[d] <= 1) continue;
    std::int64_t way = 0;
    auto& end = strides[d] < 0 ? first : last;
    if (__builtin_mul_overflow(extent[d] - 1, strides[d], &way) ||
        __builtin_mul_overflow(way, item, &way) || __builtin_add_overflow(end, way, &end)) {
      return false;
    }
  }
  return -most < first && last < most;
}

}  // namespace

std::shared_ptr<SliceMemory> host_memory(DType dtype, const void* data, void* writable, Dims extent,
                                         Dims strides) {
  if (dtype_size(dtype) == 0) {
    throw Error(Code::invalid_argument,
                cat("dtype ", dtype_name(dtype), " has no elements of fixed size"), "",
                "Strings are given with cairn::strings.");
  }
  if (!strides.empty() && strides.size() != extent.size()) {
    throw Error(Code::invalid_argument,
                cat("a slice of extent ", shape_text(extent), " has ", strides.size(), " strides"));
  }
  if (!data && element_count(extent) != 0) {
    throw Error(Code::invalid_argument,
                cat("a slice of extent ", shape_text(extent), " has a null pointer"));
  }
  if (element_count(extent) != 0 &&
      !is_in_reach(extent, strides, static_cast<std::int64_t>(dtype_size(dtype)))) {
    throw Error(
        Code::invalid_argument,
        cat("a slice of extent ", shape_text(extent), " has the strides ", shape_text(strides)),
        "its elements would lie further apart than memory reaches");
  }
  return std::make_shared<HostMemory>(dtype, data, writable, std::move(extent), std::move(strides));
}

}  // namespace cairn
