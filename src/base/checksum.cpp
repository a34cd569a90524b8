#include "base/checksum.hpp"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>

namespace cairn {
namespace {

// Polynomials over GF(2) modulo that of CRC-32C, bit-reflected: the highest bit is x^0.
constexpr std::uint32_t polynomial = 0x82f63b78u;
constexpr std::uint32_t one = 0x80000000u;

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = one; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = b & 1 ? (b >> 1) ^ polynomial : b >> 1;
  }
  return product;
}

// x^(8·2^k) for each k, by repeated squaring of x^8. The factors with which crc32c_combine()
// appends 2^k zero bytes.
constexpr std::array<std::uint32_t, 64> byte_powers = [] {
  std::array<std::uint32_t, 64> powers{};
  powers[0] = one >> 8;
  for (std::size_t k = 1; k < powers.size(); ++k)
    powers[k] = multiply(powers[k - 1], powers[k - 1]);
  return powers;
}();

#if defined(__x86_64__)
// ISA-L 2.30 ends its AVX-512 code without VZEROUPPER. While the upper halves of the vector
// registers hold something, each SSE instruction that runs next merges with them: the application's
// loops and our own were up to eight times slower until other code cleared the registers. Source:
// Intel's optimization manual, "Mixing AVX code with SSE code".
__attribute__((target("avx"))) void clear_upper_halves() { __builtin_ia32_vzeroupper(); }

void leave_vector_registers_clean() {
  static const bool has_avx = __builtin_cpu_supports("avx");
  if (has_avx) clear_upper_halves();
}
#else
void leave_vector_registers_clean() {}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous) {
  constexpr std::size_t step = std::size_t{1} << 30;  // the library counts in int
  std::uint32_t crc = ~previous;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(step, bytes.size()));
    // The library's parameter is not const, but the library only reads it.
    auto* start = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(part.data()));
    crc = crc32_iscsi(start, static_cast<int>(part.size()), crc);
    bytes = bytes.subspan(part.size());
  }
  leave_vector_registers_clean();
  return ~crc;
}

std::uint32_t crc32_of_zip(std::span<const std::byte> bytes, std::uint32_t previous) {
  std::uint32_t crc = previous;  // the library inverts it itself
  const auto* start = reinterpret_cast<const unsigned char*>(bytes.data());
  if (!bytes.empty()) crc = crc32_gzip_refl(crc, start, bytes.size());
  leave_vector_registers_clean();
  return crc;
}

std::uint32_t crc32c(std::string_view bytes, std::uint32_t previous) {
  return crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())), previous);
}

std::uint32_t crc32c_combine(std::uint32_t a, std::uint32_t b, std::uint64_t length_of_b) {
  // Appending n zero bytes multiplies the remainder by x^(8n); the initial and final inversions of
  // the two checksums cancel.
  for (std::size_t k = 0; length_of_b != 0; ++k, length_of_b >>= 1) {
    if (length_of_b & 1) a = multiply(a, byte_powers[k]);
  }
  return a ^ b;
}

}  // namespace cairn
