#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "bundle.pb.h"
#include "layout/bundle/damage.hpp"
#include "layout/bundle/entry_read.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/key_text.hpp"
#include "layout/bundle/overlap.hpp"
#include "layout/bundle/slice_key.hpp"
#include "layout/bundle/table.hpp"
#include "layout/offsets.hpp"

namespace cairn::bundle {
namespace {

// Makes tensors of the entries of a table. Entry 0 is the header; entries of slices become parts of
// the tensors that list them.
class Assembler {
 public:
  Assembler(const Table& table, CheckpointContents& contents)
      : table_(table),
        contents_(contents),
        has_codecs_(read_header(table.entries[0].value, contents)) {}

  void run() {
    const auto& entries = table_.entries;
    tensors_.resize(entries.size());
    hidden_.resize(entries.size());
    for (std::size_t i = 1; i < entries.size(); ++i) read_entry(i);
    for (const auto i : sliced_) assemble(i);
    // Tensors move up in the same vector, since there may be very many.
    std::int64_t bytes = 0;
    std::size_t kept = 0;
    for (std::size_t i = 1; i < entries.size(); ++i) {
      if (hidden_[i]) continue;
      finish(tensors_[i], bytes);
      tensors_[kept++] = std::move(tensors_[i]);
    }
    tensors_.resize(kept);
    // Most entries may be those of slices.
    if (kept < entries.size() / 4 * 3) tensors_.shrink_to_fit();
    contents_.tensors = std::move(tensors_);
  }

 private:
  // Reads dtype, shape and place. Slices are put together when all entries have been read.
  void read_entry(std::size_t i) {
    auto& tensor = tensors_[i];
    tensor.key = table_.entries[i].key;
    if (!parse(entry_, table_.entries[i].value)) {
      tensor.problem = "its entry cannot be parsed";
      return;
    }
    const auto count = read_type(entry_, tensor);
    tensor.sliced = entry_.slices_size() > 0;
    if (tensor.sliced) {
      sliced_.push_back(i);
    } else if (count) {
      read_place(entry_, *count, contents_.num_files, has_codecs_, tensor);
    }
  }

  // The number of the entry of this key; 0, which is the header's, if there is none.
  std::size_t position(const std::string& key) const {
    const auto& entries = table_.entries;
    const auto at = std::lower_bound(entries.begin() + 1, entries.end(), key,
                                     [](const auto& e, const auto& k) { return e.key < k; });
    return at != entries.end() && at->key == key ? static_cast<std::size_t>(at - entries.begin())
                                                 : 0;
  }

  // Gives a tensor its slices from their own entries, and hides these: they are only its parts.
  void assemble(std::size_t i) {
    auto& tensor = tensors_[i];
    // Parsed again: to keep the messages of all tensors would take much memory.
    parse(entry_, table_.entries[i].value);
    // Only the first problem of a tensor is reported.
    const auto blame = [&](const std::string& problem) {
      if (tensor.problem.empty()) tensor.problem = problem;
    };
    std::vector<Box> boxes;
    std::vector<KeyExtent> extents;
    for (const auto& listed : entry_.slices()) {
      read_extents(listed, extents);
      const auto part = position(encode_slice_key(tensor.key, extents));
      if (part && hidden_[part]) blame(cat("it lists the slice ", extents_text(extents), " twice"));
      if (part) hidden_[part] = true;
      // After a problem its other parts are hidden, too, so that it is reported only once.
      if (!tensor.problem.empty()) continue;
      auto slice = read_box(tensor, extents, entry_.slices_size() == 1);
      if (slice && !part) blame(cat("its slice ", extents_text(extents), " has no entry"));
      if (slice && part) take_part(tensor, *slice, tensors_[part], extents);
      if (tensor.problem.empty()) boxes.push_back(tensor.slices.back().box);
    }
    if (!tensor.problem.empty()) return;
    if (const auto pair = find_overlap(boxes)) {
      blame(cat("its slices ", box_text(boxes[pair->first]), " and ", box_text(boxes[pair->second]),
                " overlap"));
    }
  }

  static void finish(StoredTensor& tensor, std::int64_t& bytes) {
    if (tensor.key[0] == '\0') {
      if (const auto orphan = decode_slice_key(tensor.key)) {
        tensor.problem = cat("it is the slice ", extents_text(orphan->extents), " of ",
                             key_text(orphan->tensor), ", which does not list it");
      }
    }
    // `bytes` is the sum over all tensors without problem so far.
    std::int64_t total = bytes;
    bool overflow = false;
    for (const auto& slice : tensor.slices) {
      overflow = overflow || __builtin_add_overflow(total, most_bytes(slice), &total);
    }
    if (overflow && tensor.problem.empty()) {
      tensor.problem = "with it the checkpoint would have 2^63 bytes or more";
    }
    if (tensor.problem.empty()) {
      bytes = total;
    } else {
      tensor.slices.clear();
    }
  }

  const Table& table_;
  CheckpointContents& contents_;
  const bool has_codecs_;
  pb::Entry entry_;                    // reused
  std::vector<StoredTensor> tensors_;  // one for each entry of the table
  std::vector<bool> hidden_;           // entries that are some tensor's slices
  std::vector<std::size_t> sliced_;
};

}  // namespace

CheckpointContents parse_index(std::string_view bytes, const Limits& limits) {
  const auto table = read_table(bytes, limits);
  CheckpointContents contents;
  if (table.entries.empty() || !table.entries[0].key.empty()) {
    damaged("its first entry is no header");
  }
  Assembler(table, contents).run();
  return contents;
}

}  // namespace cairn::bundle
