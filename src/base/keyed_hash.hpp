#pragma once
/// A hash of long bytes whose key nobody can have known when these were made: what is different
/// has another hash, up to a chance that does not depend on the bytes. XXH3 and its kind are as
/// fast and need no key, but nothing is proved of them; a CRC-32C is too short to bet a model on.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn {

/// Blocks of 1 KiB are hashed to 256 bits by sums of products of key and words (NH, twice), and
/// these by a polynomial modulo 2^127 - 1. Over the choice of the key two different texts of n
/// blocks have the same hash with a chance below 2^-128 + (4 n + 4) / 2^126: of a tebibyte, 2^-93.
class KeyedHash {
 public:
  static constexpr std::size_t block_words = 128;
  struct Key {
    std::array<std::uint64_t, block_words + 2> words;
    std::array<std::uint64_t, 2> point;  ///< low and high half, below 2^126

    static Key random();  ///< of the system's source
  };
  using Digest = std::array<std::uint64_t, 2>;

  /// The key outlives it.
  explicit KeyedHash(const Key& key) : key_(&key) {}
  /// The next bytes; how a text is cut makes no difference.
  void add(std::span<const std::byte>);
  /// Of all that was added. Nothing may be added any more.
  Digest end();

 private:
  __extension__ typedef unsigned __int128 Wide;
  void add_block(const std::byte*);
  void add_word(std::uint64_t);

  const Key* key_;
  Wide sum_ = 0;
  std::uint64_t bytes_ = 0;
  std::array<std::byte, block_words * 8> open_;  // the last block, as far as it has come
};

}  // namespace cairn
