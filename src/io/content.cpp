#include "io/content.hpp"

#include <span>

namespace cairn::io {
namespace {

// Pieces are joined up to this size, so that an index that is made of many small pieces takes few
// system calls.
constexpr std::size_t joined_bytes = std::size_t{2} << 20;

}  // namespace

Content::Content(std::string bytes)
    : make_([bytes = std::make_shared<const std::string>(std::move(bytes))](const Take& take) {
        take(*bytes);
      }) {}

std::string Content::whole() const {
  std::string bytes;
  give([&](std::string_view piece) { bytes += piece; });
  return bytes;
}

std::int64_t Content::write_to(File& file) const {
  std::int64_t at = 0;
  const auto write = [&](std::string_view bytes) {
    file.write_at(at, std::as_bytes(std::span(bytes)));
    at += static_cast<std::int64_t>(bytes.size());
  };
  std::string small;  // pieces that are written together
  const auto flush = [&] {
    if (!small.empty()) write(small);
    small.clear();
  };
  give([&](std::string_view piece) {
    if (small.size() + piece.size() > joined_bytes) flush();
    if (piece.size() > joined_bytes) return write(piece);
    small += piece;
  });
  if (at == 0 || !small.empty()) write(small);
  return at;
}

std::optional<FileId> write_content(FileSystem& files, const Path& path, const Content& content) {
  const auto file = files.create(path);
  content.write_to(*file);
  file->sync();
  const auto id = file->id();
  file->close();
  return id;
}

}  // namespace cairn::io
