#pragma once
/// Where checkpoints are.
#include <string>
#include <string_view>
#include <utility>

namespace cairn {

/// std::filesystem::path and the like.
template <class T>
concept PathLike = requires(const T& path) {
  T::preferred_separator;
  path.native();
};

/// A directory, or the beginning of file names, as its caller wrote it: "s3://bucket/run" keeps
/// both slashes, which a std::filesystem::path need not. Text and paths convert to it, and it to
/// paths, so that <filesystem>, a dear header, is included only by those who use it.
class PathText {
 public:
  PathText() = default;
  PathText(std::string text) : text_(std::move(text)) {}
  PathText(std::string_view text) : text_(text) {}
  PathText(const char* text) : text_(text) {}
  template <PathLike Path>
  PathText(const Path& path) : text_(path.string()) {}

  const std::string& string() const { return text_; }
  bool empty() const { return text_.empty(); }

  template <PathLike Path>
  operator Path() const {
    return Path(text_);
  }

  /// The name in this directory.
  friend PathText operator/(const PathText& directory, std::string_view name) {
    const bool joined = directory.empty() || directory.text_.back() == '/';
    return directory.text_ + (joined ? "" : "/") + std::string(name);
  }
  bool operator==(const PathText&) const = default;

 private:
  std::string text_;
};

}  // namespace cairn
