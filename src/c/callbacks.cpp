#include "c/callbacks.hpp"

#include <utility>

#include "c/handles.hpp"

namespace cairn::c {
namespace {

class CRows final : public ProgramRows {
 public:
  CRows(const cairn_rows& calls, DType dtype, Dims shape, Footprint footprint)
      : calls_(calls), dtype_(dtype), shape_(std::move(shape)), footprint_(footprint) {}
  ~CRows() override {
    if (is_taken_ && calls_.release) calls_.release(calls_.context);
  }
  void taken() noexcept override { is_taken_ = true; }
  CRows(const CRows&) = delete;
  CRows& operator=(const CRows&) = delete;

  std::int64_t count() const override {
    before_callback();
    const auto rows = calls_.count(calls_.context);
    if (rows < 0) check_callback(CAIRN_APPLICATION, "count of rows");
    return rows;
  }
  bool resizable() const override { return calls_.resize; }
  void resize(std::int64_t rows) override {
    run_callback("resize of rows", [&] { return calls_.resize(calls_.context, rows); });
  }
  std::shared_ptr<SliceMemory> memory() const override {
    Dims extent = shape_;
    extent.insert(extent.begin(), count());
    before_callback();
    void* data = calls_.data(calls_.context);
    if (!data && element_count(extent) > 0) {
      check_callback(CAIRN_APPLICATION, "data of rows");
    }
    return host_memory(dtype_, data, calls_.resize ? data : nullptr, std::move(extent), {});
  }
  Footprint footprint() const override { return footprint_; }

 private:
  cairn_rows calls_;
  DType dtype_;
  Dims shape_;
  Footprint footprint_;
  bool is_taken_ = false;
};

}  // namespace

std::shared_ptr<ProgramRows> rows_of(const cairn_rows* rows, DType dtype, Dims row_shape,
                                     cairn_state* state) {
  const auto& calls = given(rows, "rows");
  if (!calls.count || !calls.data) {
    throw Error(Code::invalid_argument, "rows lack a function",
                "count and data are asked at each save and restore");
  }
  Footprint footprint;
  if (state) footprint = footprint_of(state->rows[{calls.context, calls.data}]);
  return std::make_shared<CRows>(calls, dtype, std::move(row_shape), std::move(footprint));
}

}  // namespace cairn::c
