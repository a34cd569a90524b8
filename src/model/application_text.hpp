#pragma once
/// The application that saved, for people.
#include <string>

#include "base/text.hpp"
#include "cairn/application.hpp"

namespace cairn {

/// The application in one line: "ocean 2.1, commit f3a9c0". Empty if it is not known.
inline std::string application_text(const Application& by) {
  if (by.empty()) return "";
  return cat(by.name.empty() ? "no name" : by.name, by.version.empty() ? "" : cat(" ", by.version),
             by.commit.empty() ? "" : cat(", commit ", by.commit));
}

}  // namespace cairn
