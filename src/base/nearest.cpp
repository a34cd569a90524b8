#include "base/nearest.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
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

bool is_number(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The parts of a path; a name with dots has parts, too.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t end = 0; end != std::string_view::npos; text.remove_prefix(end + 1)) {
    end = text.find_first_of("/.");
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
  }
  return parts;
}

// Whether exactly one part differs, and it is not the last one: as if a layer had a new name.
// Layers that differ only in their number do not count.
bool has_one_renamed(std::string_view a, std::string_view b) {
  const auto its = parts_of(a), others = parts_of(b);
  if (its.size() != others.size() || its.back() != others.back()) return false;
  std::size_t renamed = 0;
  for (std::size_t i = 0; i < its.size(); ++i) {
    if (its[i] == others[i]) continue;
    if (is_number(its[i]) && is_number(others[i])) return false;
    ++renamed;
  }
  return renamed == 1;
}

// The number of letters to insert, remove, replace or swap with their neighbour.
std::size_t edits(std::string_view a, std::string_view b) {
  // Three rows of the table of distances between beginnings of a and b: a swap looks two rows back.
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
      limit_(wanted.size() > longest ? 0 : std::max<std::size_t>(1, wanted.size() / 3) + 1) {}

void Nearest::offer(std::string_view word) {
  if (limit_ == 0 || word.empty() || word.size() > longest) return;
  const auto text = lower(word);
  // Two words of one letter are alike only by their paths, or if they differ in case.
  const bool is_like =
      text != wanted_ && (last_part(text) == last_part(wanted_) || has_one_renamed(text, wanted_));
  const auto [shorter, longer] = std::minmax({text.size(), wanted_.size()});
  if (!is_like && longer - shorter >= limit_) return;
  const auto distance = edits(text, wanted_);
  if (!is_like && distance > 0 && distance >= std::min(shorter, limit_)) return;
  // Best is a word that differs in case only, then one that is alike by its path, then the fewest
  // edits.
  const auto rank = std::pair(distance > 0 ? (is_like ? 1 : distance + 1) : 0, distance);
  if (!best_.empty() && rank >= rank_) return;
  rank_ = rank;
  best_ = word;
}

std::string did_you_mean(const Nearest& nearest) {
  return nearest.word().empty() ? "" : cat("Did you mean '", nearest.word(), "'?");
}

}  // namespace cairn
