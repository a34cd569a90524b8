#pragma once
/// What a file is to hold.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "io/file_system.hpp"

namespace cairn::io {

/// Bytes that are there, or that are made piece by piece each time that they are written, so that
/// they need never be in memory as a whole: an index of 10⁷ slices has most of a GiB, and a save
/// writes it twice. To make it again takes less than a second. A file that such bytes overwrite
/// cannot be chosen by their length, so what is too long is cut off afterwards. Cheap to copy; its
/// functions may be called by several threads if what makes the pieces may.
class Content {
 public:
  using Take = std::function<void(std::string_view)>;
  Content(std::string bytes);  // NOLINT: a string is a content
  explicit Content(std::function<void(const Take&)> make) : make_(std::move(make)) {}

  /// Gives all bytes, in order.
  void give(const Take& take) const { make_(take); }
  std::string whole() const;
  /// From the beginning of the file; a few large writes. Returns how many bytes there are.
  std::int64_t write_to(File&) const;

 private:
  std::function<void(const Take&)> make_;
};

/// Creates (exclusively), writes, syncs, closes; see write_file().
std::optional<FileId> write_content(FileSystem&, const Path&, const Content&);

}  // namespace cairn::io
