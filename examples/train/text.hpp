#pragma once
// The text to learn, and which parts of it come next.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// A step takes 4 windows of 65 characters: 64 to read, each to foretell the one after it. Each is a
// lane. Whichever rank works on a lane does the same arithmetic, and what lanes give is added in
// their order: so the bits depend on the number of lanes and not on the number of ranks.
constexpr int lanes = 4, context = 64;
constexpr int vocabulary = 96, end_of_line = 95;  // before it: printable ASCII

// All regular files of a directory, in the order of their names. What is not printable is a blank.
inline std::vector<int> read_text(const std::filesystem::path& directory) {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.is_regular_file() && !entry.is_symlink()) files.insert(entry.path());
  }
  std::vector<int> text;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    for (char c; in.get(c);) {
      text.push_back(c == '\n' ? end_of_line : c > ' ' && c <= '~' ? c - ' ' : 0);
    }
  }
  if (text.size() < 4 * context) throw std::runtime_error("no text in " + directory.string());
  return text;
}

// SplitMix64: its whole state is one number.
inline std::uint64_t next_random(std::uint64_t& state) {
  auto z = state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

// Takes the text's windows in shuffled order, each moved on by a random distance. The same on all
// ranks; order, position and random are its state, to be saved.
class Batches {
 public:
  std::vector<std::int32_t> order;
  std::int64_t position = 0;
  std::uint64_t random = 2026;

  explicit Batches(std::vector<int> text)
      : order(text.size() / context - 1), text_(std::move(text)) {
    std::iota(order.begin(), order.end(), 0);
    shuffle();
  }

  // The windows of all lanes, one behind the other.
  std::vector<int> next() {
    std::vector<int> batch;
    for (int lane = 0; lane < lanes; ++lane) {
      if (position == static_cast<std::int64_t>(order.size())) shuffle();
      const auto window = order[static_cast<std::size_t>(position++)];
      const auto start = window * context + static_cast<int>(next_random(random) % context);
      batch.insert(batch.end(), text_.begin() + start, text_.begin() + start + context + 1);
    }
    return batch;
  }

 private:
  void shuffle() {
    for (auto i = order.size(); i > 1; --i) std::swap(order[i - 1], order[next_random(random) % i]);
    position = 0;
  }
  std::vector<int> text_;
};
