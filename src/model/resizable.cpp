#include "cairn/resizable.hpp"

#include "cairn/error.hpp"
#include "model/follow.hpp"

namespace cairn {
namespace {

// All rows, as many as there are at each refresh. Rows are asked for their number and memory at
// each refresh, since the application may have resized them.
class AllRows : public TensorSource {
 public:
  explicit AllRows(std::shared_ptr<Rows> rows) : rows_(std::move(rows)) {}
  void refresh(LocalTensor& tensor) const override {
    tensor.shape[0] = rows_->count();
    tensor.slices = {{Box::whole(tensor.shape), rows_->memory()}};
  }
  void let_go(LocalTensor& tensor) const override { tensor.slices.clear(); }

 private:
  std::shared_ptr<Rows> rows_;
};

// Strings have no memory that slices lie in: they are set as a whole, which resizes them.
class StringRows : public Rows {
 public:
  explicit StringRows(std::vector<std::string>& values) : values_(values) {}
  std::int64_t count() const override { return static_cast<std::int64_t>(values_.size()); }
  bool resizable() const override { return true; }
  void resize(std::int64_t rows) override { values_.resize(static_cast<std::size_t>(rows)); }
  std::shared_ptr<SliceMemory> memory() const override { return nullptr; }
  Footprint footprint() const override { return footprint_of(values_); }

 private:
  std::vector<std::string>& values_;
};

}  // namespace

LocalTensor resizable(std::shared_ptr<Rows> rows, DType dtype, Dims row_shape) {
  return or_refused([&] {
    if (!rows) throw Error(Code::invalid_argument, "a resizable tensor has no rows");
    auto tensor = nothing(dtype, std::move(row_shape));
    tensor.shape.insert(tensor.shape.begin(), 0);
    tensor.source = std::make_shared<AllRows>(rows);
    tensor.source->refresh(tensor);
    tensor.resizes = std::move(rows);
    return tensor;
  });
}

LocalTensor resizable(std::vector<std::string>& values) {
  auto tensor = strings(values);
  tensor.resizes = std::make_shared<StringRows>(values);
  return tensor;
}

}  // namespace cairn
