#pragma once
/// A codec for tests, which writes a count and a byte for each run of equal bytes. The length is
/// known only afterwards; noise takes twice its raw bytes. And a layout that encodes with it.
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "cairn/error.hpp"
#include "layout/codec.hpp"

namespace cairn::test {

inline constexpr auto run_lengths_codec = static_cast<Codec>(1000);

inline void encode_runs(std::span<const std::byte> chunk, std::size_t,
                        std::vector<std::byte>& out) {
  for (std::size_t at = 0; at < chunk.size();) {
    std::size_t count = 1;
    while (count < 255 && at + count < chunk.size() && chunk[at + count] == chunk[at]) ++count;
    out.push_back(static_cast<std::byte>(count));
    out.push_back(chunk[at]);
    at += count;
  }
}

inline void decode_runs(std::span<const std::byte> stored, std::size_t, std::span<std::byte> raw) {
  std::size_t end = 0;
  for (std::size_t at = 0; at + 1 < stored.size(); at += 2) {
    const auto count = static_cast<std::size_t>(stored[at]);
    if (count > raw.size() - end) throw Error(Code::data_loss, "runs are longer than their piece");
    std::fill_n(raw.begin() + static_cast<std::ptrdiff_t>(end), count, stored[at + 1]);
    end += count;
  }
  if (end != raw.size()) throw Error(Code::data_loss, "runs are shorter than their piece");
}

inline constexpr Encoding run_lengths{run_lengths_codec, "run lengths", encode_runs, decode_runs,
                                      128};

/// While it lives, bundles are encoded in this way.
struct RunLengthLayout : AddedEncoding {
  explicit RunLengthLayout(Format format = Format::bundle) : AddedEncoding(run_lengths, format) {}
};

}  // namespace cairn::test
