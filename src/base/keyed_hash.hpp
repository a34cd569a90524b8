#pragma once
/// A hash of long data, with a random key that nobody can have known when the data was made.
/// Different data has different hashes, except with a probability that does not depend on the data.
/// XXH3 and similar hashes are as fast and need no key, but nothing is proved about them; a CRC-32C
/// is too short to bet a model on. Frozen files are recognised by it (session/save/frozen.hpp).
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn {

/// Each block of 1 KiB is hashed to 256 bits by sums of products of key and words (NH, twice). A
/// polynomial modulo 2^127 - 1 then hashes these. Over the choice of the key, two different texts
/// of n blocks have the same hash with a probability below 2^-128 + (4 n + 4) / 2^126: for a
/// tebibyte, 2^-93.
class KeyedHash {
 public:
  static constexpr std::size_t block_words = 128;
  struct Key {
    std::array<std::uint64_t, block_words + 2> words;
    std::array<std::uint64_t, 2> point;  ///< low and high half, below 2^126

    static Key random();  ///< from the system's source of random bytes
  };
  using Digest = std::array<std::uint64_t, 2>;

  /// The key must outlive the hash.
  explicit KeyedHash(const Key& key) : key_(&key) {}
  /// Adds the next bytes. It makes no difference how a text is divided into calls.
  void add(std::span<const std::byte>);
  /// The hash of all bytes that were added. Nothing may be added after this call.
  Digest end();

 private:
  // The keyword keeps the compiler from warning that ISO C++ has no such type.
  __extension__ typedef unsigned __int128 Wide;
  void add_block(const std::byte*);
  void add_word(std::uint64_t);

  const Key* key_;
  // The value of the polynomial so far.
  Wide sum_ = 0;
  // How many bytes were added; modulo a block, how many of them are in open_.
  std::uint64_t bytes_ = 0;
  std::array<std::byte, block_words * 8> open_;  // the last, incomplete block
};

}  // namespace cairn
