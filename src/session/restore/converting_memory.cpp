#include "session/restore/converting_memory.hpp"

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "exchange/exchange.hpp"
#include "model/convert.hpp"
#include "model/runs.hpp"

namespace cairn {
namespace {

// The size of a piece, in bytes of the application's dtype: it stays in the processor's caches.
constexpr std::int64_t converted_bytes = std::int64_t{1} << 16;

class ConvertingMemory : public SliceMemory {
 public:
  ConvertingMemory(std::string key, DType from, DType to, Conversion how, Dims origin,
                   std::shared_ptr<SliceMemory> memory)
      : key_(std::move(key)),
        from_(from),
        to_(to),
        how_(how),
        origin_(std::move(origin)),
        memory_(std::move(memory)) {}

  void read(const Box&, std::byte*) const override {
    throw Error(Code::internal, "a slice that converts is for restoring only");
  }

  // Pieces before one that does not fit have been written by then: the caller fails the restore.
  void write(const Box& part, const std::byte* in) override {
    const auto in_bytes = static_cast<std::int64_t>(dtype_size(from_));
    const auto out_bytes = static_cast<std::int64_t>(dtype_size(to_));
    std::vector<std::byte> converted;
    for (const auto& chunk : plan::cut_into_chunks(part, out_bytes, converted_bytes)) {
      const auto count = chunk.box.count();
      const auto* from = in + chunk.offset / out_bytes * in_bytes;
      converted.resize(static_cast<std::size_t>(chunk.bytes));
      const auto done = convert(from_, from, to_, converted.data(), count, how_);
      if (done < count) refuse(chunk.box, done, from + done * in_bytes);
      memory_->write(chunk.box, converted.data());
    }
  }

  bool writable() const override { return memory_->writable(); }
  Footprint footprint() const override { return memory_->footprint(); }

 private:
  [[noreturn]] void refuse(const Box& box, std::int64_t index, const std::byte* element) const {
    auto at = index_at(index, box.extent);
    for (std::size_t d = 0; d < at.size(); ++d) at[d] += origin_[d] + box.start[d];
    std::vector<std::byte> rounded(dtype_size(to_));
    // For the way out of the error: whether rounding would have found a number.
    const bool may_round = how_ == Conversion::exact &&
                           convert(from_, element, to_, rounded.data(), 1, Conversion::round) == 1;
    throw Error(
        Code::invalid_argument,
        cat("tensor '", key_, "': the stored ", dtype_name(from_), " ", value_text(from_, element),
            at.empty() ? "" : cat(" at ", shape_text(at)), " has no place in ", dtype_name(to_)),
        how_ == Conversion::exact ? "only what is the same number there is converted"
                                  : "only floating-point values are rounded",
        cat("Restore into a dtype that holds it",
            may_round ? ", or take the nearest number there is: Conversion::round." : "."))
        .of_tensor(key_);
  }

  std::string key_;
  DType from_, to_;
  Conversion how_;
  Dims origin_;
  std::shared_ptr<SliceMemory> memory_;
};

}  // namespace

std::shared_ptr<SliceMemory> converting_memory(std::string key, DType from, DType to,
                                               Conversion how, Dims origin,
                                               std::shared_ptr<SliceMemory> memory) {
  return std::make_shared<ConvertingMemory>(std::move(key), from, to, how, std::move(origin),
                                            std::move(memory));
}

}  // namespace cairn
