#pragma once
/// The tokens of protobuf's text format, split as Python's parser splits them, since TensorFlow
/// reads the state file with that parser.
#include <string>
#include <string_view>

namespace cairn::commit {

class TextFormat {
 public:
  /// The text must outlive this.
  explicit TextFormat(std::string_view text) : rest_(text) { next(); }

  bool at_end() const { return token_.empty(); }
  std::string take_token();
  bool take(std::string_view token);  ///< only if it is this one

  // The take functions return false, and leave the value unspecified, if another token is next.
  bool take_string(std::string& value);  ///< adjacent literals are one
  bool take_double(double& value);

  /// Takes one value, or a list "[1, 2]"; `take_value` takes each value.
  template <class Take>
  bool take_values(Take take_value) {
    if (!take("[")) return take_value();
    if (take("]")) return true;
    for (;;) {
      if (!take_value()) return false;
      if (take("]")) return true;
      if (!take(",")) return false;
    }
  }

 private:
  void next();
  void skip_space_and_comments();
  std::string_view rest_;   ///< after the token
  std::string_view token_;  ///< empty at the end
};

}  // namespace cairn::commit
