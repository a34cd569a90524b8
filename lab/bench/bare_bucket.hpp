#pragma once
/// What a program without a checkpoint library would do with libcurl to move the same bytes.
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace cairn::bench {

/// Requests without signatures, over connections that are kept. Failures throw std::runtime_error.
class BareBucket {
 public:
  /// `url` is that of the bucket. Several parts are under way at a time.
  BareBucket(std::string url, std::size_t part_bytes, std::size_t connections);
  ~BareBucket();
  BareBucket(const BareBucket&) = delete;
  BareBucket& operator=(const BareBucket&) = delete;

  /// An upload in parts, with a CRC-32C of each, or without: then nothing finds out what is damaged
  /// on the way.
  void put(const std::string& key, std::span<const std::byte> bytes, bool checks);
  /// In ranges, straight into this memory.
  void get(const std::string& key, std::span<std::byte> bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::bench
