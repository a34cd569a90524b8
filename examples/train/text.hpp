#pragma once
// The text to learn from, and the order in which its parts come.
#include <cairn/cursor.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// A step takes 4 windows of 65 characters: 64 to read, each to predict the next one. Each window is
// a lane. Any rank that works on a lane does the same arithmetic, and the results of lanes are
// added in their order: so the bits depend on the number of lanes and not on the number of ranks.
constexpr int lanes = 4, context = 64;
constexpr int vocabulary = 96, end_of_line = 95;  // before it: printable ASCII

// All regular files of a directory, in the order of their names. Characters that are not printable
// become blanks.
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

// SplitMix64, whose whole state is one number.
inline std::uint64_t next_random(std::uint64_t& state) {
  auto z = state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

// Deals the text's windows in another order in each epoch. Each window is shifted by a distance
// that depends on window and epoch. All ranks get the same windows from one stream for the job, so
// that the losses are the same on any mesh; the cursor is the state of the stream, to be saved.
class Batches {
 public:
  cairn::Cursor windows;

  explicit Batches(std::vector<int> text)
      : windows(static_cast<std::int64_t>(text.size()) / context - 1, {.seed = 2026}),
        text_(std::move(text)) {}

  // The windows of all lanes, one after the other.
  std::vector<int> next() {
    std::vector<int> batch;
    for (std::int64_t missing = lanes; missing > 0;) {
      if (windows.left() == 0) windows.next_epoch();
      const auto taken = windows.take(missing);
      for (const auto window : taken.samples) {
        auto place = static_cast<std::uint64_t>(taken.epoch << 32 | window);
        const auto start = window * context + static_cast<int>(next_random(place) % context);
        batch.insert(batch.end(), text_.begin() + start, text_.begin() + start + context + 1);
      }
      missing -= static_cast<std::int64_t>(taken.samples.size());
    }
    return batch;
  }
  // To be called when the model has learned from the windows that next() gave.
  void done() { windows.done(windows.waiting()); }

 private:
  std::vector<int> text_;
};
