#include "tools/diff.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/slice_memory.hpp"
#include "model/box_index.hpp"
#include "model/convert.hpp"
#include "model/runs.hpp"
#include "model/sparse.hpp"
#include "tools/read_tensor.hpp"

namespace cairn {
namespace {

using Differs = TensorDifference::Kind;

// The real type of the parts of a complex one.
DType part_of(DType dtype) {
  if (dtype == DType::complex64) return DType::float32;
  if (dtype == DType::complex128) return DType::float64;
  return dtype;
}

std::string hex_text(const char* bytes, std::size_t size) {
  std::string text = "0x";
  for (std::size_t i = size; i-- > 0;) {
    for (const int shift : {4, 0}) text += "0123456789abcdef"[bytes[i] >> shift & 15];
  }
  return text;
}

class NumberComparison {
 public:
  NumberComparison(const StoredTensor& tensor, const Tolerance& tolerance,
                   TensorDifference& difference)
      : tensor_(tensor), tolerance_(tolerance), difference_(difference) {}

  // The elements of a box, row-major. `times`: it is one that stands for so many, of which this is
  // the first.
  void run(const Box& box, std::string_view a, std::string_view b, std::int64_t times = 1) {
    box_ = &box;
    bool is_first = true;
    const auto item = dtype_size(tensor_.dtype);
    const auto part = part_of(tensor_.dtype);
    const auto part_size = dtype_size(part);
    const bool numbers = is_convertible(part);
    for (std::size_t at = 0; at < a.size(); at += item) {
      if (std::memcmp(&a[at], &b[at], item) == 0) continue;
      const auto position = static_cast<std::int64_t>(at / item);
      bool same = numbers && tolerance_.any();
      for (std::size_t p = 0; numbers && p < item; p += part_size) {
        same = measure(part, &a[at + p], &b[at + p], position) && same;
      }
      if (same) continue;
      if (std::exchange(is_first, false)) note_first(position, &a[at], &b[at]);
      difference_.differing += times;
    }
  }

 private:
  // Whether two numbers are the same within the tolerance. Takes note of how far they are apart.
  bool measure(DType dtype, const char* a, const char* b, std::int64_t position) {
    const double x = value(dtype, a), y = value(dtype, b);
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
    if (x == y && (dtype_size(dtype) < 8 || std::isinf(x))) return true;
    const double apart = distance(dtype, a, b, x, y), size = std::max(std::abs(x), std::abs(y));
    if (!std::isfinite(apart)) return false;
    const double relative = size > 0 ? apart / size : 0;
    if (apart <= tolerance_.absolute || apart <= tolerance_.relative * size) return true;
    take(difference_.max_absolute, difference_.where_absolute, apart, position);
    take(difference_.max_relative, difference_.where_relative, relative, position);
    return false;
  }

  static double value(DType dtype, const char* bytes) {
    double out = 0;
    convert(dtype, reinterpret_cast<const std::byte*>(bytes), DType::float64,
            reinterpret_cast<std::byte*>(&out), 1, Conversion::round);
    return out;
  }
  // Large integers are nearer to each other than doubles tell.
  static double distance(DType dtype, const char* a, const char* b, double x, double y) {
    if (dtype != DType::int64 && dtype != DType::uint64) return std::abs(x - y);
    std::uint64_t p, q;
    std::memcpy(&p, a, sizeof p);
    std::memcpy(&q, b, sizeof q);
    if (dtype == DType::int64) p ^= std::uint64_t{1} << 63, q ^= std::uint64_t{1} << 63;
    return static_cast<double>(p > q ? p - q : q - p);
  }
  Dims index_of(std::int64_t position) const {
    auto index = index_at(position, box_->extent);
    for (std::size_t d = 0; d < index.size(); ++d) index[d] += box_->start[d];
    return index;
  }
  // Of equal ones the first in the tensor counts; boxes come in any order.
  void take(std::optional<double>& most, Dims& where, double found, std::int64_t position) const {
    if (most && *most > found) return;
    if (most && *most == found && where <= index_of(position)) return;
    most = found;
    where = index_of(position);
  }
  void note_first(std::int64_t position, const char* a, const char* b) {
    auto index = index_of(position);
    if (difference_.differing > 0 && difference_.first < index) return;
    difference_.first = std::move(index);
    const auto text = [&](const char* element) {
      const auto part = part_of(tensor_.dtype);
      if (!is_convertible(part)) return hex_text(element, dtype_size(tensor_.dtype));
      auto words = value_text(part, reinterpret_cast<const std::byte*>(element));
      if (part != tensor_.dtype) {
        element += dtype_size(part);
        words = cat('(', words, ',', value_text(part, reinterpret_cast<const std::byte*>(element)),
                    ')');
      }
      return words;
    };
    difference_.first_a = text(a);
    difference_.first_b = text(b);
    if (difference_.first_a == difference_.first_b) {  // -0 and 0, two NaN
      difference_.first_a += cat(' ', hex_text(a, dtype_size(tensor_.dtype)));
      difference_.first_b += cat(' ', hex_text(b, dtype_size(tensor_.dtype)));
    }
  }

