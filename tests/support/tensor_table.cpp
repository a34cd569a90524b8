#include "support/tensor_table.hpp"

#include <algorithm>
#include <complex>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "base/text.hpp"
#include "cairn/indexed.hpp"
#include "cairn/ragged.hpp"
#include "cairn/resizable.hpp"
#include "cairn/sparse.hpp"
#include "group/collectives.hpp"

namespace cairn::test {
namespace {

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::int64_t number_of(const TableLine& line, std::int64_t step, std::int64_t i) {
  return (7 * i + 13 * step + line.number) % 101;
}
std::string element(const TableLine& line, std::int64_t step, std::int64_t i) {
  const bool gap = line.kind == "sparse" && i / line.row_elements() % 2 == 1;
  const auto n = static_cast<int>(gap ? -1 : number_of(line, step, i));
  switch (line.dtype) {
    case DType::boolean:
      return bytes_of(n % 2 == 1);
    case DType::int8:
      return bytes_of(static_cast<std::int8_t>(n));
    case DType::int16:
      return bytes_of(static_cast<std::int16_t>(n));
    case DType::int32:
      return bytes_of(n);
    case DType::int64:
      return bytes_of(std::int64_t{n});
    case DType::float32:
      return bytes_of(static_cast<float>(n));
    case DType::float64:
      return bytes_of(static_cast<double>(n));
    case DType::complex64:
      return bytes_of(std::complex<float>(static_cast<float>(n), static_cast<float>(n + 1)));
    case DType::complex128:
      return bytes_of(std::complex<double>(n, n + 1));
    default:
      throw std::runtime_error("a type of the table that is not known here");
  }
}
std::string text_of(const TableLine& line, std::int64_t step, std::int64_t i) {
  const auto v = number_of(line, step, i);
  return std::string(static_cast<std::size_t>(v % 7), static_cast<char>('a' + v % 26));
}
// The elements of some rows, one after the other.
std::string rows_of(const TableLine& line, std::int64_t step,
                    const std::vector<std::int64_t>& rows) {
  std::string bytes;
  for (const auto row : rows) {
    for (std::int64_t k = 0; k < line.row_elements(); ++k) {
      bytes += element(line, step, row * line.row_elements() + k);
    }
  }
  return bytes;
}
std::string box_of(const TableLine& line, std::int64_t step, const Box& box) {
  std::string bytes;
  const auto strides = row_major_strides(line.shape);
  for (std::int64_t i = 0; i < box.count(); ++i) {
    std::int64_t rest = i, at = 0;
    for (auto d = box.extent.size(); d-- > 0; rest /= box.extent[d]) {
      at += (box.start[d] + rest % box.extent[d]) * strides[d];
    }
    bytes += element(line, step, at);
  }
  return bytes;
}

std::vector<std::int64_t> range(std::int64_t first, std::int64_t end, std::int64_t by = 1) {
  std::vector<std::int64_t> all;
  for (; first < end; first += by) all.push_back(first);
  return all;
}

}  // namespace

std::vector<TableLine> read_table(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<TableLine> all;
  for (std::string text; std::getline(file, text);) {
    std::istringstream words(text);
    TableLine one;
    std::string dtype, shape;
    if (!(words >> one.key >> one.kind >> dtype >> shape) || one.key.starts_with("#")) continue;
    one.dtype = dtype_from_name(dtype).value();
    one.number = static_cast<std::int64_t>(all.size());
    std::istringstream extents(shape == "-" ? "" : shape);
    for (std::string extent; std::getline(extents, extent, ',');) {
      one.shape.push_back(std::stoll(extent));
    }
    all.push_back(std::move(one));
  }
  if (all.empty()) throw std::runtime_error("no tensors in " + path.string());
  return all;
}

// Not in the namespace without a name: GCC refuses it as a member where sources are compiled
// together.
class ByteRows final : public Rows {
 public:
  ByteRows(const TableLine& line, std::string bytes) : line_(&line), bytes(std::move(bytes)) {}
  std::int64_t count() const override { return static_cast<std::int64_t>(bytes.size() / row()); }
  bool resizable() const override { return true; }
  void resize(std::int64_t rows) override { bytes.resize(static_cast<std::size_t>(rows) * row()); }
  std::shared_ptr<SliceMemory> memory() const override {
    Dims extent = line_->shape;
    extent.front() = count();
    return host_memory(line_->dtype, bytes.data(), const_cast<char*>(bytes.data()), extent, {});
  }

 private:
  std::size_t row() const {
    return static_cast<std::size_t>(line_->row_elements()) * dtype_size(line_->dtype);
  }
  const TableLine* line_;

