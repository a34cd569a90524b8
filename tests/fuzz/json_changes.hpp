#pragma once
/// Changes of valid JSON: members are renamed, removed, or get another type, which flipped bits
/// hardly ever achieve.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::fuzz {

class JsonChanges {
 public:
  using Json = nlohmann::json;

  /// Has no changes if the text is no JSON.
  explicit JsonChanges(std::string_view text) : json_(Json::parse(text, nullptr, false)) {
    if (!json_.is_discarded()) find(Json::json_pointer(), json_);
  }

  static std::size_t kinds() { return 3 + others().size(); }
  std::size_t count() const { return places_.size() * kinds(); }
  std::string at(std::size_t number) const {
    auto json = json_;
    const auto& place = places_[number / kinds()];
    const auto kind = number % kinds();
    auto& parent = json[place.parent_pointer()];
    const auto& name = place.back();
    if (kind >= 3) {
      json[place] = others()[kind - 3];
    } else if (parent.is_array()) {
      const auto item = static_cast<std::ptrdiff_t>(std::stoull(name));
      if (kind == 0) parent.erase(parent.begin() + item);
      if (kind == 1) parent.insert(parent.begin() + item, parent[static_cast<std::size_t>(item)]);
      if (kind == 2) parent.erase(parent.begin() + item, parent.end());
    } else {
      auto value = std::move(parent[name]);
      parent.erase(name);
      if (kind == 1) parent[name + "x"] = std::move(value);
      if (kind == 2 && !parent.empty()) parent.begin().value() = std::move(value);
    }
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

 private:
  static const std::vector<Json>& others() {
    static const std::vector<Json> all{nullptr,
                                       true,
                                       0,
                                       -1,
                                       ~std::uint64_t{0},
                                       1e300,
                                       0.5,
                                       "text",
                                       "nan",
                                       Json::array(),
                                       Json::object(),
                                       Json::array({Json::array({0, 1}), 2}),
                                       {{"x", 1}}};
    return all;
  }

  void find(const Json::json_pointer& place, const Json& json) {
    if (!place.empty()) places_.push_back(place);
    if (!json.is_structured()) return;
    for (const auto& [name, value] : json.items()) {
      if (json.is_array()) {
        find(place / static_cast<std::size_t>(std::stoull(name)), value);
      } else {
        find(place / name, value);
      }
    }
  }

  Json json_;
  std::vector<Json::json_pointer> places_;
};

}  // namespace cairn::fuzz
