// Which tensors a save leaves out by rules, and the state without them, with all notes on the
// tensors that remain.
#include "session/save/key_schedule.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "cairn/log.hpp"
#include "group/collectives.hpp"
#include "model/key_pattern.hpp"
#include "model/refreshed_state.hpp"

namespace cairn {
namespace {

bool is_below(const std::string& key, const std::string& group) {
  return key.size() > group.size() && key[group.size()] == '/' && key.starts_with(group);
}

// Whether one of these keys belongs to the group.
bool has_below(const std::set<std::string>& keys, const std::string& group) {
  const auto at = keys.upper_bound(group + '/');
  return at != keys.end() && is_below(*at, group);
}

std::shared_ptr<const ObjectGraph> without(const ObjectGraph& given,
                                           const std::vector<KeyRule>& rules) {
  std::set<std::string> gone;
  for (const auto& node : given.nodes) {
    for (const auto& attribute : node.attributes) {
      const bool goes = std::any_of(rules.begin(), rules.end(), [&](const auto& rule) {
        return means_key(rule.keys, attribute.key);
      });
      if (goes) gone.insert(attribute.key);
    }
  }
  auto graph = given;
  for (const auto& key : gone) graph.forget(key);
  return std::make_shared<const ObjectGraph>(std::move(graph));
}

struct KeySplit {
  std::set<std::string> left, gone;  // keys

  bool has_any_left(const std::string& object) const {
    return left.contains(object) || has_below(left, object);
  }
  bool has_any_gone(const std::string& object) const {
    return gone.contains(object) || has_below(gone, object);
  }
};

// Leaves out the description of a group of which nothing is left. Otherwise a program would take it
// for a group that was saved empty.
Descriptions without(Descriptions said, const KeySplit& parted, const std::vector<KeyRule>& rules) {
  std::erase_if(said.by_key, [&](const auto& one) {
    const auto& key = one.first;
    if (parted.has_any_left(key)) return false;
    return parted.has_any_gone(key) ||
           std::any_of(rules.begin(), rules.end(), [&](const auto& rule) {
             return rule.keys == key + "/*" || means_key(rule.keys, key);
           });
  });
  return said;
}

// `any`: set to 1 for each rule that matched a tensor of this state.
State without(const State& given, const std::vector<KeyRule>& rules,
              std::vector<std::int64_t>& any) {
  State state;
  KeySplit parted;
  for (const auto& one : given.tensors()) {
    const auto& key = one.first;
    const auto rule = std::find_if(rules.begin(), rules.end(),
                                   [&](const auto& rule) { return means_key(rule.keys, key); });
    if (rule == rules.end()) {
      parted.left.insert(key);
      state.add(key, one.second);
    } else {
      parted.gone.insert(key);
      any[static_cast<std::size_t>(rule - rules.begin())] = 1;
    }
  }
  state.store(given.storage());
  const auto& objects = given.objects();
  for (const auto& [path, target] : objects.aliases) {
    // An alias whose target was left out would point to nothing. One of a target that no tensor
    // here belongs to may be of another rank.
    if (parted.has_any_left(target) || !parted.has_any_gone(target)) state.alias(path, target);
  }
  for (const auto& [key, name] : objects.names) {
    if (!parted.gone.contains(key)) state.name(key, name);
  }
  if (objects.graph) state.carry(without(*objects.graph, rules));
  RefreshedState::describe(state, without(given.descriptions(), parted, rules));
  return state;
}

}  // namespace

// Warns of a rule that matches no key. Such a rule lets nothing go, and the disk fills.
void KeySchedule::warn_of_rules(Group& group, const State& state) {
  std::vector<std::int64_t> fits(rules_.size());
  for (const auto& one : state.tensors()) {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (fits[i] == 0) fits[i] = means_key(rules_[i].keys, one.first);
    }
  }
  group.all_reduce(fits, Group::Op::max);
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (fits[i] != 0 || group.rank() != 0) continue;
    log(LogLevel::warning, cat("no tensor of the state has a key like '", rules_[i].keys,
                               "', of which keep.keys has a rule"));
  }
}

// A rule whose count is not 0 leaves its tensors out. Counts are the same on all ranks, so only the
// question which rules met a tensor takes a message.
std::optional<State> KeySchedule::leave_out(Group& group, const State& given) {
  left_out_.clear();
  if (rules_.empty()) return std::nullopt;
  if (!std::exchange(knows_rules_, true)) warn_of_rules(group, given);
  std::vector<KeyRule> rules;
  for (std::size_t i = 0; i < since_.size(); ++i) {
    if (since_[i] > 0) rules.push_back(rules_[i]);
  }
  is_less_ = !rules.empty();
  if (!is_less_) return std::nullopt;
  std::vector<std::int64_t> any(rules.size());
  auto left = run_and_agree(group, [&] { return without(given, rules, any); });
  // A rule that left out no tensor on any rank is not noted.
  group.all_reduce(any, Group::Op::max);
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (any[i] == 0) continue;
    Thinned one{.keys = rules[i].keys};
    one.every = rules[i].every;
    left_out_.push_back(std::move(one));
  }
  return left;
}

void KeySchedule::saved() {
  left_out_.clear();
  // begin_anew() was called while a save that left something out was pending. The next save must
  // have all, so the count stays empty.
  if (is_less_ && since_.empty()) return;
  since_.resize(rules_.size());
  // 0 means that the next save has the rule's tensors.
  for (std::size_t i = 0; i < since_.size(); ++i) since_[i] = (since_[i] + 1) % rules_[i].every;
}

}  // namespace cairn
