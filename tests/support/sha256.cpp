#include "support/sha256.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace cairn::test {
namespace {

// The first 32 bits of the fractional parts of a root of the first primes.
template <std::size_t N, class Root>
std::array<std::uint32_t, N> fractions(Root root) {
  std::array<std::uint32_t, N> out{};
  std::size_t n = 0;
  for (int p = 2; n < N; ++p) {
    bool prime = true;
    for (int d = 2; d * d <= p; ++d) prime = prime && p % d != 0;
    if (!prime) continue;
    const long double value = root(static_cast<long double>(p));
    out[n++] = static_cast<std::uint32_t>((value - std::floor(value)) * 4294967296.0L);
  }
  return out;
}

void compress(std::array<std::uint32_t, 8>& state, const unsigned char* block) {
  static const auto k = fractions<64>([](long double p) { return std::cbrt(p); });
  std::uint32_t w[64];
  for (int i = 0; i < 16; ++i) {
    w[i] = std::uint32_t{block[4 * i]} << 24 | block[4 * i + 1] << 16 | block[4 * i + 2] << 8 |
           block[4 * i + 3];
  }
  for (int i = 16; i < 64; ++i) {
    const auto a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto s = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const auto big1 = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
    const auto t1 = s[7] + big1 + ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
    const auto big0 = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
    const auto t2 = big0 + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
  for (std::size_t i = 0; i < 8; ++i) state[i] += s[i];
}

}  // namespace

std::string sha256(std::string_view bytes) {
  auto state = fractions<8>([](long double p) { return std::sqrt(p); });
  std::string padded(bytes);
  padded += '\x80';
  padded.append((120 - padded.size() % 64) % 64, '\0');
  for (int i = 7; i >= 0; --i) {
    padded += static_cast<char>(std::uint64_t{bytes.size()} * 8 >> 8 * i);
  }
  for (std::size_t at = 0; at < padded.size(); at += 64) {
    compress(state, reinterpret_cast<const unsigned char*>(&padded[at]));
  }
  std::string hex;
  for (const auto word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[word >> shift & 15];
  }
  return hex;
}

}  // namespace cairn::test
