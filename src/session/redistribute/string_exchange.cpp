#include "session/redistribute/string_exchange.hpp"

#include "base/wire.hpp"

namespace cairn {

StringRoutes route_strings(Group& group, std::map<std::string, int> from) {
  StringRoutes routes;
  routes.any = any_of(group, !from.empty());
  routes.from = std::move(from);
  if (!routes.any) return routes;
  std::map<int, Packed<std::string>> letters;
  for (const auto& [key, rank] : routes.from) letters[rank].add(key);
  for (const auto& [rank, letter] : all_to_all(group, mail_of(std::move(letters)))) {
    for (auto& key : unpack_each<std::string>(letter)) routes.to.emplace_back(rank, std::move(key));
  }
  return routes;
}

std::map<std::string, std::vector<std::string>> pass_strings(Group& group,
                                                             const StringRoutes& routes,
                                                             const SeenState& plain) {
  std::map<std::string, std::vector<std::string>> values;
  if (!routes.any) return values;
  using Valued = std::pair<std::string, std::vector<std::string>>;
  auto letters = together(group, [&] {
    std::map<int, std::string> out;  // Valued, one after the other
    for (const auto& [rank, key] : routes.to) {
      pack_into(out[rank], key);
      pack_into(out[rank], plain.find(key)->strings->get());
    }
    return std::vector<std::pair<int, std::string>>(std::make_move_iterator(out.begin()),
                                                    std::make_move_iterator(out.end()));
  });
  for (const auto& [rank, letter] : all_to_all(group, std::move(letters))) {
    for (auto& one : unpack_each<Valued>(letter)) values.insert(std::move(one));
  }
  return values;
}

}  // namespace cairn
