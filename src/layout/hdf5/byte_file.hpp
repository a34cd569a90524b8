#pragma once
/// A file with the operations that HDF5 needs. Another layer, which has files, passes one in.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace cairn::hdf5 {

/// Not thread-safe. Errors throw cairn::Error.
class ByteFile {
 public:
  virtual ~ByteFile() = default;
  virtual void read(std::int64_t offset, std::span<std::byte> bytes) const = 0;  ///< inside size()
  virtual void write(std::int64_t offset, std::span<const std::byte> bytes) = 0;
  virtual void truncate(std::int64_t size) = 0;  ///< shortens or extends with zeros
  virtual void flush() = 0;
  virtual std::int64_t size() const = 0;
};

/// Bytes that were written to a file.
struct Extent {
  std::int64_t offset = 0;
  std::string bytes;
  std::int64_t end() const { return offset + static_cast<std::int64_t>(bytes.size()); }
};

/// A file in memory that keeps only what was written to it; all else is zero.
class SparseImage : public ByteFile {
 public:
  void read(std::int64_t offset, std::span<std::byte> bytes) const override;
  void write(std::int64_t offset, std::span<const std::byte> bytes) override;
  void truncate(std::int64_t size) override;
  void flush() override {}
  std::int64_t size() const override { return size_; }

  /// Takes what was written, ascending; no two extents touch.
  std::vector<Extent> take();

 private:
  std::map<std::int64_t, std::string> extents_;  // disjoint
  std::int64_t size_ = 0;
};

}  // namespace cairn::hdf5
