#include "cairn/error.hpp"

#include <utility>

#include "base/text.hpp"

namespace cairn {
namespace {

// The parts of an error may contain keys and names that anybody chose. Only texts of an application
// may have several lines.
std::string shown(Code code, std::string text) {
  return printable(text, code == Code::application);
}

constexpr std::pair<Code, const char*> code_names[] = {
    {Code::invalid_argument, "invalid_argument"},
    {Code::not_found, "not_found"},
    {Code::already_exists, "already_exists"},
    {Code::disagreement, "disagreement"},
    {Code::coverage, "coverage"},
    {Code::sharding, "sharding"},
    {Code::data_loss, "data_loss"},
    {Code::io, "io"},
    {Code::no_space, "no_space"},
    {Code::busy, "busy"},
    {Code::unsupported, "unsupported"},
    {Code::communication, "communication"},
    {Code::durability_unknown, "durability_unknown"},
    {Code::internal, "internal"},
    {Code::application, "application"},
    {Code::unavailable, "unavailable"}};

}  // namespace

const char* code_name(Code code) {
  for (const auto& [one, name] : code_names) {
    if (one == code) return name;
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

// Here, and not in each file that throws.
Error::Error(const Error&) = default;
Error::Error(Error&&) noexcept = default;
Error& Error::operator=(const Error&) = default;
Error& Error::operator=(Error&&) noexcept = default;
Error::~Error() = default;

// Makes the text that what() returns, anew when a path is added.
Error& Error::compose() {
  text_ = problem_;
  // Most problems already name their file.
  const auto path = printable(path_);
  if (!path.empty() && text_.find(path) == std::string::npos) text_ += ": " + path;
  if (!reason_.empty()) text_ += " (" + reason_ + ")";
  if (!way_out_.empty()) text_ += ". " + way_out_;
  return *this;
}

}  // namespace cairn
