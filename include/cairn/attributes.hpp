#pragma once
/// Descriptions of tensors and of a checkpoint: units, names of dimensions, coordinates, and any
/// values that the application wants to find again (docs/attributes.md).
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

/// A value: true or false, a number, a text, or any other JSON value. Numbers keep their bits. JSON
/// has no numbers that are not finite, so these are refused.
class Attribute {
 public:
  /// An integer is unsigned only from 2^63 on. An array, an object or null is read back as Json;
  /// the members of an object are in the order of their names.
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
  /// A list, which becomes Json.
  Attribute(const std::vector<double>& list);
  Attribute(const std::vector<std::int64_t>& list);
  Attribute(const std::vector<std::string>& list);

  const Value& value() const { return value_; }
  /// The text of the value in JSON, whichever type value() has.
  std::string json() const;
  bool operator==(const Attribute&) const = default;

 private:
  Value value_;
};

using Attributes = std::map<std::string, Attribute>;

/// The description of one tensor, or of a group of tensors, which has only attributes.
struct Description {
  std::string units = {};  ///< "m/s"; empty: none are given
  /// One name for each dimension of the tensor, slowest first: {"y", "x"}. A tensor of one
  /// dimension with that name and extent, beside this tensor or in a group above it, is an axis: it
  /// holds the positions of the indices.
  std::vector<std::string> dimensions = {};
  /// Keys of further tensors that hold the positions of elements, such as longitudes and latitudes
  /// of a curved grid. They are looked up in the same places as axes.
  std::vector<std::string> coordinates = {};
  Attributes attributes = {};

  bool operator==(const Description&) const = default;
  bool empty() const { return *this == Description{}; }
};

/// All descriptions of a state or of a checkpoint. Ranks that describe the same key must give the
/// same values; a description that only some ranks give counts. All of it is at most 64 MiB of
/// JSON, nested to at most 32 levels, since it is read whenever a checkpoint is opened. Names are
/// UTF-8, not empty and without a zero byte; names of dimensions have no '/', and coordinates no
/// blank. Names that HDF5 or netCDF reserve (CLASS, NAME, dtype, …) are refused in both formats.
/// State::describe throws invalid_argument, with the key, if these rules are broken, and so does a
/// save for its own attributes. The save finds the errors that only all ranks together can see (no
/// tensor has a key, ranks disagree, the size is too large), and throws them on all ranks.
struct Descriptions {
  Attributes attributes = {};                      ///< of the whole checkpoint
  std::map<std::string, Description> by_key = {};  ///< of tensors and groups of tensors

  bool operator==(const Descriptions&) const = default;
  bool empty() const { return attributes.empty() && by_key.empty(); }
};

}  // namespace cairn
