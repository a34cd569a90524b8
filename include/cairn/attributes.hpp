#pragma once
/// What is said of tensors and of a checkpoint beside their values: units, names of dimensions,
/// coordinates, and whatever the application wants to find again (docs/attributes.md).
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

/// The text of a JSON value: Json{"[0.5, 2]"}. State::describe checks it.
struct Json {
  std::string text;
  bool operator==(const Json&) const = default;
};

/// A value: true or false, a number, a text, or anything else that JSON has. Numbers keep their
/// bits; those that are not finite have no place in JSON, and are refused.
class Attribute {
 public:
  /// Integers are unsigned only above 2^63. What is read back is Json where it is an array, an
  /// object or null, its members in the order of their names.
  using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string, Json>;

  Attribute(bool value) : value_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool> && !std::same_as<T, char>) Attribute(T value) {
    if (std::in_range<std::int64_t>(value)) {
      value_ = static_cast<std::int64_t>(value);
    } else {
      value_ = static_cast<std::uint64_t>(value);
    }
  }
  template <std::floating_point T>
  Attribute(T value) : value_(static_cast<double>(value)) {}
  Attribute(std::string text) : value_(std::move(text)) {}
  Attribute(std::string_view text) : value_(std::string(text)) {}
  Attribute(const char* text) : value_(std::string(text)) {}
  Attribute(Json json) : value_(std::move(json)) {}
  /// Lists, which become Json.
  Attribute(const std::vector<double>& list);
  Attribute(const std::vector<std::int64_t>& list);
  Attribute(const std::vector<std::string>& list);

  const Value& value() const { return value_; }
  /// The value as JSON, also where it is not Json.
  std::string json() const;
  bool operator==(const Attribute&) const = default;

 private:
  Value value_;
};

using Attributes = std::map<std::string, Attribute>;

/// Of one tensor, or of a group of tensors, which has attributes only.
struct Description {
  std::string units = {};  ///< "m/s"; empty: none are given
  /// One name for each dimension of the tensor, slowest first: {"y", "x"}. A tensor of one
  /// dimension with that name and extent, beside this one or in a group above it, says where the
  /// indices lie: an axis.
  std::vector<std::string> dimensions = {};
  /// Keys of further tensors that say where elements lie, such as longitudes and latitudes of a
  /// curved grid; looked for as axes are.
  std::vector<std::string> coordinates = {};
  Attributes attributes = {};

  bool operator==(const Description&) const = default;
  bool empty() const { return *this == Description{}; }
};

/// All that is said of the tensors of a state or of a checkpoint. Ranks that speak of the same key
/// must say the same; what only some ranks say counts. Together at most 64 MiB of JSON, nested to
/// at most 32 levels: it is read with each look at a checkpoint. Names are UTF-8, not empty and
/// without a zero byte; names of dimensions have no '/', and coordinates no blank. What HDF5 or
/// netCDF keep for themselves (CLASS, NAME, dtype, …) is refused, in either format. State::describe
/// throws invalid_argument with the key for anything else, and so does a save for its own
/// attributes. What ranks know only together (that a key is no tensor's, that they disagree, that
/// it is too much) the save finds out, and throws on all of them.
struct Descriptions {
  Attributes attributes = {};                      ///< of the whole checkpoint
  std::map<std::string, Description> by_key = {};  ///< of tensors and groups of tensors

  bool operator==(const Descriptions&) const = default;
  bool empty() const { return attributes.empty() && by_key.empty(); }
};

}  // namespace cairn
