// Strings travel whole: the ranks that want them tell the senders once, and each call sends the
// values.
#include "session/redistribute/string_exchange.hpp"

#include "base/wire.hpp"

namespace cairn {

StringRoutes route_strings(Group& group, std::map<std::string, int> from) {
  StringRoutes routes;
  routes.any = any_of(group, !from.empty());
  routes.from = std::move(from);
  if (!routes.any) return routes;
  std::map<int, Packed<std::string>> outgoing;
  for (const auto& [key, rank] : routes.from) outgoing[rank].add(key);
  for (const auto& [rank, message] : all_to_all(group, messages_of(std::move(outgoing)))) {
    for (auto& key : unpack_each<std::string>(message))
      routes.to.emplace_back(rank, std::move(key));
  }
  return routes;
}

std::map<std::string, std::vector<std::string>> pass_strings(Group& group,
                                                             const StringRoutes& routes,
                                                             const RefreshedState& plain) {
  std::map<std::string, std::vector<std::string>> values;
  if (!routes.any) return values;
  using Valued = std::pair<std::string, std::vector<std::string>>;
  auto outgoing = run_and_agree(group, [&] {
    std::map<int, std::string> out;  // packed values of type Valued, by rank
    for (const auto& [rank, key] : routes.to) {
      pack_into(out[rank], key);
      pack_into(out[rank], plain.find(key)->strings->get());
    }
    return std::vector<std::pair<int, std::string>>(std::make_move_iterator(out.begin()),
                                                    std::make_move_iterator(out.end()));
  });
  for (const auto& [rank, message] : all_to_all(group, std::move(outgoing))) {
    for (auto& one : unpack_each<Valued>(message)) values.insert(std::move(one));
  }
  return values;
}

}  // namespace cairn
