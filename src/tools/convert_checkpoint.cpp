#include "tools/convert_checkpoint.hpp"

#include <cstring>
#include <list>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/sparse.hpp"
#include "exchange/gaps.hpp"
#include "group/collectives.hpp"
#include "model/sparse.hpp"
#include "store/contents/format.hpp"
#include "store/contents/no_more_open.hpp"
#include "tools/checked_slices.hpp"
#include "tools/store_state.hpp"

namespace cairn {
namespace {

class StoredMemory : public SliceMemory {
 public:
  StoredMemory(CheckedSlices& slices, const StoredTensor& tensor, const Piece& slice)
      : slices_(slices), tensor_(tensor), slice_(slice) {}

  void read(const Box& part, std::byte* out) const override {
    slices_.read(tensor_, slice_, part, out);
  }
  void write(const Box&, const std::byte*) override {
    throw Error(Code::internal, "a stored slice is for reading only");
  }
  bool writable() const override { return false; }

 private:
  CheckedSlices& slices_;
  const StoredTensor& tensor_;
  const Piece& slice_;
};

// A tensor whose slices are only how the file stores it.
class StoredWhole : public SliceMemory {
 public:
  StoredWhole(CheckedSlices& slices, const StoredTensor& tensor)
      : slices_(slices), tensor_(tensor) {}

  void read(const Box& part, std::byte* out) const override {
    const auto bytes = slices_.read_box(tensor_, part);
    std::memcpy(out, bytes.data(), bytes.size());
  }
  void write(const Box&, const std::byte*) override {
    throw Error(Code::internal, "a stored tensor is for reading only");
  }
  bool writable() const override { return false; }

 private:
  CheckedSlices& slices_;
  const StoredTensor& tensor_;
};

void require_readable(const CheckpointContents& source, const StoredTensor& tensor) {
  if (tensor.dtype == DType::variant) {
    throw Error(Code::unsupported, cat("tensor '", tensor.key, "' is a variant"),
                "variants are objects of TensorFlow's own, which are listed but never decoded")
        .of_tensor(tensor.key);
  }
  if (!tensor.problem.empty()) {
    throw Error(Code::data_loss, cat("tensor '", tensor.key, "' cannot be read"), tensor.problem,
                "cairn verify names everything that is damaged.")
        .at(source.prefix)
        .of_tensor(tensor.key);
  }
  require_stored(tensor, {Box::whole(tensor.shape)});
  for (const auto& slice : tensor.slices) decoder_of(source, tensor, slice);
}

// Makes a tensor sparse again. If it was stored as one array, it gets only the parts that some rank
// held.
LocalTensor with_gaps(LocalTensor tensor, const StoredGaps& gaps, bool sliced) {
  if (!sliced) {
    const auto whole = std::move(tensor.slices.at(0));
    tensor.slices.clear();
    for (auto& box : find_gaps(whole.box, gaps.boxes)) {
      auto part = part_of(whole.memory, box, tensor.shape, dtype_size(tensor.dtype));
      tensor.slices.push_back({std::move(box), std::move(part)});
    }
  }
  const auto dtype = tensor.dtype;
  return sparse(std::move(tensor), dtype, gaps.fill.data());
}

}  // namespace

const std::shared_ptr<Group>& ConvertOptions::group() const {
  static const auto alone = serial_group();
  return ranks ? ranks : alone;
}

std::string convert_checkpoint(const OpenCheckpoint& source, const Address& destination,
                               const ConvertOptions& options, const Progress& progress) {
  CheckedSlices slices(source, progress);
  std::list<std::vector<std::string>> strings;
  State state;
  for (const auto& tensor : source->tensors) {
    require_readable(*source, tensor);
    LocalTensor local{tensor.dtype, tensor.shape, {}, nullptr};
    if (tensor.dtype == DType::string) {
      strings.push_back(source.read_strings(tensor));
      local = cairn::strings(strings.back());
      local.shape = tensor.shape;
    } else if (tensor.sliced && !format_of(source->format).has_data_files()) {
      local.slices.push_back(
          {Box::whole(tensor.shape), std::make_shared<StoredWhole>(slices, tensor), {}});
    } else {
      for (const auto& slice : tensor.slices) {
        local.slices.push_back(
            {slice.box, std::make_shared<StoredMemory>(slices, tensor, slice), slice.dash});
      }
      if (tensor.sliced) local.storage = Storage::sliced;
      if (tensor.gaps) local = with_gaps(std::move(local), *tensor.gaps, tensor.sliced);
    }
    state.add(tensor.key, std::move(local));
  }
  if (source->meta) {
    state.describe(source->meta->descriptions.attributes);
    for (const auto& [key, said] : source->meta->descriptions.by_key) state.describe(key, said);
  }
  const auto access = run_and_agree(*options.group(), [&] { return source.access(); });
  return store_state(state, source->meta.value_or(CheckpointMeta{}),
                     no_more_open(destination, access), options);
}

}  // namespace cairn