 public:
  std::string bytes;
};

struct TableState::Held {
  std::vector<Box> boxes;
  std::vector<std::string> memory;
  std::shared_ptr<ByteRows> rows;
  std::vector<std::int64_t> ids;
  std::vector<std::string> texts;
};

TableState::TableState(const Group& group, const std::vector<TableLine>& lines, std::int64_t step)
    : lines_(lines), r_(group.rank()), n_(group.size()), step_(step) {
  held_.resize(lines_.size());
  for (const auto& line : lines_) add(line, held_[static_cast<std::size_t>(line.number)]);
}
TableState::~TableState() = default;

std::string TableState::check(Group& group, std::int64_t step) const {
  for (const auto& line : lines_) {
    const auto& held = held_[static_cast<std::size_t>(line.number)];
    bool right = true;
    for (std::size_t b = 0; b < held.boxes.size(); ++b) {
      right &= held.memory[b] == box_of(line, step, held.boxes[b]);
    }
    if (line.kind == "ragged") {
      const auto counts = all_gather(group, std::to_string(held.rows->count()));
      std::int64_t before = 0, all = 0;
      for (std::size_t rank = 0; rank < counts.size(); ++rank) {
        if (static_cast<int>(rank) < r_) before += std::stoll(counts[rank]);
        all += std::stoll(counts[rank]);
      }
      right &= all == line.shape[0] &&
               held.rows->bytes == rows_of(line, step, range(before, before + held.rows->count()));
    } else if (line.kind == "resizable") {
      right &= held.rows->bytes == rows_of(line, step, range(0, line.shape[0]));
    } else if (line.kind == "indexed") {
      right &= held.memory.front() == rows_of(line, step, held.ids);
    }
    for (std::size_t i = 0; i < held.texts.size(); ++i) {
      right &= held.texts[i] == text_of(line, step, static_cast<std::int64_t>(i));
    }
    if (!right) return line.key + " is not as it was saved";
  }
  return "";
}

Box TableState::block(const TableLine& line, std::size_t d) const {
  auto box = Box::whole(line.shape);
  if (line.shape.empty()) return box;
  box.start[d] = line.shape[d] * r_ / n_;
  box.extent[d] = line.shape[d] * (r_ + 1) / n_ - box.start[d];
  return box;
}

void TableState::add_boxes(const TableLine& line, Held& held) {
  std::vector<LocalTensor> parts;
  held.memory.reserve(held.boxes.size());
  for (const auto& box : held.boxes) {
    auto& bytes = held.memory.emplace_back(box_of(line, std::max<std::int64_t>(step_, 0), box));
    if (step_ < 0) bytes.assign(bytes.size(), '\x01');
    parts.push_back(
        slice(line.dtype, static_cast<void*>(bytes.data()), line.shape, box.start, box.extent));
  }
  auto tensor = parts.empty() ? nothing(line.dtype, line.shape) : patches(std::move(parts));
  state_.add(line.key, line.kind == "sparse" ? sparse(std::move(tensor), -1.0) : tensor);
}

void TableState::add(const TableLine& line, Held& held) {
  const bool saves = step_ >= 0;
  const auto rows = line.shape.empty() ? 0 : line.shape[0];
  const auto& kind = line.kind;
  if (kind == "strings") {
    held.texts.resize(static_cast<std::size_t>(element_count(line.shape)));
    for (std::size_t i = 0; saves && i < held.texts.size(); ++i) {
      held.texts[i] = text_of(line, step_, static_cast<std::int64_t>(i));
    }
    if (line.shape.empty()) {
      state_.add(line.key, held.texts.front());
    } else {
      state_.add(line.key, held.texts);
    }
  } else if (kind == "ragged" || kind == "resizable") {
    const auto mine = kind == "ragged" ? block(line, 0) : Box::whole(line.shape);
    held.rows = std::make_shared<ByteRows>(
        line,
        saves ? rows_of(line, step_, range(mine.start[0], mine.start[0] + mine.extent[0])) : "");
    const Dims row_shape(line.shape.begin() + 1, line.shape.end());
    state_.add(line.key, kind == "ragged" ? ragged(held.rows, line.dtype, row_shape)
                                          : resizable(held.rows, line.dtype, row_shape));
  } else if (kind == "indexed") {
    const auto mine = block(line, 0);
    held.ids = saves ? range(r_, rows, n_) : range(mine.start[0], mine.start[0] + mine.extent[0]);
    if (saves) std::reverse(held.ids.begin(), held.ids.end());
    held.memory.push_back(rows_of(line, std::max<std::int64_t>(step_, 0), held.ids));
    if (!saves) held.memory.front().assign(held.memory.front().size(), '\x01');
    Dims shape = line.shape;
    shape.front() = static_cast<std::int64_t>(held.ids.size());
    auto whole = slice(line.dtype, static_cast<void*>(held.memory.front().data()), shape,
                       Dims(shape.size(), 0), shape);
    state_.add(line.key, indexed(ids(&held.ids), std::move(whole)));
  } else {
    const auto last = line.shape.empty() ? 0 : line.shape.size() - 1;
    if (!saves) {
      held.boxes = {block(line, kind == "columns" ? 0 : last)};
    } else if (kind == "rows" || kind == "columns") {
      held.boxes = {block(line, kind == "rows" ? 0 : last)};
    } else if (kind == "whole" || (kind == "last" && r_ == n_ - 1)) {
      held.boxes = {Box::whole(line.shape)};
    } else if (kind == "turns" || kind == "sparse") {
      const std::int64_t by = kind == "sparse" ? 2 : 1;
      for (const auto row : range(by * r_, rows, by * n_)) {
        held.boxes.push_back(Box::whole(line.shape));
        held.boxes.back().start[0] = row;
        held.boxes.back().extent[0] = 1;
      }
    } else if (kind != "last") {
      throw std::runtime_error("a kind of the table that is not known here: " + kind);
    }
    add_boxes(line, held);
  }
}

}  // namespace cairn::test
