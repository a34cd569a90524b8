#include "base/nearest.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/text.hpp"

namespace cairn {
namespace {

constexpr std::size_t longest = 200;  // keys may be long, and hostile

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string_view last_part(std::string_view text) { return text.substr(text.rfind('/') + 1); }

// Letters to insert, to remove, to replace or to swap with their neighbour.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last;
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

Nearest::Nearest(std::string_view wanted)
    : wanted_(lower(wanted)),
      distance_(wanted.size() > longest ? 0 : std::max<std::size_t>(1, wanted.size() / 3) + 1) {}

void Nearest::offer(std::string_view word) {
  const auto difference =
      std::max(word.size(), wanted_.size()) - std::min(word.size(), wanted_.size());
  if (distance_ == 0 || word.empty() || word.size() > longest) return;
  const auto text = lower(word);
  // Two words of one letter are not like each other, but by their paths.
  const bool same_end = last_part(text) == last_part(wanted_) && text != wanted_;
  std::size_t distance = same_end ? 1 : distance_;
  if (!same_end && difference < distance_) distance = edits(text, wanted_);
  if (!same_end && distance >= std::min(text.size(), wanted_.size()) && distance > 0) return;
  if (distance >= distance_) return;
  distance_ = distance;
  best_ = word;
}

std::string did_you_mean(const Nearest& nearest) {
  return nearest.word().empty() ? "" : cat("Did you mean '", nearest.word(), "'?");
}

}  // namespace cairn
