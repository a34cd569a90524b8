#include "cairn/error.hpp"

#include "base/text.hpp"

namespace cairn {
namespace {

// Keys and names in it may be anybody's. What an application says of itself may have several lines.
std::string shown(Code code, std::string text) {
  return printable(text, code == Code::application);
}

}  // namespace

const char* code_name(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::not_found:
      return "not_found";
    case Code::already_exists:
      return "already_exists";
    case Code::disagreement:
      return "disagreement";
    case Code::coverage:
      return "coverage";
    case Code::sharding:
      return "sharding";
    case Code::data_loss:
      return "data_loss";
    case Code::io:
      return "io";
    case Code::no_space:
      return "no_space";
    case Code::busy:
      return "busy";
    case Code::unsupported:
      return "unsupported";
    case Code::communication:
      return "communication";
    case Code::durability_unknown:
      return "durability_unknown";
    case Code::internal:
      return "internal";
    case Code::application:
      return "application";
  }
  return "unknown";
}

Error::Error(Code code, std::string problem, std::string reason, std::string way_out)
    : code_(code),
      problem_(shown(code, std::move(problem))),
      reason_(shown(code, std::move(reason))),
      way_out_(shown(code, std::move(way_out))) {
  compose();
}

Error& Error::compose() {
  text_ = problem_;
  // Most problems name their file already.
  const auto path = printable(path_);
  if (!path.empty() && text_.find(path) == std::string::npos) text_ += ": " + path;
  if (!reason_.empty()) text_ += " (" + reason_ + ")";
  if (!way_out_.empty()) text_ += ". " + way_out_;
  return *this;
}

}  // namespace cairn
