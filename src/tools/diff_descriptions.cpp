// Compares the descriptions of two checkpoints: those that only one has, and those that differ.
#include "tools/diff.hpp"

#include <map>
#include <set>
#include <utility>

namespace cairn {
namespace {

std::string json_of(const std::vector<std::string>& list) {
  return list.empty() ? "" : Attribute(list).json();
}

class DescriptionComparison {
 public:
  void compare(const std::string& key, const Description& a, const Description& b) {
    add(key, "units", a.units.empty() ? "" : Attribute(a.units).json(),
        b.units.empty() ? "" : Attribute(b.units).json());
    add(key, "dimensions", json_of(a.dimensions), json_of(b.dimensions));
    add(key, "coordinates", json_of(a.coordinates), json_of(b.coordinates));
    compare(key, a.attributes, b.attributes);
  }

  void compare(const std::string& key, const Attributes& a, const Attributes& b) {
    std::map<std::string, std::pair<std::string, std::string>> both;
    for (const auto& [name, value] : a) both[name].first = value.json();
    for (const auto& [name, value] : b) both[name].second = value.json();
    for (const auto& [name, values] : both) add(key, name, values.first, values.second);
  }

  std::vector<DescriptionDifference> take() { return std::move(found_); }

 private:
  void add(const std::string& key, const std::string& name, std::string a, std::string b) {
    if (a != b) found_.push_back({key, name, std::move(a), std::move(b)});
  }

  std::vector<DescriptionDifference> found_;
};

}  // namespace

std::vector<DescriptionDifference> compare(const Descriptions& a, const Descriptions& b) {
  DescriptionComparison comparison;
  comparison.compare("", a.attributes, b.attributes);
  static const Description nothing;
  const auto of = [](const Descriptions& all, const std::string& key) -> const Description& {
    const auto at = all.by_key.find(key);
    return at == all.by_key.end() ? nothing : at->second;
  };
  std::set<std::string> keys;
  for (const auto& [key, said] : a.by_key) keys.insert(key);
  for (const auto& [key, said] : b.by_key) keys.insert(key);
  for (const auto& key : keys) comparison.compare(key, of(a, key), of(b, key));
  return comparison.take();
}

}  // namespace cairn
