#pragma once
/// Finds which of many words somebody may have meant. For errors about keys, options and commands.
#include <string>
#include <string_view>
#include <utility>

namespace cairn {

/// Of the words that are offered, the one most like the wanted word. Words are alike if they differ
/// only in case, in what stands before their last '/', in one part (between '/' and '.') that is
/// not the last, or in few letters.
class Nearest {
 public:
  explicit Nearest(std::string_view wanted);
  void offer(std::string_view word);
  /// Empty: no word is like it.
  const std::string& word() const { return best_; }

 private:
  std::string wanted_, best_;
  // With so many edits a word is not alike any more, unless it is so by its path. 0: the wanted
  // word is too long to be compared.
  std::size_t limit_;
  std::pair<std::size_t, std::size_t> rank_;  // of best_; the second number counts edits
};

/// "Did you mean 'WORD'?", or nothing.
std::string did_you_mean(const Nearest&);

}  // namespace cairn
