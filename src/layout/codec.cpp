#include "layout/codec.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/encodings.hpp"

namespace cairn {
namespace {

// One that tests add.
std::atomic<const Encoding*> added = nullptr;
// The encoding of each format's layout, by the number of the format.
std::array<std::atomic<const Encoding*>, words(Format{}).size()> of_layouts = {};

const CodecName* name_of(Codec codec) {
  const auto all = codec_names();
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.codec == codec; });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace

const Encoding* known_encoding(Codec codec) {
  for (const auto& one : built_encodings()) {
    if (one.codec == codec) return &one;
  }
  const auto* one = added.load();
  return one && one->codec == codec ? one : nullptr;
}

const Encoding* encoding_of(Format format) { return of_layouts[static_cast<std::size_t>(format)]; }

const Encoding* encoding_of(const std::string& key, const Piece& piece) {
  if (piece.codec == Codec::none) return nullptr;
  const auto* one = known_encoding(piece.codec);
  if (one) return one;
  const auto* named = name_of(piece.codec);
  throw Error(Code::unsupported, cat("tensor '", key, "' cannot be decoded"),
              cat("it is encoded with ", codec_text(piece.codec), ", which this ",
                  named ? "build" : "version", " of Cairn does not have"),
              named ? cat("Build Cairn with ", named->package, ", or read it with h5py.")
                    : "Read it with a version that has it.")
      .of_tensor(key);
}

bool is_known(Codec codec) { return codec == Codec::none || known_encoding(codec); }

std::string codec_text(Codec codec) {
  const auto number = cat("codec ", static_cast<std::int32_t>(codec));
  if (const auto* named = name_of(codec)) return cat(number, " (", named->name, ')');
  const auto* one = known_encoding(codec);
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
