#pragma once
/// Reads files of other programs ahead, in the order in which a save asks for their bytes.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn {

/// A save asks for its tensors in the order of their keys, and for each from the first byte to the
/// last. So the next bytes can be read while these are written. A caller that asks in another order
/// gets the same bytes by separate reads, and nothing is read ahead from then on. The same happens
/// if a file's name now belongs to another file or to none: the bytes are always those of the file
/// that add() opened. Only one thread may use it.
class OrderedReads {
 public:
  /// Opens a file and returns its number. All must be of the same file system. The file stays open
  /// and can be read in any order.
  int add(const Address&);
  const io::File& file(int number) const { return *opened_[static_cast<std::size_t>(number)].file; }
  /// Announces bytes that will be asked for after those of lesser keys. Call it before the first
  /// read.
  void expect(const std::string& key, int file, std::int64_t offset, std::int64_t bytes);
  void read(int file, std::int64_t offset, std::span<std::byte> to);

 private:
  struct Opened {
    Address at;
    io::FileId id;
    std::unique_ptr<io::File> file;
  };
  void begin();
  bool next_is(int file, std::int64_t offset) const;
  bool fetch();
  bool is_same(int file);

  std::vector<Opened> opened_;
  std::map<std::string, io::Extent> expected_;
  std::vector<io::Extent> pieces_;  // the announced ones, in their order
  std::size_t fetched_ = 0;         // number of pieces fetched
  std::vector<std::byte> piece_;    // the last piece
  std::int64_t taken_ = 0;          // bytes of it that were used
  int same_ = -1;                   // the file that the reader is known to read
  bool begun_ = false;
  std::unique_ptr<io::Reader> reader_;  // null: nothing is read ahead
};

}  // namespace cairn
