#pragma once
/// Text inside of XML, SVG and HTML.
#include <string>
#include <string_view>

namespace cairn {

/// What has a meaning in markup is spelled out, what people are not shown (first_character())
/// becomes question marks.
std::string escaped(std::string_view text);

}  // namespace cairn
