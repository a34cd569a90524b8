#pragma once
/// Encodes the bytes of a piece on their way to a data file, and decodes them on their way back.
/// Each piece has a codec of its own, so unencoded pieces, strings and metadata can lie beside
/// encoded ones. A bundle's pieces are encoded chunk by chunk and decoded whole: no table of chunks
/// is needed. In an HDF5 file each chunk of a dataset is a piece.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/contents.hpp"

namespace cairn {

/// An encoding. Any thread may call its functions. `item`: bytes of an element, which begin where
/// the chunk does.
struct Encoding {
  Codec codec;
  const char* name;
  /// Appends the encoded form of a chunk of a piece. Its length is known only then; it may be
  /// longer than the chunk. Encoded chunks of a piece lie one after the other.
  void (*encode)(std::span<const std::byte> chunk, std::size_t item, std::vector<std::byte>& out);
  /// Decodes all encoded chunks of a piece into its raw bytes. Throws data_loss unless they give
  /// exactly so many bytes.
  void (*decode)(std::span<const std::byte> stored, std::size_t item, std::span<std::byte> raw);
  /// The most raw bytes that one stored byte can become. It limits the memory that a few stored
  /// bytes can ask for.
  std::int64_t most_of_a_byte;
};

/// No encoding makes a chunk longer by more than this.
constexpr std::int64_t encoded_excess(std::int64_t chunk_bytes) { return chunk_bytes / 64 + 1024; }

/// The encoding in which a format's layout stores numbers that one rank writes. Null: unencoded.
const Encoding* encoding_of(Format);

/// An encoding that this program has; null if it has none of this codec.
const Encoding* known_encoding(Codec);
/// The encoding of a stored piece; null if it is unencoded. Throws unsupported for a codec that
/// this program does not have.
const Encoding* encoding_of(const std::string& key, const Piece&);
bool is_known(Codec);
/// The codec's number and its name, if this version has one for it.
std::string codec_text(Codec);

/// While an AddedEncoding lives, this program has one more codec, and `layout` stores with it. For
/// tests: they make and destroy it while nothing is saved or restored.
class AddedEncoding {
 public:
  explicit AddedEncoding(const Encoding&, std::optional<Format> layout = std::nullopt);
  ~AddedEncoding();
  AddedEncoding(const AddedEncoding&) = delete;
  AddedEncoding& operator=(const AddedEncoding&) = delete;
};

}  // namespace cairn
