#include "support/sample_state.hpp"

#include <cstring>

#include "base/text.hpp"

namespace cairn::test {
namespace {

constexpr std::byte poison_byte{0xcd};

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The bits that may be set in the first byte: types smaller than a byte leave its high bits zero.
std::byte valid_bits(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return std::byte{1};
    case DType::int2:
    case DType::uint2:
      return std::byte{3};
    case DType::int4:
    case DType::uint4:
    case DType::float4_e2m1fn:
      return std::byte{15};
    default:
      return std::byte{255};
  }
}

}  // namespace

Elements::Elements(const Sample& sample, std::uint64_t version)
    : seed_(version), size_(dtype_size(sample.dtype)), valid_(valid_bits(sample.dtype)) {
  for (const char c : sample.key) seed_ = mix(seed_ ^ static_cast<unsigned char>(c));
}

void Elements::bytes(std::int64_t index, std::byte* out) const {
  for (std::size_t i = 0; i < size_; i += 8) {
    const auto word = mix(seed_ ^ mix(static_cast<std::uint64_t>(index) * 2 + i / 8));
    std::memcpy(out + i, &word, std::min<std::size_t>(8, size_ - i));
  }
  out[0] &= valid_;
}

void element_bytes(const Sample& sample, std::int64_t index, std::uint64_t version,
                   std::byte* out) {
  Elements(sample, version).bytes(index, out);
}

std::vector<Box> guillotine(const Dims& shape, int n, std::mt19937& random) {
  std::vector<Box> boxes{Box::whole(shape)};
  for (int tries = 0; tries < 4 * n && static_cast<int>(boxes.size()) < n; ++tries) {
    const auto which = random() % boxes.size();
    if (shape.empty() || boxes[which].empty()) break;
    const auto d = random() % shape.size();
    const auto extent = boxes[which].extent[d];
    if (extent < 2) continue;
    const auto cut = 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(extent - 1));
    Box rest = boxes[which];
    boxes[which].extent[d] = cut;
    rest.start[d] += cut;
    rest.extent[d] -= cut;
    boxes.push_back(rest);
  }
  return boxes;
}

std::vector<std::vector<Box>> deal(const std::vector<Box>& pieces, int ranks, bool replicas,
                                   std::mt19937& random) {
  std::vector<std::vector<Box>> held(static_cast<std::size_t>(ranks));
  for (const auto& piece : pieces) {
    const auto owner = random() % held.size();
    held[owner].push_back(piece);
    if (!replicas || random() % 3 != 0) continue;
    const auto second = random() % held.size();
    if (second != owner) held[second].push_back(piece);
  }
  return held;
}

template <class Visit>
void SampleState::each_element(const Part& part, const Visit& visit) {
  const auto global = row_major_strides(part.sample.shape);
  const auto inner = row_major_strides(part.box.extent);
  const auto count = part.box.count();
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, index = 0, at = part.first;
    for (std::size_t d = 0; d < global.size(); ++d) {
      const auto local = rest / inner[d];
      rest %= inner[d];
      index += (part.box.start[d] + local) * global[d];
      at += local * part.strides[d];
    }
    visit(index, at);
  }
}

void SampleState::add(const Sample& sample, const std::vector<Box>& boxes, int style,
                      const Mark& mark) {
  const auto item = static_cast<std::int64_t>(dtype_size(sample.dtype));
  std::vector<LocalTensor> slices;
  for (const auto& box : boxes) {
    Part part{sample, box, {}, 0, {}};
    Dims around = box.extent;
    if (style == 1) {
      for (auto& extent : around) extent += 2;
    }
    if (style == 2) {
      std::int64_t stride = 1;
      for (const auto extent : around) {
        part.strides.push_back(stride);
        stride *= std::max<std::int64_t>(extent, 1);
      }
    } else {
      part.strides = row_major_strides(around);
    }
    if (style == 1) {
      for (const auto stride : part.strides) part.first += stride;
    }
    part.memory.assign(
        static_cast<std::size_t>(std::max<std::int64_t>(1, element_count(around)) * item),
        poison_byte);
    parts_.push_back(std::move(part));
    auto& kept = parts_.back();
    slices.push_back(slice(sample.dtype, static_cast<void*>(kept.memory.data() + kept.first * item),
                           sample.shape, box.start, box.extent, kept.strides));
  }
  auto tensor = slices.empty() ? nothing(sample.dtype, sample.shape) : patches(std::move(slices));
  state_.add(sample.key, mark ? mark(std::move(tensor)) : std::move(tensor));
}

void SampleState::add_string(const std::string& key, std::vector<std::string> values) {
  strings_.push_back(std::move(values));
  state_.add(key, strings_.back());
}

void SampleState::fill() {
  for (auto& part : parts_) {
    const auto item = static_cast<std::int64_t>(dtype_size(part.sample.dtype));
    const Elements elements(part.sample, version_);
    each_element(part, [&](std::int64_t index, std::int64_t at) {
      elements.bytes(index, part.memory.data() + at * item);
    });
  }
}

void SampleState::poison() {
  for (auto& part : parts_) std::fill(part.memory.begin(), part.memory.end(), poison_byte);
  for (auto& values : strings_) {
    for (auto& value : values) value = "poison";
  }
}

std::string SampleState::check(std::uint64_t version) const {
  for (const auto& part : parts_) {
    const auto item = static_cast<std::size_t>(dtype_size(part.sample.dtype));
    std::string wrong;
    std::vector<bool> inside(part.memory.size() / item);
    const Elements elements(part.sample, version);
    each_element(part, [&](std::int64_t index, std::int64_t at) {
      std::byte right[16];
      elements.bytes(index, right);
      inside[static_cast<std::size_t>(at)] = true;
      if (wrong.empty() &&
          std::memcmp(right, part.memory.data() + static_cast<std::size_t>(at) * item, item) != 0) {
        wrong = cat(part.sample.key, " ", shape_text(part.sample.shape), " ", box_text(part.box),
                    ": element ", index, " is wrong");
      }
    });
    for (std::size_t i = 0; wrong.empty() && i < inside.size(); ++i) {
      for (std::size_t b = 0; !inside[i] && b < item; ++b) {
        if (part.memory[i * item + b] != poison_byte)
          wrong = part.sample.key + ": a halo was written";
      }
    }
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace cairn::test
