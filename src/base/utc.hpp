#pragma once
/// Formats and parses times for people.
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

/// The end of the year 9999, in seconds since 1970. Later times are not printed.
inline constexpr double year_9999 = 253402300800.0;

/// "2026-11-22 14:05:00 UTC"; "no time" for a number before 1970 or after 9999: files may have any
/// number.
std::string utc_text(double seconds_since_1970);

/// Seconds since 1970 of a text such as "2026-11-22T14:05:00", taken as UTC. Nothing for any other
/// text.
std::optional<double> parse_utc(std::string_view text);

}  // namespace cairn
