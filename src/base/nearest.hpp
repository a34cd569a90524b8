#pragma once
/// Which of many words somebody may have meant.
#include <string>
#include <string_view>
#include <utility>

namespace cairn {

/// The word that is most like the wanted one, of those that are offered. Like are words that differ
/// in case, in what stands before their last '/', in one part before the last of those that '/' and
/// '.' make, or in few letters.
class Nearest {
 public:
  explicit Nearest(std::string_view wanted);
  void offer(std::string_view word);
  /// Empty: none is like it.
  const std::string& word() const { return best_; }

 private:
  std::string wanted_, best_;
  std::size_t limit_;
  std::pair<std::size_t, std::size_t> rank_;  // of the best one; the second: letters
};

/// "Did you mean 'WORD'?", or nothing.
std::string did_you_mean(const Nearest&);

}  // namespace cairn
