#include "tools/value_statistics.hpp"

#include <algorithm>
#include <cmath>

#include "model/element_types.hpp"
#include "model/runs.hpp"
#include "tools/element_numbers.hpp"
#include "tools/read_tensor.hpp"

namespace cairn {
namespace {

std::size_t in_memory(std::int64_t value) { return static_cast<std::size_t>(value); }

// Compares large integers exactly, which doubles cannot.
bool is_less(DType dtype, const char* a, const char* b, double x, double y) {
  if (x != y) return x < y;
  if (dtype == DType::int64) return load_element<std::int64_t>(a) < load_element<std::int64_t>(b);
  if (dtype == DType::uint64)
    return load_element<std::uint64_t>(a) < load_element<std::uint64_t>(b);
  return false;
}

class Measured {
 public:
  explicit Measured(const StoredTensor& tensor)
      : tensor_(tensor),
        item_(dtype_size(tensor.dtype)),
        is_large_(tensor.dtype == DType::int64 || tensor.dtype == DType::uint64) {}

  void take(const Box& chunk, const std::string& bytes) {
    const auto count = static_cast<std::int64_t>(bytes.size() / item_);
    values_.resize(in_memory(count));
    to_doubles(tensor_.dtype, bytes.data(), count, values_.data());
    take_values(chunk, bytes, 1);
  }
  // The elements of a gap have one value, so they are only counted.
  void take_gap(const Box& gap, const std::string& element) {
    values_.resize(1);
    to_doubles(tensor_.dtype, element.data(), 1, values_.data());
    take_values({gap.start, Dims(gap.rank(), 1)}, element, gap.count());
  }

  ValueStatistics result() {
    if (statistics_.finite > 0) {
      statistics_.deviation = std::sqrt(squares_ / static_cast<double>(statistics_.finite)) * unit_;
    }
    return statistics_;
  }

 private:
  // Each value counts `times` times.
  void take_values(const Box& chunk, const std::string& bytes, std::int64_t times) {
    statistics_.elements += std::ssize(values_) * times;
    const auto found = look(bytes, times);
    if (found.finite > 0) {
      note(statistics_.least, chunk, bytes, found.least, true);
      note(statistics_.largest, chunk, bytes, found.largest, false);
      join(found.finite, times);
    }
  }

  struct Found {
    // Finite: a count; least, largest: positions in the chunk.
    std::int64_t finite = 0, least = 0, largest = 0;
  };

  Found look(const std::string& bytes, std::int64_t times) {
    Found found;
    const auto less = [&](std::int64_t i, std::int64_t j) {
      if (!is_large_) return values_[in_memory(i)] < values_[in_memory(j)];
      return is_less(tensor_.dtype, &bytes[in_memory(i) * item_], &bytes[in_memory(j) * item_],
                     values_[in_memory(i)], values_[in_memory(j)]);
    };
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(values_.size()); ++i) {
      const auto value = values_[in_memory(i)];
      if (std::isnan(value)) {
        statistics_.nans += times;
      } else if (std::isinf(value)) {
        statistics_.infinities += times;
      } else {
        if (value == 0) statistics_.zeros += times;
        if (found.finite++ == 0) {
          found.least = found.largest = i;
        } else if (less(i, found.least)) {
          found.least = i;
        } else if (less(found.largest, i)) {
          found.largest = i;
        }
      }
    }
    return found;
  }

  void note(std::optional<Extreme>& known, const Box& chunk, const std::string& bytes,
            std::int64_t position, bool least) const {
    Extreme one;
    one.value = values_[in_memory(position)];
    one.element = bytes.substr(in_memory(position) * item_, item_);
    one.index = index_at(position, chunk.extent);
    for (std::size_t d = 0; d < one.index.size(); ++d) one.index[d] += chunk.start[d];
    if (known) {
      const auto &a = least ? one : *known, &b = least ? *known : one;
      const auto less = [&](const Extreme& x, const Extreme& y) {
        return is_less(tensor_.dtype, x.element.data(), y.element.data(), x.value, y.value);
      };
      // Chunks come in the order in which they are stored, so the lower index is kept.
      if (!less(a, b) && (less(b, a) || known->index <= one.index)) return;
    }
    known = std::move(one);
  }

