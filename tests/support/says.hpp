/// Tests check a message's code and fields, and its words through one table (golden/messages.inc):
/// so a change of words changes one file.
#pragma once

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <string_view>

namespace cairn::test {

/// The library's words for a phrase of the table. A phrase that is not in it fails the test.
inline std::string wording(std::string_view phrase) {
#define SAYS(phrase) {phrase, phrase},
#define SAYS_NOW(phrase, words) {phrase, words},
  static const std::map<std::string_view, std::string_view> table = {
#include "golden/messages.inc"
  };
#undef SAYS
#undef SAYS_NOW
  const auto found = table.find(phrase);
  if (found == table.end()) {
    ADD_FAILURE() << "tests/golden/messages.inc has no line SAYS(\"" << phrase << "\")";
    return std::string(phrase);
  }
  return std::string(found->second);
}

/// Matches a text that contains these words.
inline auto Says(std::string_view phrase) { return testing::HasSubstr(wording(phrase)); }

}  // namespace cairn::test
