// Each chunk is encoded alone, with the library's own call for one buffer. A length that a library
// takes from the stored bytes is compared with the raw length before anything is decoded.
#include "layout/encodings.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#if CAIRN_ZLIB
#include <zlib.h>
#endif
#if CAIRN_ZSTD
#include <zstd.h>
#endif
#if CAIRN_BLOSC
#include <blosc.h>
#endif

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn {
namespace {

constexpr std::array<CodecName, 3> names{
    CodecName{Codec::deflate, "shuffle and deflate", "zlib1g-dev"},
    CodecName{Codec::zstd, "shuffle and Zstandard", "libzstd-dev"},
    CodecName{Codec::blosc, "Blosc", "libblosc-dev"}};

#if CAIRN_ZLIB || CAIRN_ZSTD || CAIRN_BLOSC
[[noreturn]] void bad(std::string why) { throw Error(Code::data_loss, std::move(why)); }
[[noreturn]] void failed(const char* library, const char* why) {
  throw Error(Code::internal, cat(library, " cannot encode a chunk"), why);
}
#endif

#if CAIRN_ZLIB || CAIRN_ZSTD
// HDF5's filter: first the first bytes of all elements, then the second ones, and so on; then bytes
// that make up no element.
void shuffle(std::span<const std::byte> in, std::size_t item, std::byte* out) {
  const auto count = in.size() / item;
  for (std::size_t b = 0; b < item; ++b) {
    const auto* from = in.data() + b;
    for (std::size_t i = 0; i < count; ++i, from += item) *out++ = *from;
  }
  std::copy(in.begin() + static_cast<std::ptrdiff_t>(count * item), in.end(), out);
}
void unshuffle(std::span<const std::byte> in, std::size_t item, std::byte* out) {
  const auto count = in.size() / item;
  const auto* from = in.data();
  for (std::size_t b = 0; b < item; ++b) {
    auto* to = out + b;
    for (std::size_t i = 0; i < count; ++i, to += item) *to = *from++;
  }
  std::memcpy(out + count * item, from, in.size() - count * item);
}

std::unique_ptr<std::byte[]> room(std::size_t bytes) {
  return std::make_unique_for_overwrite<std::byte[]>(bytes);
}

// Encodes shuffled bytes by `encode`, which takes (bytes, out, room) and returns the encoded
// length.
template <class Encode>
void encode_shuffled(std::span<const std::byte> chunk, std::size_t item, std::size_t most,
                     std::vector<std::byte>& out, const Encode& encode) {
  auto shuffled = item > 1 ? room(chunk.size()) : nullptr;
  if (shuffled) {
    shuffle(chunk, item, shuffled.get());
    chunk = {shuffled.get(), chunk.size()};
  }
  const auto begin = out.size();
  out.resize(begin + most);
  out.resize(begin + encode(chunk, out.data() + begin, most));
}
// Decodes by `decode`, which fills the span that it is given, and restores the order.
template <class Decode>
void decode_shuffled(std::size_t item, std::span<std::byte> raw, const Decode& decode) {
  if (item <= 1) return decode(raw);
  const auto shuffled = room(raw.size());
  decode(std::span(shuffled.get(), raw.size()));
  unshuffle({shuffled.get(), raw.size()}, item, raw.data());
}
#endif

#if CAIRN_ZLIB
void encode_deflate(std::span<const std::byte> chunk, std::size_t item,
                    std::vector<std::byte>& out) {
  encode_shuffled(chunk, item, compressBound(chunk.size()), out,
                  [](std::span<const std::byte> bytes, std::byte* to, std::size_t most) {
                    uLongf length = most;
                    const auto result = compress2(reinterpret_cast<Bytef*>(to), &length,
                                                  reinterpret_cast<const Bytef*>(bytes.data()),
                                                  bytes.size(), encoding_level);
                    if (result != Z_OK) failed("zlib", zError(result));
                    return static_cast<std::size_t>(length);
                  });
}
void decode_deflate(std::span<const std::byte> stored, std::size_t item, std::span<std::byte> raw) {
  decode_shuffled(item, raw, [&](std::span<std::byte> to) {
    uLongf length = to.size();
    uLong used = stored.size();
    const auto result = uncompress2(reinterpret_cast<Bytef*>(to.data()), &length,
                                    reinterpret_cast<const Bytef*>(stored.data()), &used);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_BUF_ERROR && length == to.size()) {
      bad(cat("it becomes more than ", to.size(), " bytes"));
    }
    if (result != Z_OK) bad(cat("zlib: ", zError(result)));
    if (length != to.size()) bad(cat("it becomes ", length, " bytes, not ", to.size()));
    if (used != stored.size()) bad(cat(stored.size() - used, " bytes follow the encoded ones"));
  });
}
#endif

#if CAIRN_ZSTD
void encode_zstd(std::span<const std::byte> chunk, std::size_t item, std::vector<std::byte>& out) {
  encode_shuffled(chunk, item, ZSTD_compressBound(chunk.size()), out,
                  [](std::span<const std::byte> bytes, std::byte* to, std::size_t most) {
                    const auto length =
                        ZSTD_compress(to, most, bytes.data(), bytes.size(), encoding_level);
                    if (ZSTD_isError(length)) failed("zstd", ZSTD_getErrorName(length));
                    return length;
                  });
}
void decode_zstd(std::span<const std::byte> stored, std::size_t item, std::span<std::byte> raw) {
  const auto said = ZSTD_getFrameContentSize(stored.data(), stored.size());
  if (said == ZSTD_CONTENTSIZE_ERROR) bad("it is no Zstandard frame");
  if (said != ZSTD_CONTENTSIZE_UNKNOWN && said != raw.size()) {
    bad(cat("it becomes ", said, " bytes, not ", raw.size()));
  }
  decode_shuffled(item, raw, [&](std::span<std::byte> to) {
    const auto length = ZSTD_decompress(to.data(), to.size(), stored.data(), stored.size());
    if (ZSTD_isError(length)) bad(cat("zstd: ", ZSTD_getErrorName(length)));
    if (length != to.size()) bad(cat("it becomes ", length, " bytes, not ", to.size()));
  });
}
#endif

#if CAIRN_BLOSC
void encode_blosc(std::span<const std::byte> chunk, std::size_t item, std::vector<std::byte>& out) {
  const auto begin = out.size();
  out.resize(begin + chunk.size() + BLOSC_MAX_OVERHEAD);
  const auto length =
      blosc_compress_ctx(encoding_level, BLOSC_BITSHUFFLE, item, chunk.size(), chunk.data(),
                         out.data() + begin, out.size() - begin, BLOSC_ZSTD_COMPNAME, 0, 1);
  if (length <= 0) failed("blosc", "it gave no bytes");
  out.resize(begin + static_cast<std::size_t>(length));
}
void decode_blosc(std::span<const std::byte> stored, std::size_t, std::span<std::byte> raw) {
  std::size_t said = 0;
  if (blosc_cbuffer_validate(stored.data(), stored.size(), &said) != 0) {
    bad("it is no buffer of Blosc");
  }
  if (said != raw.size()) bad(cat("it becomes ", said, " bytes, not ", raw.size()));
  const auto length = blosc_decompress_ctx(stored.data(), raw.data(), raw.size(), 1);
  if (length < 0 || static_cast<std::size_t>(length) != raw.size()) {
    bad(cat("blosc: error ", length));
  }
}
#endif

// In a Deflate stream 1 bit can stand for 258 bytes, in a Zstandard frame a block of 4 bytes for
// 128 KiB, in a buffer of Blosc a frame of Zstandard for a block.
const std::vector<Encoding>& all() {
  static const std::vector<Encoding> encodings {
#if CAIRN_ZLIB
    {Codec::deflate, names[0].name, encode_deflate, decode_deflate, 1032},
#endif
#if CAIRN_ZSTD
        {Codec::zstd, names[1].name, encode_zstd, decode_zstd, 128 << 10},
#endif
#if CAIRN_BLOSC
        {Codec::blosc, names[2].name, encode_blosc, decode_blosc, 128 << 10},
#endif
  };
  return encodings;
}

}  // namespace

std::span<const CodecName> codec_names() { return names; }
std::span<const Encoding> built_encodings() { return all(); }

}  // namespace cairn
