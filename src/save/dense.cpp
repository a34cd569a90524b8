#include "save/dense.hpp"

#include <algorithm>

namespace cairn {
namespace {

constexpr std::int64_t dense_page_bytes = 4096;
// Below this a tensor is not aligned, and a run is not worth another file operation.
constexpr std::int64_t small_bytes = std::int64_t{64} << 10;
// Runs a rank: what a rank writes of another's is about one run.
constexpr std::int64_t runs_a_rank = 8;

}  // namespace

DensePlan plan_dense(std::vector<DenseTensor> tensors, int ranks, std::int64_t chunk_bytes,
                     const std::vector<int>& served_by) {
  DensePlan plan;
  plan.tensors = std::move(tensors);
  int file = -1;
  std::int64_t end = 0;  // of the last tensor, in its file
  const auto close = [&] {
    if (file >= 0) plan.file_bytes.push_back(end);
    plan.bytes += end;
    end = 0;
  };
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    const auto& tensor = plan.tensors[t];
    const auto number = static_cast<int>(t);
    const auto whole = Box::whole(tensor.shape);
    const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
    const auto bytes = whole.count() * item;
    if (tensor.file != file) {
      close();
      file = tensor.file;
    }
    if (bytes >= small_bytes) {
      end = (end + dense_page_bytes - 1) / dense_page_bytes * dense_page_bytes;
    }
    plan.begins.push_back(end);
    const auto run = std::min(chunk_bytes, std::max(small_bytes, bytes / ranks / runs_a_rank));
    for (auto& chunk : plan::cut_into_chunks(whole, item, run, dense_page_bytes)) {
      plan.runs.push_back({number, std::move(chunk.box), item, -1, file});
      plan.offsets.push_back(end + chunk.offset);
    }
    for (const auto& part : tensor.parts) {
      plan.slices.push_back({number, part.box, part.rank, part.slice});
    }
    end += bytes;
  }
  close();
  plan.exchange = plan::plan_exchange(plan.runs, plan.slices, ranks, chunk_bytes,
                                      plan::Packing::fill, served_by);
  plan.writers.resize(static_cast<std::size_t>(ranks));
  for (const auto& chunk : plan.exchange.chunks) {
    plan.writers[static_cast<std::size_t>(chunk.rank)] = true;
  }
  return plan;
}

const DenseTensor& DensePlan::tensor_of(const plan::Chunk& chunk) const {
  const auto& run = runs[static_cast<std::size_t>(chunk.source)];
  return tensors[static_cast<std::size_t>(run.tensor)];
}

void place_dense(DensePlan& plan, const std::vector<std::int64_t>& begins) {
  for (std::size_t r = 0; r < plan.runs.size(); ++r) {
    const auto tensor = static_cast<std::size_t>(plan.runs[r].tensor);
    plan.offsets[r] += begins.at(tensor) - plan.begins[tensor];
  }
  plan.begins = begins;
}

}  // namespace cairn
