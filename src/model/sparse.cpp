#include "model/sparse.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/convert.hpp"
#include "model/follow.hpp"

namespace cairn {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{1} << 20;  // of fill values, made at a time

// The memory of a gap: reads give the fill value, and nothing can be written.
class FillMemory : public SliceMemory, public std::enable_shared_from_this<FillMemory> {
 public:
  explicit FillMemory(std::string element) : element_(std::move(element)) {}
  void read(const Box& part, std::byte* out) const override { repeat(element_, part.count(), out); }
  void write(const Box&, const std::byte*) override {
    throw Error(Code::internal, "a gap was to be restored");
  }
  bool writable() const override { return false; }
  std::shared_ptr<const SliceMemory> for_any_thread() const override { return shared_from_this(); }

 private:
  std::string element_;
};

// A part of a slice's memory. All calls go to the memory of the whole slice, with the box moved.
class BoxMemory : public SliceMemory {
 public:
  BoxMemory(std::shared_ptr<SliceMemory> memory, Box part, const Dims& extent,
            std::size_t element_bytes)
      : memory_(std::move(memory)), part_(std::move(part)) {
    // The part is one run if all dimensions after the first one of several indices are whole.
    std::size_t d = 0;
    while (d < part_.rank() && part_.extent[d] == 1) ++d;
    one_run_ = true;
    for (++d; d < part_.rank(); ++d) one_run_ = one_run_ && part_.extent[d] == extent[d];
    const auto strides = row_major_strides(extent);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < part_.rank(); ++i) at += part_.start[i] * strides[i];
    offset_ = at * static_cast<std::int64_t>(element_bytes);
  }
  void read(const Box& part, std::byte* out) const override { memory_->read(inner(part), out); }
  void read_all(std::span<const Read> parts) const override {
    std::vector<Read> moved;
    for (const auto& one : parts) moved.push_back({inner(one.part), one.out});
    memory_->read_all(moved);
  }
  void write(const Box& part, const std::byte* in) override { memory_->write(inner(part), in); }
  const std::byte* contiguous() const override {
    const SliceMemory& memory = *memory_;
    const auto* first = one_run_ ? memory.contiguous() : nullptr;
    return first ? first + offset_ : nullptr;
  }
  std::byte* contiguous_writable() override {
    auto* first = one_run_ ? memory_->contiguous_writable() : nullptr;
    return first ? first + offset_ : nullptr;
  }
  bool writable() const override { return memory_->writable(); }
  std::shared_ptr<const SliceMemory> for_any_thread() const override {
    const auto whole = std::as_const(*memory_).for_any_thread();
    if (!whole) return nullptr;
    auto box = std::make_shared<BoxMemory>(*this);
    box->memory_ = std::const_pointer_cast<SliceMemory>(whole);
    return box;
  }
  Footprint footprint() const override {
    auto where = memory_->footprint();
    if (!where.first) return where;
    for (std::size_t d = 0; d < part_.rank(); ++d) where.first += part_.start[d] * where.strides[d];
    return where;
  }
  std::shared_ptr<StagingMemory> staging() const override { return memory_->staging(); }

 private:
  Box inner(const Box& part) const {
    auto box = part;
    for (std::size_t d = 0; d < box.rank(); ++d) box.start[d] += part_.start[d];
    return box;
  }
  std::shared_ptr<SliceMemory> memory_;
  Box part_;
  // Whether the part is one run if all of the slice's memory is; and where it then begins, in
  // bytes.
  bool one_run_ = false;
  std::int64_t offset_ = 0;
};

}  // namespace

// A value given in another dtype is rounded to the tensor's, if that can hold it.
std::string fill_element(const LocalTensor& tensor) {
  const auto& [dtype, given, gaps] = *tensor.sparse;
  if (dtype == tensor.dtype) return given;
  const bool converts = is_convertible(dtype) && is_convertible(tensor.dtype);
  const auto* bytes = reinterpret_cast<const std::byte*>(given.data());
  std::string element(dtype_size(tensor.dtype), '\0');
  if (converts && convert(dtype, bytes, tensor.dtype, reinterpret_cast<std::byte*>(element.data()),
                          1, Conversion::round) == 1) {
    return element;
  }
  throw Error(Code::invalid_argument,
              cat("the fill value", converts ? cat(" ", value_text(dtype, bytes)) : std::string(),
                  " of a sparse tensor is no ", dtype_name(tensor.dtype)),
              cat("it was given as ", dtype_name(dtype)), "Give a value of the tensor's dtype.");
}

LocalTensor sparse(LocalTensor tensor, DType fill_dtype, const void* fill, Gaps gaps) {
  if (tensor.refused) return tensor;
  return or_refused([&] {
    const bool is_rows = tensor.unresolved || tensor.resizes;
    if (is_rows || tensor.strings || tensor.dtype == DType::string) {
      throw Error(Code::invalid_argument, cat("sparse() was given ", is_rows ? "rows" : "strings"),
                  is_rows
                      ? "of ragged, rank-private, indexed and resizable tensors there is nothing "
                        "that is not held"
                      : "a string tensor is whole on each rank that has it",
                  is_rows ? "Ids with gaps have an ids_key (IdOptions)." : "");
    }
    const auto bytes = dtype_size(fill_dtype);
    if (bytes == 0) throw Error(Code::invalid_argument, "a fill value is one element, no string");
    std::string element(static_cast<const char*>(fill), bytes);
    tensor.sparse =
        std::make_shared<const SparseFill>(SparseFill{fill_dtype, std::move(element), gaps});
    fill_element(tensor);  // throws if the value does not fit
    return std::move(tensor);
  });
}

std::shared_ptr<SliceMemory> fill_memory(std::string element) {
  return std::make_shared<FillMemory>(std::move(element));
}

bool is_fill(const LocalSlice& slice) {
  return dynamic_cast<const FillMemory*>(slice.memory.get()) != nullptr;
}

void repeat(const std::string& element, std::int64_t count, std::byte* out) {
  const auto item = element.size(), all = item * static_cast<std::size_t>(count);
  if (all == 0) return;
  std::memcpy(out, element.data(), item);
  for (std::size_t done = item; done < all;) {  // what is written serves as the pattern
    const auto more = std::min(done, all - done);
    std::memcpy(out + done, out, more);
    done += more;
  }
}

void write_fill(SliceMemory& memory, const Box& part, const std::string& element) {
  if (part.empty()) return;
  const auto item = static_cast<std::int64_t>(element.size());
  if (part.count() * item > most_bytes) {
    std::size_t d = 0;
    // Halves the part until a half is small enough to be filled in memory.
    while (d < part.rank() && part.extent[d] == 1) ++d;
    if (d < part.rank()) {
      Box low = part, high = part;
      low.extent[d] = part.extent[d] / 2;
      high.start[d] = low.end(d);
      high.extent[d] = part.end(d) - low.end(d);
      write_fill(memory, low, element);
      return write_fill(memory, high, element);
    }
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(part.count() * item));
  repeat(element, part.count(), bytes.data());
  memory.write(part, bytes.data());
}

std::shared_ptr<SliceMemory> part_of(std::shared_ptr<SliceMemory> memory, Box part,
                                     const Dims& extent, std::size_t element_bytes) {
  return std::make_shared<BoxMemory>(std::move(memory), std::move(part), extent, element_bytes);
}

}  // namespace cairn
