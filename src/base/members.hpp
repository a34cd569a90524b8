#pragma once
/// Lists the members of a struct for messages (base/wire.hpp). In a struct without constructors all
/// members are found, so that none can be forgotten.
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cairn {

/// For a struct of which only some members travel: a std::tuple of pointers to these members.
template <class T>
inline constexpr std::nullptr_t travels = nullptr;

namespace wire {

/// Converts to anything, so that T{Anything, …} compiles for as many values as T has members, or
/// fewer.
struct Anything {
  template <class T>
  operator T() const;
};
/// An Anything for each index of a sequence.
template <std::size_t>
using Nth = Anything;
template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { T{Nth<I>()...}; };
}

/// The number of members of T. Of a struct with more than 12, with_members() does not compile: its
/// last list has too few names.
template <class T, std::size_t Most = 12>
constexpr std::size_t count_members() {
  if constexpr (Most == 0 || takes<T>(std::make_index_sequence<Most>())) {
    return Most;
  } else {
    return count_members<T, Most - 1>();
  }
}

/// Calls `visit` with all members that travel.
template <class T, class Visit>
decltype(auto) with_members(T& one, const Visit& visit) {
  using Struct = std::remove_const_t<T>;
  if constexpr (!std::is_null_pointer_v<std::remove_const_t<decltype(travels<Struct>)>>) {
    return std::apply([&](auto... member) { return visit(one.*member...); }, travels<Struct>);
  } else if constexpr (requires { std::tuple_size<Struct>::value; }) {
    // A std::pair, std::tuple or std::array.
    return std::apply(visit, one);
  } else {
    static_assert(std::is_class_v<Struct> && std::is_aggregate_v<Struct>,
                  "only structs without constructors travel");
    constexpr auto count = count_members<Struct>();
    if constexpr (count == 1) {
      auto& [a] = one;
      return visit(a);
    } else if constexpr (count == 2) {
      auto& [a, b] = one;
      return visit(a, b);
    } else if constexpr (count == 3) {
      auto& [a, b, c] = one;
      return visit(a, b, c);
    } else if constexpr (count == 4) {
      auto& [a, b, c, d] = one;
      return visit(a, b, c, d);
    } else if constexpr (count == 5) {
      auto& [a, b, c, d, e] = one;
      return visit(a, b, c, d, e);
    } else if constexpr (count == 6) {
      auto& [a, b, c, d, e, f] = one;
      return visit(a, b, c, d, e, f);
    } else if constexpr (count == 7) {
      auto& [a, b, c, d, e, f, g] = one;
      return visit(a, b, c, d, e, f, g);
    } else if constexpr (count == 8) {
      auto& [a, b, c, d, e, f, g, h] = one;
      return visit(a, b, c, d, e, f, g, h);
    } else if constexpr (count == 9) {
      auto& [a, b, c, d, e, f, g, h, i] = one;
      return visit(a, b, c, d, e, f, g, h, i);
    } else if constexpr (count == 10) {
      auto& [a, b, c, d, e, f, g, h, i, j] = one;
      return visit(a, b, c, d, e, f, g, h, i, j);
    } else if constexpr (count == 11) {
      auto& [a, b, c, d, e, f, g, h, i, j, k] = one;
      return visit(a, b, c, d, e, f, g, h, i, j, k);
    } else {
      auto& [a, b, c, d, e, f, g, h, i, j, k, l] = one;
      return visit(a, b, c, d, e, f, g, h, i, j, k, l);
    }
  }
}

template <class T>
constexpr bool is_plain();

/// The size in bytes of all members together if all are plain, else 0.
struct ArePlain {
  template <class... Members>
  constexpr auto operator()(const Members&...) const {
    constexpr bool plain = (is_plain<Members>() && ...);
    return std::integral_constant < std::size_t, plain ? (sizeof(Members) + ...) : 0 > ();
  }
};

/// Numbers, enums, and structs of them without padding. A struct with references is not plain: it
/// cannot be assigned.
template <class T>
constexpr bool is_plain() {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    return true;
  } else if constexpr (std::is_aggregate_v<T> && std::is_trivially_copyable_v<T> &&
                       std::is_copy_assignable_v<T>) {
    return decltype(with_members(std::declval<const T&>(), ArePlain()))::value == sizeof(T);
  } else {
    return false;
  }
}

/// Whether T holds its elements as one array of plain values.
template <class T>
constexpr bool is_row() {
  if constexpr (requires(const T& row) { row.data() + row.size(); }) {
    return is_plain<typename T::value_type>();
  } else {
    return false;
  }
}

/// The type of one element of a list or map, as a message holds it. A map's own value_type has a
/// const key, which cannot be assigned.
template <class List>
struct ElementOf {
  using Type = typename List::value_type;
};
template <class Map>
requires requires { typename Map::mapped_type; }
struct ElementOf<Map> {
  using Type = std::pair<typename Map::key_type, typename Map::mapped_type>;
};

}  // namespace wire

}  // namespace cairn
