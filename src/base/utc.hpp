#pragma once
/// Times as people read them.
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

/// Where calendars end here, in seconds since 1970.
inline constexpr double year_9999 = 253402300800.0;

/// "2026-11-22 14:05:00 UTC"; "no time" for what no calendar holds: files may have any number.
std::string utc_text(double seconds_since_1970);

/// "2026-11-22T14:05:00", taken as UTC: seconds since 1970. Nothing for anything else.
std::optional<double> parse_utc(std::string_view text);

}  // namespace cairn
