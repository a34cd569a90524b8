#include "c/c_text.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::c {
namespace {

class FixedText final : public StringMemory {
 public:
  FixedText(char* first, std::size_t count, std::size_t capacity, std::ptrdiff_t stride,
            char padding)
      : first_(first), count_(count), capacity_(capacity), stride_(stride), padding_(padding) {}

  std::vector<std::string> get() const override {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < count_; ++i) {
      std::string text(at(i), capacity_);
      if (padding_ == '\0') {
        text.resize(std::min(text.find('\0'), text.size()));
      } else {
        text.resize(text.find_last_not_of(padding_) + 1);
      }
      all.push_back(std::move(text));
    }
    return all;
  }

  void set(std::vector<std::string> values) override {
    const auto longest = capacity_ - (padding_ == '\0' && capacity_ > 0 ? 1 : 0);
    for (const auto& value : values) {
      if (value.size() <= longest) continue;
      throw Error(
          Code::invalid_argument,
          cat("a stored text has ", value.size(), " bytes, but there is room for ", longest), "",
          "Give more memory for it.");
    }
    for (std::size_t i = 0; i < count_; ++i) {
      const auto& value = values.at(i);
      std::memcpy(at(i), value.data(), value.size());
      std::memset(at(i) + value.size(), padding_, capacity_ - value.size());
    }
  }

  Footprint footprint() const override {
    if (count_ == 0 || capacity_ == 0) return {};
    const auto end = static_cast<std::ptrdiff_t>(count_ - 1) * stride_;
    const auto length = std::abs(end) + static_cast<std::ptrdiff_t>(capacity_);
    return {
        reinterpret_cast<const std::byte*>(first_ + std::min<std::ptrdiff_t>(end, 0)), {}, length};
  }

 private:
  char* at(std::size_t index) const {
    return first_ + static_cast<std::ptrdiff_t>(index) * stride_;
  }

  char* first_;
  std::size_t count_, capacity_;
  std::ptrdiff_t stride_;
  char padding_;
};

}  // namespace

std::shared_ptr<StringMemory> fixed_text(char* first, std::size_t count, std::size_t capacity,
                                         std::ptrdiff_t stride, char padding) {
  return std::make_shared<FixedText>(first, count, capacity, stride, padding);
}

}  // namespace cairn::c
