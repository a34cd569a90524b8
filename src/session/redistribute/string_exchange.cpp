#include "session/redistribute/string_exchange.hpp"

#include "base/wire.hpp"

namespace cairn {
namespace {

Mail mail_of(std::map<int, WireWriter> letters) {
  Mail mail;
  for (auto& [rank, letter] : letters) mail.emplace_back(rank, letter.take());
  return mail;
}

}  // namespace

StringRoutes route_strings(Group& group, std::map<std::string, int> from) {
  StringRoutes routes;
  routes.any = any_of(group, !from.empty());
  routes.from = std::move(from);
  if (!routes.any) return routes;
  std::map<int, WireWriter> letters;
  for (const auto& [key, rank] : routes.from) letters[rank].put(key);
  for (const auto& [rank, letter] : all_to_all(group, mail_of(std::move(letters)))) {
    for (WireReader in(letter); !in.empty();) routes.to.emplace_back(rank, in.get<std::string>());
  }
  return routes;
}

std::map<std::string, std::vector<std::string>> pass_strings(Group& group,
                                                             const StringRoutes& routes,
                                                             const State& plain) {
  std::map<std::string, std::vector<std::string>> values;
  if (!routes.any) return values;
  auto letters = together(group, [&] {
    std::map<int, WireWriter> out;
    for (const auto& [rank, key] : routes.to) {
      out[rank].put(key).put(plain.find(key)->strings->get());
    }
    return out;
  });
  for (const auto& [rank, letter] : all_to_all(group, mail_of(std::move(letters)))) {
    for (WireReader in(letter); !in.empty();) {
      auto key = in.get<std::string>();
      values[std::move(key)] = in.get_all<std::string>();
    }
  }
  return values;
}

}  // namespace cairn