  const StoredTensor& tensor_;
  const Tolerance& tolerance_;
  TensorDifference& difference_;
  const Box* box_ = nullptr;
};

// A slice or a gap of a sparse tensor.
struct SparsePart {
  Box box;
  bool is_gap = false;
  std::string bytes = {};  // of a slice that was read; of a gap its element
};

// Its parts, one by one.
class SparseReader {
 public:
  SparseReader(io::FileSystem& files, const CheckpointContents& contents,
               const StoredTensor& tensor)
      : files_(files),
        contents_(contents),
        tensor_(tensor),
        item_(static_cast<std::int64_t>(dtype_size(tensor.dtype))) {
    checked_bytes(contents, tensor, Box::whole(tensor.shape));  // throws for what cannot be read
    for (const auto& slice : tensor.slices) {
      if (!slice.box.empty()) parts_.push_back({slice.box});
    }
    if (!tensor.gaps || !tensor.sliced) return;
    for (const auto& gap : tensor.gaps->boxes) parts_.push_back({gap, true, tensor.gaps->fill});
  }

  std::vector<SparsePart>& parts() { return parts_; }
  void read(SparsePart& part) {
    if (!part.bytes.empty()) return;
    part.bytes = read_numbers(files_, contents_, tensor_, part.box);
  }
  std::string elements(const SparsePart& part, const Box& box) const {
    std::string out(static_cast<std::size_t>(box.count() * item_), '\0');
    auto* bytes = reinterpret_cast<std::byte*>(out.data());
    if (part.is_gap) {
      repeat(part.bytes, box.count(), bytes);
    } else {
      host_memory(tensor_.dtype, part.bytes.data(), nullptr, part.box.extent, {})
          ->read(box.relative_to(part.box.start), bytes);
    }
    return out;
  }

 private:
  io::FileSystem& files_;
  const CheckpointContents& contents_;
  const StoredTensor& tensor_;
  std::int64_t item_;
  std::vector<SparsePart> parts_;
};

// Memory is taken for what is stored. Where neither has anything, one element stands for all.
void compare_sparse(SparseReader a, SparseReader b, NumberComparison comparison) {
  std::vector<Box> boxes;
  for (const auto& part : b.parts()) boxes.push_back(part.box);
  const BoxIndex index(boxes);
  for (auto& one : a.parts()) {
    a.read(one);
    for (const auto i : index.query(one.box)) {
      auto& other = b.parts()[i];
      b.read(other);
      auto common = *intersect(one.box, other.box);
      if (one.is_gap && other.is_gap) {
        const auto count = common.count();
        common.extent = Dims(common.rank(), 1);
        comparison.run(common, one.bytes, other.bytes, count);
      } else {
        comparison.run(common, a.elements(one, common), b.elements(other, common));
      }
    }
    if (!one.is_gap) one.bytes = {};
  }
}

// The first difference is in what is left, and characters stay whole.
std::string shortened(const std::string& text, std::size_t differs_at) {
  constexpr std::size_t longest = 60, before = 20;
  if (text.size() <= longest) return text;
  const auto begins = [&](std::size_t at) {
    while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80)
      --at;
    return at;
  };
  const auto from = begins(differs_at < longest ? 0 : differs_at - before);
  const auto to = begins(std::min(text.size(), from + longest));
  return cat(from > 0 ? "..." : "", text.substr(from, to - from), to < text.size() ? "..." : "");
}

void compare_strings(const StoredTensor& tensor, const std::vector<std::string>& a,
                     const std::vector<std::string>& b, TensorDifference& difference) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || difference.differing++ > 0) continue;
    difference.first = index_at(static_cast<std::int64_t>(i), tensor.shape);
    const auto differ = std::mismatch(a[i].begin(), a[i].end(), b[i].begin(), b[i].end());
    const auto at = static_cast<std::size_t>(differ.first - a[i].begin());
    difference.first_a = shortened(a[i], at);
    difference.first_b = shortened(b[i], at);
    difference.are_strings = true;
  }
}

