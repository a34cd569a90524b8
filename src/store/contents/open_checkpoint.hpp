#pragma once
/// A checkpoint that is open for reading.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/address.hpp"
#include "store/contents/contents_reader.hpp"

namespace cairn {

/// Its contents, and where its bytes are. A value that is cheap to copy.
class OpenCheckpoint {
 public:
  OpenCheckpoint(const Address& prefix, CheckpointContents contents)
      : prefix_(prefix), contents_(std::make_shared<CheckpointContents>(std::move(contents))) {}
  /// From contents that were read before; both arguments outlive it.
  OpenCheckpoint(io::FileSystem& files, const CheckpointContents& contents)
      : prefix_(files, contents.prefix),
        contents_(std::shared_ptr<const CheckpointContents>(), &contents) {}

  const Address& prefix() const { return prefix_; }
  const CheckpointContents& operator*() const { return *contents_; }
  const CheckpointContents* operator->() const { return contents_.get(); }

  /// The address of a data file; of an HDF5 checkpoint, of its only file.
  Address data(int file) const { return prefix_.at(data_path(*contents_, file)); }
  /// The addresses of all its files.
  std::vector<Address> all_files() const;
  /// The access rights that all of its files grant (io::Status::access).
  unsigned access() const;

  /// As read_slice(), read_string_slice() and read_strings().
  std::string read(const StoredTensor& tensor, const Piece& slice) const {
    return read_slice(*prefix_.files(), *contents_, tensor, slice);
  }
  std::vector<std::string> read_strings(const StoredTensor& tensor, const Piece& slice) const {
    return read_string_slice(*prefix_.files(), *contents_, tensor, slice);
  }
  std::vector<std::string> read_strings(const StoredTensor& tensor) const {
    return cairn::read_strings(*prefix_.files(), *contents_, tensor);
  }

 private:
  Address prefix_;
  std::shared_ptr<const CheckpointContents> contents_;
};

/// As read_contents().
OpenCheckpoint open_checkpoint(const Address& prefix, Graph = Graph::skip);
/// As load_index(), or load_index_as().
IndexFile load_index(const Address& prefix, Graph = Graph::skip,
                     std::optional<Format> = std::nullopt);

}  // namespace cairn
