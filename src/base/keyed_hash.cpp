#include "base/keyed_hash.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cairn/error.hpp"

namespace cairn {
namespace {

__extension__ typedef unsigned __int128 Wide;
constexpr Wide prime = (Wide{1} << 127) - 1;

constexpr Wide folded(Wide value) { return (value & prime) + (value >> 127); }

// The product of two numbers up to the prime. 2^128 is 2 modulo the prime, so the halves of the
// product are folded onto each other. The result is at most the prime plus one.
constexpr Wide product(Wide a, Wide b) {
  const auto low = [](Wide value) { return Wide{static_cast<std::uint64_t>(value)}; };
  const Wide a0 = low(a), a1 = a >> 64, b0 = low(b), b1 = b >> 64;
  const Wide middle = a1 * b0 + a0 * b1;
  const Wide sum = folded(folded(a0 * b0) + folded(middle << 64));
  return folded(sum + folded(2 * (a1 * b1 + (middle >> 64))));
}
static_assert(product(prime - 1, prime - 1) % prime == 1);
static_assert(product(Wide{1} << 126, 2) % prime == 1);
static_assert(product((Wide{1} << 100) + 3, (Wide{1} << 90) + 5) % prime ==
              ((Wide{1} << 63) + 5 * (Wide{1} << 100) + 3 * (Wide{1} << 90) + 15) % prime);

}  // namespace

KeyedHash::Key KeyedHash::Key::random() {
  // Not std::random_device: it takes word after word from the processor. Each takes microseconds on
  // a virtual machine, and some processors run out of random words.
  Key key;
  const auto fill = [](std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const auto got = ::getrandom(bytes.data(), bytes.size(), 0);
      if (got >= 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(got));
      } else if (errno != EINTR) {
        throw Error(Code::io, "the system gives no random bytes", std::strerror(errno));
      }
    }
  };
  fill(std::as_writable_bytes(std::span(key.words)));
  fill(std::as_writable_bytes(std::span(key.point)));
  // A point below 2^126 is below the prime, too.
  key.point[1] >>= 2;
  return key;
}

// One more coefficient of the polynomial, by Horner's rule.
void KeyedHash::add_word(std::uint64_t word) {
  const Wide point = Wide{key_->point[1]} << 64 | key_->point[0];
  sum_ = folded(product(sum_, point) + word);
}

void KeyedHash::add_block(const std::byte* block) {
  const auto& key = key_->words;
  Wide first = 0, second = 0;
  // The sums of words and keys wrap around at 64 bits, as NH has it. The second hash uses the key
  // from its third word on.
  for (std::size_t i = 0; i < block_words; i += 2) {
    std::uint64_t words[2];
    std::memcpy(words, block + 8 * i, sizeof words);
    first += Wide{words[0] + key[i]} * (words[1] + key[i + 1]);
    second += Wide{words[0] + key[i + 2]} * (words[1] + key[i + 3]);
  }
  for (const auto half : {first, second}) {
    add_word(static_cast<std::uint64_t>(half));
    add_word(static_cast<std::uint64_t>(half >> 64));
  }
}

void KeyedHash::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto filled = static_cast<std::size_t>(bytes_ % open_.size());
    if (filled == 0 && bytes.size() >= open_.size()) {
      add_block(bytes.data());
      bytes_ += open_.size();
      bytes = bytes.subspan(open_.size());
      continue;
    }
    const auto count = std::min(open_.size() - filled, bytes.size());
    std::memcpy(open_.data() + filled, bytes.data(), count);
    bytes_ += count;
    bytes = bytes.subspan(count);
    if (filled + count == open_.size()) add_block(open_.data());
  }
}

KeyedHash::Digest KeyedHash::end() {
  const auto filled = static_cast<std::size_t>(bytes_ % open_.size());
  if (filled > 0) {
    std::fill(open_.begin() + static_cast<std::ptrdiff_t>(filled), open_.end(), std::byte{0});
    add_block(open_.data());
  }
  // The length tells a text from the same text with zeros behind it.
  add_word(bytes_);
  const Wide sum = sum_ % prime;
  return {static_cast<std::uint64_t>(sum), static_cast<std::uint64_t>(sum >> 64)};
}

}  // namespace cairn
