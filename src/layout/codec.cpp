#include "layout/codec.hpp"

#include <array>
#include <atomic>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

// Cairn itself has no encoding; tests add one.
std::atomic<const Encoding*> added = nullptr;
// The encoding of each format's layout, by the number of the format.
std::array<std::atomic<const Encoding*>, words(Format{}).size()> of_layouts = {};

// The encoding of this codec; null if this program has none.
const Encoding* known(Codec codec) {
  const auto* one = added.load();
  return one && one->codec == codec ? one : nullptr;
}

}  // namespace

const Encoding* encoding_of(Format format) { return of_layouts[static_cast<std::size_t>(format)]; }

const Encoding* encoding_of(const std::string& key, const Piece& piece) {
  if (piece.codec == Codec::none) return nullptr;
  const auto* one = known(piece.codec);
  if (one) return one;
  throw Error(Code::unsupported, cat("tensor '", key, "' cannot be decoded"),
              cat("it is encoded with ", codec_text(piece.codec),
                  ", which this version of Cairn does not have"),
              "Read it with a version that has it.")
      .of_tensor(key);
}

bool is_known(Codec codec) { return codec == Codec::none || known(codec); }

std::string codec_text(Codec codec) {
  const auto number = cat("codec ", static_cast<std::int32_t>(codec));
  const auto* one = known(codec);
  return one ? cat(number, " (", one->name, ')') : number;
}

AddedEncoding::AddedEncoding(const Encoding& encoding, std::optional<Format> layout) {
  added = &encoding;
  if (layout) of_layouts[static_cast<std::size_t>(*layout)] = &encoding;
}

AddedEncoding::~AddedEncoding() {
  for (auto& one : of_layouts) one = nullptr;
  added = nullptr;
}

}  // namespace cairn
