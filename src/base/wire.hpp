#pragma once
/// Messages between ranks of one job, never stored on disk. A message is a struct, or a list of
/// structs one after the other. The members of the struct are what is sent and received, so both
/// ends share one description.
///
///     struct Ask {
///       int chunk;
///       Box box;
///     };
///     bytes = pack(Ask{3, box});
///     const auto asked = unpack<Ask>(bytes);
///
/// Members are numbers, bools, enums, texts, optionals, pairs, containers like a vector, a set or a
/// map, and such structs, with at most 12 members. An array of numbers is copied as it is. A
/// received std::string_view points into the message.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/members.hpp"
#include "cairn/error.hpp"

namespace cairn {

/// Appends the value to these bytes.
template <class T>
void pack_into(std::string& out, const T& value) {
  const auto put = [&](const void* bytes, std::size_t count) {
    out.append(static_cast<const char*>(bytes), count);
  };
  if constexpr (wire::is_plain<T>()) {
    put(&value, sizeof value);
  } else if constexpr (wire::is_row<T>()) {
    // The length, then all elements with one copy.
    pack_into(out, std::uint64_t{value.size()});
    put(value.data(), value.size() * sizeof(typename T::value_type));
  } else if constexpr (requires { value.has_value(); }) {
    pack_into(out, value.has_value());
    if (value) pack_into(out, *value);
  } else if constexpr (requires { value.begin(); }) {
    pack_into(out, std::uint64_t{value.size()});
    // Not auto: an element of a std::vector<bool> may be an object that stands for it.
    for (const typename T::value_type& one : value) pack_into(out, one);
  } else {
    wire::with_members(value, [&](const auto&... members) { (pack_into(out, members), ...); });
  }
}

template <class T>
std::string pack(const T& value) {
  std::string bytes;
  pack_into(bytes, value);
  return bytes;
}

/// Packs the elements of a list one after the other, without their number.
template <class List>
std::string pack_each(const List& list) {
  std::string bytes;
  for (const auto& one : list) pack_into(bytes, one);
  return bytes;
}

/// Takes values from a message, in the order in which they were packed. Throws Code::internal if
/// the message ends too early. The bytes must outlive it.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  T get() {
    T value{};
    take(value);
    return value;
  }
  /// How many elements to reserve for: `count`, but no more than the message has bytes.
  std::size_t room_for(std::uint64_t count) const {
    return static_cast<std::size_t>(std::min<std::uint64_t>(count, rest_.size()));
  }
  bool empty() const { return rest_.empty(); }

 private:
  template <class T>
  void take(T& value) {
    if constexpr (wire::is_plain<T>()) {
      std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      value = bytes(get<std::uint64_t>());
    } else if constexpr (wire::is_row<T>()) {
      using Number = typename T::value_type;
      const auto count = get<std::uint64_t>();
      // Before the list gets its memory: a wrong number could ask for any amount.
      if (count > rest_.size() / sizeof(Number)) too_short();
      value.resize(count);
      std::copy_n(bytes(count * sizeof(Number)).data(), count * sizeof(Number),
                  reinterpret_cast<char*>(value.data()));
    } else if constexpr (requires { value.has_value(); }) {
      value.reset();
      if (get<bool>()) take(value.emplace());
    } else if constexpr (requires { value.begin(); }) {
      auto left = get<std::uint64_t>();
      value.clear();
      if constexpr (requires { value.reserve(left); }) {
        value.reserve(room_for(left));
      }
      for (; left > 0; --left) value.insert(value.end(), get<typename wire::ElementOf<T>::Type>());
    } else {
      wire::with_members(value, [&](auto&... members) { (take(members), ...); });
    }
  }
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

template <class T>
T unpack(std::string_view bytes) {
  return WireReader(bytes).get<T>();
}

/// Iterates over all values of type T in a message, one after the other.
template <class T>
class UnpackEach {
 public:
  explicit UnpackEach(std::string_view bytes) : in_(bytes) {}

  struct End {};
  class Iterator {
   public:
    explicit Iterator(WireReader& in) : in_(in) { ++*this; }
    T& operator*() { return one_; }
    Iterator& operator++() {
      ended_ = in_.empty();
      if (!ended_) one_ = in_.get<T>();
      return *this;
    }
    bool operator!=(End) const { return !ended_; }

   private:
    WireReader& in_;
    T one_{};
    bool ended_ = false;
  };
  Iterator begin() { return Iterator(in_); }
  End end() { return {}; }

 private:
  WireReader in_;
};

template <class T>
UnpackEach<T> unpack_each(std::string_view bytes) {
  return UnpackEach<T>(bytes);
}
// The result points into the message, which would be gone.
template <class T>
UnpackEach<T> unpack_each(std::string&&) = delete;

/// Appends all values of type T in a message to a list.
template <class T>
void unpack_into(std::vector<T>& all, std::string_view bytes) {
  for (auto& one : unpack_each<T>(bytes)) all.push_back(std::move(one));
}

template <class T>
std::vector<T> unpack_all(std::string_view bytes) {
  std::vector<T> all;
  unpack_into(all, bytes);
  return all;
}

/// A list that is packed while it is made. It takes less memory than structs. It can be a member of
/// a message.
template <class T>
struct Packed {
  std::string bytes = {};

  Packed& add(const T& one) {
    pack_into(bytes, one);
    return *this;
  }
  UnpackEach<T> each() const& { return unpack_each<T>(bytes); }
  UnpackEach<T> each() && = delete;
  bool operator==(const Packed&) const = default;
};

/// One message for each rank in `outgoing`.
template <class Outgoing>
std::vector<std::pair<int, std::string>> messages_of(Outgoing outgoing) {
  std::vector<std::pair<int, std::string>> messages;
  messages.reserve(outgoing.size());
  for (auto& [rank, message] : outgoing) {
    if constexpr (requires(typename Outgoing::mapped_type one) { one.each(); }) {
      messages.emplace_back(rank, std::move(message.bytes));
    } else {
      // Frees each list when it has been packed.
      messages.emplace_back(rank, pack(std::exchange(message, {})));
    }
  }
  return messages;
}

}  // namespace cairn
