#pragma once
/// Escapes text inside XML, SVG and HTML.
#include <string>
#include <string_view>

namespace cairn {

/// Escapes the characters that have a meaning in markup. Characters that are not shown to people
/// (first_character()) become question marks.
std::string escaped(std::string_view text);

}  // namespace cairn
