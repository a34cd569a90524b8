#include <algorithm>
#include <map>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/slice_memory.hpp"
#include "cairn/state.hpp"
#include "foreign/safetensors/header.hpp"
#include "group/collectives.hpp"
#include "model/dtype_attribute.hpp"
#include "store/contents/no_more_open.hpp"
#include "tools/ordered_reads.hpp"
#include "tools/safetensors.hpp"
#include "tools/store_state.hpp"

namespace cairn {
namespace {

using safetensors::length_bytes;

struct Source {
  int number = 0;  // of the file, among those that are read
  safetensors::Header header;
  std::int64_t data = 0;  // where the data begin
};

std::string read_text(const io::File& file, std::int64_t offset, std::int64_t size) {
  std::string text(static_cast<std::size_t>(size), '\0');
  if (size > 0) file.read_at(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

Source open_file(const Address& path, OrderedReads& reads) {
  try {
    Source source;
    source.number = reads.add(path);
    const auto& file = reads.file(source.number);
    const auto size = file.size();
    const auto first = read_text(file, 0, std::min(size, length_bytes));
    const auto length = safetensors::header_length(first, size);
    source.data = length_bytes + length;
    source.header =
        safetensors::parse_header(read_text(file, length_bytes, length), size - source.data);
    return source;
  } catch (Error& error) {
    if (error.path().empty()) error.at(path.string());
    throw;
  }
}

// Rows of a tensor in a file, beginning with `first`. They are read when they are needed.
class RowsInFile : public SliceMemory {
 public:
  RowsInFile(OrderedReads& reads, const Source& source, const safetensors::Tensor& tensor,
             std::int64_t first, std::function<void(std::int64_t)> done)
      : reads_(reads), source_(source), tensor_(tensor), first_(first), done_(std::move(done)) {}

  void read(const Box& part, std::byte* out) const override {
    if (part.count() == 0) return;
    // From the first element to the last one.
    const auto strides = row_major_strides(tensor_.shape);
    std::int64_t first = strides.empty() ? 0 : first_ * strides[0], elements = 1;
    for (std::size_t d = 0; d < strides.size(); ++d) {
      first += part.start[d] * strides[d];
      elements += (part.extent[d] - 1) * strides[d];
    }
    const auto size = static_cast<std::int64_t>(dtype_size(tensor_.dtype));
    const auto at = source_.data + tensor_.offset + first * size;
    if (elements == part.count()) {
      const auto bytes = static_cast<std::size_t>(elements * size);
      reads_.read(source_.number, at, {out, bytes});
    } else {
      std::string bytes(static_cast<std::size_t>(elements * size), '\0');
      reads_.read(source_.number, at, std::as_writable_bytes(std::span(bytes)));
      host_memory(tensor_.dtype, bytes.data(), nullptr, part.extent, strides)
          ->read(Box::whole(part.extent), out);
    }
    done_(part.count() * size);
  }
  void write(const Box&, const std::byte*) override {
    throw Error(Code::internal, "a file of safetensors is for reading only");
  }
  bool writable() const override { return false; }

 private:
  OrderedReads& reads_;
  const Source& source_;
  const safetensors::Tensor& tensor_;
  const std::int64_t first_;
  std::function<void(std::int64_t)> done_;
};

// A scalar counts as one row.
std::int64_t row_count(const safetensors::Tensor& tensor) {
  return tensor.shape.empty() ? 1 : tensor.shape[0];
}

// Decides which rows of each tensor a rank reads, so that each reads about as many bytes: the bytes
// of all tensors in a row are divided evenly, rounded to whole rows.
class Deal {
 public:
  Deal(std::int64_t total, const Group& group) : total_(total), group_(group) {}

  /// Call it for one tensor after the other. Returns this rank's first row and the number of its
  /// rows.
  std::pair<std::int64_t, std::int64_t> next(const safetensors::Tensor& tensor) {
    const auto rows = row_count(tensor);
    const auto row_bytes = rows > 0 ? tensor.size / rows : 0;
    const auto first_of = [&](int rank) {
      const auto cut = static_cast<std::int64_t>(static_cast<double>(total_) /
                                                 static_cast<double>(group_.size()) * rank);
      if (rank == group_.size()) return rows;
      if (rank == 0 || cut <= at_ || row_bytes == 0) return std::int64_t{0};
      return std::min(rows, (cut - at_ + row_bytes - 1) / row_bytes);
    };
    const auto first = first_of(group_.rank()), end = first_of(group_.rank() + 1);
    at_ += tensor.size;
    return {first, end - first};
  }

 private:
  const std::int64_t total_;
  const Group& group_;
  std::int64_t at_ = 0;
};

bool is_index(const io::Path& path) { return path.extension() == ".json"; }

// By file name.
std::map<std::string, Source> open_all(const Address& path, OrderedReads& reads) {
  std::map<std::string, Source> sources;
  if (!is_index(path.path())) {
    sources.emplace(path.name(), open_file(path, reads));
    return sources;
  }
  safetensors::WeightMap weights;
  try {
    weights = safetensors::parse_index(path.read(safetensors::longest_header));
  } catch (Error& error) {
    if (error.path().empty()) error.at(path.string());
    throw;
  }
  for (const auto& [key, name] : weights) {
    if (sources.contains(name)) continue;
    sources.emplace(name, open_file(path.at(path.path().parent_path() / name), reads));
  }
  std::size_t found = 0;
  for (const auto& [name, source] : sources) {
    for (const auto& tensor : source.header.tensors) {
      const auto at = weights.find(tensor.key);
      if (at == weights.end() || at->second != name) {
        throw Error(Code::data_loss,
                    cat("the index does not say that '", tensor.key, "' is in ", name))
            .at(path.string())
            .of_tensor(tensor.key);
      }
      ++found;
    }
  }
  if (found != weights.size()) {
    throw Error(Code::data_loss,
                cat("the index has ", weights.size(), " tensors, its files ", found))
        .at(path.string());
  }
  return sources;
}

}  // namespace

bool is_safetensors(const io::Path& path) {
  const auto name = path.filename().string();
  return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
}

std::string import_safetensors(const Address& source, const Address& destination,
                               const std::string& under, const ConvertOptions& options,
                               const Progress& progress) {
  auto& group = *options.group();
  OrderedReads reads;
  const auto sources = run_and_agree(group, [&] { return open_all(source, reads); });
  std::int64_t total = 0, done = 0;
  for (const auto& [name, one] : sources) total += one.header.data_size();
  const auto told = [&](std::int64_t bytes) {
    done = std::min(total, done + bytes * group.size());
    if (progress) progress(done, total);
  };
  State state;
  run_and_agree(group, [&] {
    Attributes attributes;
    Deal deal(total, group);
    for (const auto& [name, one] : sources) {
      for (const auto& tensor : one.header.tensors) {
        LocalTensor local{tensor.dtype, tensor.shape, {}, nullptr};
        const auto [first, rows] = deal.next(tensor);
        const bool is_empty = element_count(tensor.shape) == 0;  // every rank adds an empty tensor
        if (rows > 0 || is_empty) {
          auto box = Box::whole(tensor.shape);
          if (!tensor.shape.empty() && !is_empty) box.start[0] = first, box.extent[0] = rows;
          local.slices.push_back(
              {box, std::make_shared<RowsInFile>(reads, one, tensor, first, told)});
          const auto row_bytes = is_empty ? 0 : tensor.size / row_count(tensor);
          reads.expect(tensor.key, one.number, one.data + tensor.offset + first * row_bytes,
                       rows * row_bytes);
        }
        const auto key = under.empty() ? tensor.key : cat(under, '/', tensor.key);
        state.add(key, std::move(local));
        if (!tensor.stored_as_bytes.empty()) {
          state.describe(key, {.attributes = {{dtype_attribute, tensor.stored_as_bytes}}});
        }
      }
      for (const auto& [word, text] : one.header.metadata) attributes.insert_or_assign(word, text);
    }
    state.describe(std::move(attributes));
  });
  std::vector<Address> all{source};
  for (const auto& [name, one] : sources) {
    all.push_back(source.at(source.path().parent_path() / name));
  }
  const auto access = run_and_agree(group, [&] { return access_of(all); });
  return store_state(state, CheckpointMeta{}, no_more_open(destination, access), options);
}

}  // namespace cairn
