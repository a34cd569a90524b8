#pragma once
/// Messages between ranks of one job: little helpers to put values into a byte string and to take
/// them out again, bounds checked. Never stored on disk.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cairn/error.hpp"

namespace cairn {

class WireWriter {
 public:
  template <class T>
  requires(std::is_trivially_copyable_v<T> &&
           !std::is_convertible_v<T, std::string_view>) WireWriter& put(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  WireWriter& put(std::string_view text) {
    put(std::uint64_t{text.size()});
    bytes_.append(text);
    return *this;
  }
  template <class T>
  WireWriter& put(const std::vector<T>& values) {
    put(std::uint64_t{values.size()});
    for (const auto& value : values) put(value);
    return *this;
  }
  /// An array of numbers, with its length.
  template <class T>
  WireWriter& put_row(const T* values, std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    put(std::uint64_t{count});
    bytes_.append(reinterpret_cast<const char*>(values), count * sizeof(T));
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  T get() {
    if constexpr (std::is_same_v<T, std::string>) {
      return std::string(bytes(get<std::uint64_t>()));
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      T value;
      std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
      return value;
    }
  }
  template <class T>
  std::vector<T> get_all() {
    const auto count = get<std::uint64_t>();
    std::vector<T> values;
    values.reserve(std::min<std::uint64_t>(count, rest_.size()));
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(get<T>());
    return values;
  }
  /// Reads what put_row() wrote into something with resize() and data().
  template <class Row>
  void get_row(Row& values) {
    using T = typename Row::value_type;
    const auto count = get<std::uint64_t>();
    if (count > rest_.size() / sizeof(T)) too_short();
    values.resize(count);
    std::copy_n(bytes(count * sizeof(T)).data(), count * sizeof(T),
                reinterpret_cast<char*>(values.data()));
  }
  bool empty() const { return rest_.empty(); }
  /// Room for so many things to come, as far as the message is long enough for them.
  std::size_t room_for(std::uint64_t count) const {
    return static_cast<std::size_t>(std::min<std::uint64_t>(count, rest_.size()));
  }

 private:
  std::string_view bytes(std::uint64_t count) {
    if (count > rest_.size()) too_short();
    const auto front = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return front;
  }
  [[noreturn]] static void too_short() {
    throw Error(Code::internal, "a message between ranks is too short");
  }
  std::string_view rest_;
};

}  // namespace cairn
