#include "store/contents/seal.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "base/let_go.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "exchange/coverage.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "model/runs.hpp"
#include "store/contents/contents_reader.hpp"

namespace cairn {
namespace {

// Joins the runs that several ranks wrote into one plain entry. They cover the tensor and ascend by
// box. If each is one run of the row-major array, their offsets ascend, too.
void join_runs(StoredTensor& tensor) {
  Piece joined = tensor.slices.front();
  const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
  std::int64_t end = 0;
  std::uint32_t crc = 0;
  for (const auto& run : tensor.slices) {
    if (run.codec != Codec::none) {  // not a part record that Cairn wrote
      throw Error(Code::data_loss, cat("tensor '", tensor.key, "': ", box_text(run.box),
                                       " is a run of one array, and encoded"))
          .of_tensor(tensor.key);
    }
    const auto at = run_at(run.box, tensor.shape);
    if (item == 0 || !at || *at != end / item || run.offset != joined.offset + end ||
        run.file != joined.file) {
      throw Error(Code::internal, cat("entries of tensor '", tensor.key,
                                      "' are no runs of one array: ", box_text(run.box)))
          .of_tensor(tensor.key);
    }
    crc = crc32c_combine(crc, run.crc32c, static_cast<std::uint64_t>(run.stored_bytes));
    end += run.stored_bytes;
  }
  joined.box = Box::whole(tensor.shape);
  joined.stored_bytes = joined.raw_bytes = end;
  joined.crc32c = crc;
  tensor.slices = {std::move(joined)};
}

// Proves that the slices, which are in ascending order, cover the tensor without overlap.
void prove(const StoredTensor& tensor, const GapsByKey& gaps) {
  if (tensor.slices.empty()) {
    throw Error(Code::internal, cat("no entry of tensor '", tensor.key, "' has a slice"))
        .of_tensor(tensor.key);
  }
  if (are_in_line(
          tensor.shape, tensor.slices, [](auto& slice) -> auto& { return slice.box; })) {
    return;
  }
  std::vector<Box> boxes;
  for (const auto& slice : tensor.slices) boxes.push_back(slice.box);
  const auto lacks = gaps.find(tensor.key);
  if (tensor.sliced && lacks != gaps.end()) {
    boxes.insert(boxes.end(), lacks->second->boxes.begin(), lacks->second->boxes.end());
  }
  if (const auto twice = find_overlap(boxes)) {
    throw Error(Code::internal,
                cat("entries of tensor '", tensor.key, "' overlap: ", box_text(boxes[twice->first]),
                    " and ", box_text(boxes[twice->second])))
        .of_tensor(tensor.key);
  }
  if (const auto gap = find_gap(Box::whole(tensor.shape), boxes)) {
    throw Error(Code::internal,
                cat("entries of tensor '", tensor.key, "' leave out ", box_text(*gap)))
        .of_tensor(tensor.key);
  }
}

// Entries in ascending order of keys; those with the same key keep their order. Each rank
// contributes one or a few ascending runs, so the runs are merged in pairs.
std::vector<StoredTensor*> by_key(std::vector<StoredTensor>& entries) {
  const auto before = [](const auto* a, const auto* b) { return a->key < b->key; };
  std::vector<StoredTensor*> order;
  order.reserve(entries.size());
  std::vector<std::size_t> ends;  // of the runs
  for (auto& entry : entries) {
    if (!order.empty() && before(&entry, order.back())) ends.push_back(order.size());
    order.push_back(&entry);
  }
  ends.push_back(order.size());
  std::vector<StoredTensor*> merged(order.size());
  while (ends.size() > 1) {
    std::vector<std::size_t> fewer;
    const auto at = [&](std::size_t i) { return order.begin() + static_cast<std::ptrdiff_t>(i); };
    for (std::size_t run = 0, begin = 0; run < ends.size(); run += 2) {
      const auto middle = ends[run], end = run + 1 < ends.size() ? ends[run + 1] : middle;
      std::merge(at(begin), at(middle), at(middle), at(end),
                 merged.begin() + static_cast<std::ptrdiff_t>(begin), before);
      fewer.push_back(begin = end);
    }
    order.swap(merged);
    ends = std::move(fewer);
  }
  return order;
}

}  // namespace

void add_entry(StoredTensor& tensor, StoredTensor entry) {
  tensor.sliced |= entry.sliced;
  if (tensor.dtype != entry.dtype || tensor.shape != entry.shape) {
    throw Error(Code::internal, cat("entries of tensor '", tensor.key, "' disagree: ",
                                    dtype_name(tensor.dtype), " ", shape_text(tensor.shape),
                                    " and ", dtype_name(entry.dtype), " ", shape_text(entry.shape)))
        .of_tensor(tensor.key);
  }
  for (auto& slice : entry.slices) tensor.slices.push_back(std::move(slice));
}

void complete_entry(StoredTensor& tensor, const GapsByKey& gaps) {
  std::sort(tensor.slices.begin(), tensor.slices.end(),
            [](const auto& a, const auto& b) { return a.box < b.box; });
  prove(tensor, gaps);
  if (!tensor.sliced && tensor.slices.size() > 1) join_runs(tensor);
  tensor.sliced = tensor.slices.size() > 1 || !tensor.slices.front().box.is_whole(tensor.shape);
}

std::vector<StoredTensor> join_entries(std::vector<StoredTensor> entries, const GapsByKey& gaps) {
  std::vector<StoredTensor> joined;
  const auto not_before = [](const auto& a, const auto& b) { return a.key >= b.key; };
  // No key has two entries, and they ascend: nothing is to be joined.
  if (std::adjacent_find(entries.begin(), entries.end(), not_before) == entries.end()) {
    joined = std::move(entries);
  } else {
    for (auto* next : by_key(entries)) {
      if (joined.empty() || joined.back().key != next->key) {
        joined.push_back(std::move(*next));
      } else {
        add_entry(joined.back(), std::move(*next));
      }
    }
  }
  for (auto& tensor : joined) complete_entry(tensor, gaps);
  return joined;
}

Sealed seal_index(JoinedEntries joined, const CheckpointMeta& meta, int data_files, int num_files) {
  const std::string text = bundle::encode_meta(meta);
  auto stored_meta = bundle::encode_strings({&text, 1});
  Piece slice;
  slice.file = data_files;
  slice.stored_bytes = slice.raw_bytes = static_cast<std::int64_t>(stored_meta.bytes.size());
  slice.crc32c = stored_meta.crc32c;
  joined.tensors.push_back({std::string(bundle::meta_key), DType::string, {}, false, {slice}, ""});
  std::vector<commit::OwnFile> own_files;
  // Overwriting a step may have raised the file count. The missing files are made empty, since
  // TensorFlow's merge expects that each file is referenced.
  for (int file = data_files + 1; file < num_files; ++file) {
    Piece nothing;
    nothing.box = Box::whole({0});
    nothing.file = file;
    joined.tensors.push_back({filler_key(file), DType::uint8, {0}, false, {nothing}, ""});
    own_files.push_back({file, std::string()});
  }
  std::vector<bundle::IndexEntry> entries;
  for (const auto& tensor : joined.tensors) entries.push_back(bundle::encode_entry(tensor));
  let_go(joined.tensors);
  // A large index is encoded twice and never in memory as a whole. A small one is encoded once.
  constexpr std::size_t large_bytes = std::size_t{8} << 20;
  std::shared_ptr<const bundle::EncodedIndex> made;
  std::shared_ptr<const std::string> bytes;
  if (joined.kept) {
    bytes = std::make_shared<std::string>(joined.kept->write(num_files, std::move(entries)));
  } else {
    made = std::make_shared<const bundle::EncodedIndex>(num_files, std::move(entries), nullptr,
                                                        std::move(joined.encoded));
  }
  if (made && made->about_bytes() < large_bytes) {
    std::string whole;
    made->write([&](auto piece) { whole += piece; });
    bytes = std::make_shared<const std::string>(std::move(whole));
  }
  const auto index = [made = bytes ? nullptr : made, bytes](const io::Content::Take& take) {
    bytes ? take(*bytes) : made->write(take);
  };
  own_files.push_back({data_files, io::Content([=, meta_bytes = std::move(stored_meta.bytes)](
                                                   const io::Content::Take& take) {
                         take(meta_bytes);
                         index(take);
                       })});
  return {io::Content(index), std::move(own_files)};
}

}  // namespace cairn
