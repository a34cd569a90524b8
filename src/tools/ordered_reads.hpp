#pragma once
/// Files of others that are read as a save asks for their bytes.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/address.hpp"

namespace cairn {

/// What a save will ask for is known: tensor after tensor in the order of their keys, each from its
/// first byte to its last. So the disk fetches the next bytes while these are written. Whoever asks
/// in another order gets the same bytes by reads of their own, and nothing is fetched ahead from
/// then on. The same where a file's name is another one's meanwhile, or nobody's: bytes are always
/// those of the file that add() opened. For one thread.
class OrderedReads {
 public:
  /// Opens a file, of the same files as all, and gives its number. It stays open, to be read in any
  /// order.
  int add(const Address&);
  const io::File& file(int number) const { return *opened_[static_cast<std::size_t>(number)].file; }
  /// A run of bytes that will be asked for after those of lesser keys; before the first read.
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
  std::vector<io::Extent> pieces_;  // of those, in their order
  std::size_t fetched_ = 0;         // pieces
  std::vector<std::byte> piece_;    // the last of them
  std::int64_t taken_ = 0;          // of its bytes
  int same_ = -1;                   // the file that the reader is known to read
  bool begun_ = false;
  std::unique_ptr<io::Reader> reader_;  // null: nothing is fetched ahead
};

}  // namespace cairn