std::int64_t stored_bytes(const StoredTensor& tensor) {
  std::int64_t bytes = 0;
  for (const auto& slice : tensor.slices) bytes += slice.size;
  return bytes;
}

}  // namespace

bool CheckpointDiff::cannot_tell() const {
  return std::any_of(differences.begin(), differences.end(),
                     [](const auto& one) { return one.kind == Differs::unreadable; });
}

CheckpointDiff compare(io::FileSystem& files, const CheckpointContents& a,
                       const CheckpointContents& b, const Tolerance& tolerance,
                       const Progress& progress) {
  CheckpointDiff result;
  std::int64_t total = 0;
  for (const auto& tensor : a.tensors) {
    if (const auto* other = b.find(tensor.key))
      total += stored_bytes(tensor) + stored_bytes(*other);
  }
  const auto add = [&](const std::string& key, Differs kind,
                       std::string what) -> TensorDifference& {
    result.differences.push_back({});
    auto& one = result.differences.back();
    one.key = key;
    one.kind = kind;
    one.what = std::move(what);
    return one;
  };
  const auto describe = [](const StoredTensor& tensor) {
    return cat(dtype_name(tensor.dtype), ' ', shape_text(tensor.shape));
  };
  for (const auto& tensor : a.tensors) {
    const auto* other = b.find(tensor.key);
    if (!other) {
      add(tensor.key, Differs::only_in_a, describe(tensor));
      continue;
    }
    if (tensor.dtype != other->dtype) {
      add(tensor.key, Differs::dtype,
          cat(dtype_name(tensor.dtype), " and ", dtype_name(other->dtype)));
      continue;
    }
    if (tensor.shape != other->shape) {
      add(tensor.key, Differs::shape,
          cat(shape_text(tensor.shape), " and ", shape_text(other->shape)));
      continue;
    }
    TensorDifference difference;
    difference.key = tensor.key;
    difference.kind = Differs::values;
    difference.elements = element_count(tensor.shape);
    const auto whole = Box::whole(tensor.shape);
    try {
      if (tensor.dtype == DType::string) {
        compare_strings(tensor, read_string_box(files, a, tensor, whole),
                        read_string_box(files, b, *other, whole), difference);
      } else if (tensor.gaps || other->gaps) {
        compare_sparse({files, a, tensor}, {files, b, *other}, {tensor, tolerance, difference});
      } else {
        NumberComparison(tensor, tolerance, difference)
            .run(whole, read_numbers(files, a, tensor, whole),
                 read_numbers(files, b, *other, whole));
      }
    } catch (const Error& error) {
      if (error.code() != Code::data_loss && error.code() != Code::unsupported &&
          error.code() != Code::not_found) {
        throw;
      }
      add(tensor.key, Differs::unreadable, error.what());
      continue;
    }
    ++result.tensors;
    result.bytes += stored_bytes(tensor) + stored_bytes(*other);
    if (progress) progress(result.bytes, total);
    if (difference.differing > 0) result.differences.push_back(std::move(difference));
  }
  for (const auto& tensor : b.tensors) {
    if (!a.find(tensor.key)) add(tensor.key, Differs::only_in_b, describe(tensor));
  }
  if (a.meta && b.meta) result.descriptions = compare(a.meta->descriptions, b.meta->descriptions);
  std::sort(result.differences.begin(), result.differences.end(),
            [](const auto& x, const auto& y) { return x.key < y.key; });
  return result;
}

}  // namespace cairn
