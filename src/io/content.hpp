#pragma once
/// The bytes that a file is to hold.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "io/file_system.hpp"

namespace cairn::io {

/// Bytes that exist, or that are made piece by piece each time they are written, so that they need
/// never be in memory as a whole: an index of 10⁷ slices has most of a GiB, and a save writes it
/// twice. To make it again takes less than a second. The length of such bytes is not known
/// beforehand: a file that they overwrite is cut off afterwards if it is too long. Cheap to copy.
/// Several threads may call its functions if they may call the maker.
class Content {
 public:
  using Take = std::function<void(std::string_view)>;
  Content(std::string bytes);  // NOLINT: a string is a content
  explicit Content(std::function<void(const Take&)> make) : make_(std::move(make)) {}

  /// Gives all bytes, in order.
  void give(const Take& take) const { make_(take); }
  std::string whole() const;
  /// Writes from the beginning of the file, in a few large writes. Returns the number of bytes.
  std::int64_t write_to(File&) const;

 private:
  std::function<void(const Take&)> make_;
};

/// Creates (exclusively), writes, syncs, closes; see write_file().
std::optional<FileId> write_content(FileSystem&, const Path&, const Content&);

}  // namespace cairn::io
