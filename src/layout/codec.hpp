#pragma once
/// How the bytes of a piece are encoded on their way to a data file, and decoded on their way back.
/// Each piece says its own codec: so dense tensors, strings and metadata lie beside encoded pieces
/// as they are. Chunks are encoded one by one and decoded together: no table of chunks is needed,
/// and a restore that wants a part of a piece decodes all of it.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cairn/contents.hpp"

namespace cairn {

/// What encodes: functions that any thread may call.
struct Encoding {
  Codec codec;
  const char* name;
  /// Appends what stands for a chunk of a piece. How long that is shows only then; it may be longer
  /// than the chunk. What chunks become lies one behind the other.
  void (*encode)(std::span<const std::byte> chunk, std::vector<std::byte>& out);
  /// All that the chunks of a piece became, into its raw bytes. Throws data_loss where it is not
  /// exactly these.
  void (*decode)(std::span<const std::byte> stored, std::span<std::byte> raw);
  /// No stored byte becomes more raw ones. So few bytes ask for no more memory than that.
  std::int64_t most_of_a_byte;
};

/// By which the layout of a format stores numbers that one rank writes. Null: as they are.
const Encoding* encoding_of(Format);

/// Of a piece that is stored; null: it is as it is. Throws unsupported for a codec that this
/// program does not have.
const Encoding* encoding_of(const std::string& key, const Piece&);
bool is_known(Codec);
/// What it is called, also where this program does not have it.
std::string codec_text(Codec);

/// While it lives this program has one more codec, by which a layout stores. For tests: it begins
/// and ends while nothing is saved or restored.
class AddedEncoding {
 public:
  explicit AddedEncoding(const Encoding&, std::optional<Format> layout = std::nullopt);
  ~AddedEncoding();
  AddedEncoding(const AddedEncoding&) = delete;
  AddedEncoding& operator=(const AddedEncoding&) = delete;
};

}  // namespace cairn
