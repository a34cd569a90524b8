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
#include "tools/element_numbers.hpp"
#include "tools/read_tensor.hpp"

namespace cairn {
namespace {

using Differs = TensorDifference::Kind;

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

  // Compares the elements of a box, row-major. If `times` is not 1, the box has one element that
  // stands for so many equal ones, and is the first of them.
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
  // Returns whether two numbers are equal within the tolerance, and notes how far they are apart.
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
  Dims index_of(std::int64_t position) const {
    auto index = index_at(position, box_->extent);
    for (std::size_t d = 0; d < index.size(); ++d) index[d] += box_->start[d];
    return index;
  }
  // Of equal differences the first in the tensor counts, since boxes come in any order.
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
    if (difference_.first_a == difference_.first_b) {  // such as -0 and 0, or two NaN
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
struct SparseBox {
  Box box;
  bool is_gap = false;
  std::string bytes = {};  // of a slice: its elements once read; of a gap: one element
};

// Reads the slices and gaps of a sparse tensor one by one.
class SparseReader {
 public:
  explicit SparseReader(const TensorAt& side) : side_(side) {
    const auto& tensor = side.tensor;
    checked_bytes(*side.checkpoint, tensor,
                  Box::whole(tensor.shape));  // throws if it cannot be read
    for (const auto& slice : tensor.slices) {
      if (!slice.box.empty()) parts_.push_back({slice.box});
    }
    if (!tensor.gaps || !tensor.sliced) return;
    for (const auto& gap : tensor.gaps->boxes) parts_.push_back({gap, true, tensor.gaps->fill});
  }

  std::vector<SparseBox>& parts() { return parts_; }
  void read(SparseBox& part) {
    if (!part.bytes.empty()) return;
    part.bytes = read_numbers(side_.checkpoint, side_.tensor, part.box);
  }
  std::string elements(const SparseBox& part, const Box& box) const {
    const auto dtype = side_.tensor.dtype;
    std::string out(static_cast<std::size_t>(box.count()) * dtype_size(dtype), '\0');
    auto* bytes = reinterpret_cast<std::byte*>(out.data());
    if (part.is_gap) {
      repeat(part.bytes, box.count(), bytes);
    } else {
      host_memory(dtype, part.bytes.data(), nullptr, part.box.extent, {})
          ->read(box.relative_to(part.box.start), bytes);
    }
    return out;
  }

 private:
  TensorAt side_;
  std::vector<SparseBox> parts_;
};

// Memory is needed only for stored slices. Where both tensors have a gap, one element is compared
// for all.
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

// Shortens a text so that the first difference stays and no character is cut.
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

TensorDifference difference_of(const StoredTensor& tensor, Differs kind, std::string what = "") {
  TensorDifference one;
  one.key = tensor.key;
  one.kind = kind;
  one.what = std::move(what);
  return one;
}

std::string type_text(const StoredTensor& tensor) {
  return cat(dtype_name(tensor.dtype), ' ', shape_text(tensor.shape));
}

void compare_elements(const TensorAt& a, const TensorAt& b, const Tolerance& tolerance,
                      TensorDifference& difference) {
  const auto& tensor = a.tensor;
  const auto whole = Box::whole(tensor.shape);
  if (tensor.dtype == DType::string) {
    return compare_strings(tensor, read_string_box(a.checkpoint, tensor, whole),
                           read_string_box(b.checkpoint, b.tensor, whole), difference);
  }
  NumberComparison comparison(tensor, tolerance, difference);
  if (tensor.gaps || b.tensor.gaps) {
    return compare_sparse(SparseReader(a), SparseReader(b), comparison);
  }
  comparison.run(whole, read_numbers(a.checkpoint, tensor, whole),
                 read_numbers(b.checkpoint, b.tensor, whole));
}

bool is_of_the_files(const Error& error) {
  return error.code() == Code::data_loss || error.code() == Code::unsupported ||
         error.code() == Code::not_found;
}

// Also returns a result if nothing differs: its kind is `values`, and no element differs.
TensorDifference compare(const TensorAt& a, const TensorAt& b, const Tolerance& tolerance) {
  const auto &tensor = a.tensor, &other = b.tensor;
  if (tensor.dtype != other.dtype) {
    return difference_of(tensor, Differs::dtype,
                         cat(dtype_name(tensor.dtype), " and ", dtype_name(other.dtype)));
  }
  if (tensor.shape != other.shape) {
    return difference_of(tensor, Differs::shape,
                         cat(shape_text(tensor.shape), " and ", shape_text(other.shape)));
  }
  auto difference = difference_of(tensor, Differs::values);
  difference.elements = element_count(tensor.shape);
  try {
    compare_elements(a, b, tolerance, difference);
  } catch (const Error& error) {
    if (!is_of_the_files(error)) throw;
    return difference_of(tensor, Differs::unreadable, error.what());
  }
  return difference;
}

}  // namespace

bool CheckpointDiff::cannot_tell() const {
  return std::any_of(differences.begin(), differences.end(),
                     [](const auto& one) { return one.kind == Differs::unreadable; });
}

CheckpointDiff compare(const OpenCheckpoint& a, const OpenCheckpoint& b, const Tolerance& tolerance,
                       const Progress& progress) {
  CheckpointDiff result;
  std::int64_t total = 0;
  for (const auto& tensor : a->tensors) {
    if (const auto* other = b->find(tensor.key)) total += value_bytes(tensor) + value_bytes(*other);
  }
  auto& all = result.differences;
  for (const auto& tensor : a->tensors) {
    const auto* other = b->find(tensor.key);
    if (!other) {
      all.push_back(difference_of(tensor, Differs::only_in_a, type_text(tensor)));
      continue;
    }
    auto difference = compare(TensorAt{a, tensor}, {b, *other}, tolerance);
    if (difference.kind == Differs::values) {
      ++result.tensors;
      result.bytes += value_bytes(tensor) + value_bytes(*other);
      if (progress) progress(result.bytes, total);
      if (difference.differing == 0) continue;
    }
    all.push_back(std::move(difference));
  }
  for (const auto& tensor : b->tensors) {
    if (a->find(tensor.key)) continue;
    all.push_back(difference_of(tensor, Differs::only_in_b, type_text(tensor)));
  }
  if (a->meta && b->meta) {
    result.descriptions = compare(a->meta->descriptions, b->meta->descriptions);
  }
  std::sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.key < y.key; });
  return result;
}

}  // namespace cairn
