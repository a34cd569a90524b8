#pragma once
/// Members and numbers of a JSON text that anybody may have written. nlohmann::json has undefined
/// behaviour for two of them: it reads a missing member of a const object from invalid memory, and
/// it converts a number such as 1e29 to an integer with a C++ cast. Its parser and its writer are
/// compiled in one file, for they take a second in each that uses them.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace cairn {

/// Parses a JSON text, in any locale. If it is not JSON, throws or returns a value of type
/// `discarded`.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text, bool throws = true);
extern template nlohmann::json parse_json(std::string_view, bool);
extern template nlohmann::ordered_json parse_json(std::string_view, bool);

/// What becomes of bytes that are not UTF-8 in a text of a value that is written.
enum class NotUtf8 { throws, replaced };

/// The value as JSON. `indent`: spaces by level; below 0: all in one line.
template <class Json>
std::string dump_json(const Json& value, NotUtf8 not_utf8, int indent = -1);
extern template std::string dump_json(const nlohmann::json&, NotUtf8, int);
extern template std::string dump_json(const nlohmann::ordered_json&, NotUtf8, int);

/// The member of this name. Null if there is none, or if `object` is no object.
inline const nlohmann::json* find_member(const nlohmann::json& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() ? nullptr : &*at;
}

/// Whether the value is an integer in the range of T.
template <class T>
bool is_whole(const nlohmann::json& value) {
  return value.is_number_unsigned()
             ? std::in_range<T>(value.get<std::uint64_t>())
             : value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
}

/// The value as a T. If it is none, calls `bad` with the reason; `bad` throws.
template <class T, class Bad>
T whole(const nlohmann::json& value, Bad&& bad) {
  if (!is_whole<T>(value)) bad(cat("a number is no integer of ", sizeof(T) * 8, " bits"));
  return value.get<T>();
}

/// The same for a list of them.
template <class T, class Bad>
std::vector<T> whole_numbers(const nlohmann::json& list, Bad&& bad) {
  if (!list.is_array()) bad("there is no list of numbers");
  std::vector<T> numbers;
  numbers.reserve(list.size());
  for (const auto& value : list) numbers.push_back(whole<T>(value, bad));
  return numbers;
}

}  // namespace cairn
