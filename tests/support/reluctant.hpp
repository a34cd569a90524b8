#pragma once
#include <memory>
#include <utility>

#include "cairn/error.hpp"
#include "cairn/state.hpp"

namespace cairn::test {

/// Memory of doubles that is read piece by piece and may refuse to give the third.
class Reluctant : public SliceMemory {
 public:
  Reluctant(double* data, Dims extent)
      : memory_(host_memory(DType::float64, data, data, std::move(extent), {})) {}
  void read(const Box& part, std::byte* out) const override {
    if (refuses && ++reads == 3) throw Error(Code::io, "the device is gone");
    memory_->read(part, out);
  }
  void write(const Box& part, const std::byte* in) override { memory_->write(part, in); }
  bool writable() const override { return true; }

  bool refuses = false;
  mutable int reads = 0;

 private:
  std::shared_ptr<SliceMemory> memory_;
};

}  // namespace cairn::test