  // Joins mean and sum of squares with those of this chunk (Chan, Golub and LeVeque, 1979). All
  // numbers are divided by a unit of about their size, so that squares do not overflow. If `times`
  // is not 1, the chunk has a single value, whose squares are 0.
  void join(std::int64_t seen, std::int64_t times) {
    const auto finite = seen * times;
    if (unit_ == 0) {
      const auto size =
          std::max(std::abs(statistics_.least->value), std::abs(statistics_.largest->value));
      unit_ = size > 0 ? std::ldexp(1.0, std::min(std::ilogb(size), 1000)) : 0;
      if (size == 0) {  // only zeros so far
        statistics_.finite += finite;
        return;
      }
    }
    grow();
    const auto count = static_cast<double>(finite);
    const auto each = static_cast<double>(seen);
    double sum = 0, mean = 0, squares = 0;
    each_finite([&](double value) { sum += value / unit_ / each; });
    each_finite([&](double value) { mean += (value / unit_ - sum) / each; });
    mean += sum;
    each_finite([&](double value) {
      const auto apart = value / unit_ - mean;
      squares += apart * apart;
    });
    const auto before = static_cast<double>(statistics_.finite);
    const auto apart = mean - mean_, all = before + count;
    mean_ += apart * (count / all);
    squares_ += squares + apart * apart * (before * count / all);
    statistics_.finite += finite;
    statistics_.mean = mean_ * unit_;
  }

  // Takes a larger unit if numbers turn up that are much larger than those before.
  void grow() {
    const auto size =
        std::max(std::abs(statistics_.least->value), std::abs(statistics_.largest->value));
    const auto fits = std::ldexp(1.0, std::min(std::ilogb(size), 1000));
    if (fits <= unit_) return;
    const auto ratio = unit_ / fits;
    mean_ *= ratio;
    squares_ *= ratio * ratio;
    unit_ = fits;
  }

  template <class F>
  void each_finite(const F& function) const {
    for (const auto value : values_) {
      if (std::isfinite(value)) function(value);
    }
  }

  const StoredTensor& tensor_;
  std::size_t item_;
  bool is_large_;
  std::vector<double> values_;
  ValueStatistics statistics_;
  double unit_ = 0, mean_ = 0, squares_ = 0;
};

}  // namespace

ValueStatistics value_statistics(const OpenCheckpoint& checkpoint, const StoredTensor& tensor,
                                 const Progress& progress) {
  Measured measured(tensor);
  const auto take = [&](const Box& chunk, std::string& bytes) { measured.take(chunk, bytes); };
  const auto take_gap = [&](const Box& gap, const std::string& element) {
    measured.take_gap(gap, element);
  };
  read_chunks(checkpoint, tensor, Box::whole(tensor.shape), take, take_gap, progress);
  return measured.result();
}

Histogram histogram(const OpenCheckpoint& checkpoint, const StoredTensor& tensor,
                    const ValueStatistics& known, int bins, const Progress& progress) {
  Histogram result;
  if (known.finite == 0) return result;
  result.low = known.least->value;
  result.high = known.largest->value;
  if (is_integer(tensor.dtype) && result.high - result.low < bins) {
    bins = static_cast<int>(result.high - result.low) + 1;
    result.low -= 0.5;
    result.high += 0.5;
  } else if (result.low == result.high) {
    bins = 1;
  }
  result.counts.resize(static_cast<std::size_t>(bins));
  // Computed by halves, since the whole range may be more than a double holds.
  const auto half_width = result.high / 2 - result.low / 2;
  std::vector<double> values;
  const auto count = [&](const std::string& bytes, std::int64_t times) {
    values.resize(bytes.size() / dtype_size(tensor.dtype));
    to_doubles(tensor.dtype, bytes.data(), static_cast<std::int64_t>(values.size()), values.data());
    for (const auto value : values) {
      if (!std::isfinite(value)) continue;
      const auto part = bins == 1 ? 0 : (value / 2 - result.low / 2) / half_width * bins;
      result.counts[in_memory(
          std::clamp<std::int64_t>(static_cast<std::int64_t>(part), 0, bins - 1))] += times;
    }
  };
  const auto take = [&](const Box&, std::string& bytes) { count(bytes, 1); };
  const auto take_gap = [&](const Box& gap, const std::string& element) {
    count(element, gap.count());
  };
  read_chunks(checkpoint, tensor, Box::whole(tensor.shape), take, take_gap, progress);
  return result;
}

}  // namespace cairn
