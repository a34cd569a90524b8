#include "io/local_path.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::io {
namespace {

// "s3" of "s3://bucket"; empty: the text is no address.
std::string_view scheme_of(std::string_view text) {
  const auto end = text.find("://");
  if (end == text.npos || end < 2) return {};
  const auto scheme = text.substr(0, end);
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '-';
  };
  return std::all_of(scheme.begin(), scheme.end(), letter) ? scheme : std::string_view();
}

}  // namespace

bool is_address(const Path& path) { return scheme_of(path.native()) == "s3"; }

Path absolute_path(const Path& path) {
  if (!is_address(path)) return std::filesystem::absolute(path).lexically_normal();
  auto text = path.native();
  while (text.ends_with('/')) text.pop_back();
  return text;
}

Path local_path(const Path& path) {
  const auto& text = path.native();
  // What becomes of an address that is made a normal path. As a path it would be a directory here.
  if (text.starts_with("s3:/") && !text.starts_with("s3://")) {
    throw Error(Code::invalid_argument, cat("'", text, "' is no address of a bucket"),
                "it has one slash where two belong, as paths have when they are made normal",
                "Give s3://BUCKET/DIRECTORY as a text; a directory s3: of yours is ./s3:.");
  }
  const auto scheme = scheme_of(text);
  if (scheme.empty() || is_address(path)) return path;
  auto rest = std::string_view(text).substr(scheme.size() + 3);
  if (scheme == "file") {
    // Such an address may name a host, and only this one has the file.
    constexpr std::string_view here = "localhost";
    if (rest.starts_with(here)) rest.remove_prefix(here.size());
    if (rest.starts_with('/')) return Path(rest);
    throw Error(Code::invalid_argument, cat("'", text, "' names no file of this machine"),
                "what follows file:// begins with /", "Write file:///DIRECTORY, or the path.");
  }
  throw Error(
      Code::unsupported, cat("'", text, "' is no path"),
      cat("Cairn saves in file systems and in buckets (s3://), and knows none for ", scheme, "://"),
      scheme == "gs" ? "Google's buckets speak S3, too: write s3:// and set AWS_ENDPOINT_URL to "
                       "https://storage.googleapis.com, or mount the bucket (gcsfuse) and set "
                       "WriteOptions::atomic_rename = false, since it has no atomic rename."
                     : "Give a path of a mounted file system.");
}

}  // namespace cairn::io
