#include "exchange/by_key.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/checksum.hpp"
#include "base/wire.hpp"

namespace cairn {
namespace {

// A planner gets at least about this many slices: fewer are done as quickly as they are handed on.
constexpr std::int64_t slices_a_planner = 4096;

}  // namespace

int first_planner(int ranks) {
  constexpr int few_ranks = 8;
  return ranks > few_ranks ? 1 : 0;
}

int KeyPlanners::of(std::string_view key) const {
  if (planners <= 1) return 0;
  // The hash chooses a planner. Planners are equally far from each other among the ranks that may
  // be planners.
  const auto planner = mixed_bits(crc32c(key)) % static_cast<std::uint64_t>(planners);
  return first_planner(ranks) +
         static_cast<int>(planner * static_cast<std::uint64_t>(ranks - first_planner(ranks)) /
                          static_cast<std::uint64_t>(planners));
}

KeyPlanners key_planners(Group& group, std::size_t slices) {
  return key_planners_for(group,
                          all_reduce(group, static_cast<std::int64_t>(slices), Group::Op::sum));
}

KeyPlanners key_planners_for(const Group& group, std::int64_t all) {
  const std::int64_t most = group.size() - first_planner(group.size());
  return {group.size(),
          static_cast<int>(std::clamp<std::int64_t>(all / slices_a_planner, 1, most))};
}

Answers ask_by_key(Group& group, const KeyPlanners& planners, const std::vector<KeyedText>& mine,
                   const Answer& answer) {
  std::map<int, Packed<KeyedText>> outgoing;
  std::map<int, std::vector<std::size_t>> order;  // positions in `mine`, for each planner
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const int planner = planners.of(mine[i].key);
    outgoing[planner].add(mine[i]);
    order[planner].push_back(i);
  }
  auto messages = all_to_all(group, messages_of(std::move(outgoing)));

  // All that ranks say of one key; each answer goes to the same place in the reply as its question
  // had in the rank's message.
  struct Asked {
    std::vector<std::pair<int, std::string>> said;
    std::vector<std::size_t> places;  // of each answer in the reply to its rank
  };
  std::map<std::string, Asked> by_key;
  std::map<int, std::vector<std::string>> replies;
  for (const auto& [rank, message] : messages) {
    auto& reply = replies[rank];
    for (auto& [key, text] : unpack_each<KeyedText>(message)) {
      auto& asked = by_key[std::move(key)];
      asked.said.emplace_back(rank, std::move(text));
      asked.places.push_back(reply.size());
      reply.emplace_back();
    }
  }
  // An error must not keep the replies from being sent. The text that belongs to it stays empty.
  DeferredError error;
  for (const auto& [key, asked] : by_key) {
    error.guard([&, &key = key, &asked = asked] {
      auto answers = answer(key, asked.said);
      for (std::size_t i = 0; i < asked.said.size(); ++i) {
        replies.at(asked.said[i].first).at(asked.places[i]) = std::move(answers.at(i));
      }
    });
  }
  messages = all_to_all(group, messages_of(std::move(replies)));
  Answers heard{std::vector<std::string>(mine.size()), error.first()};
  // A planner answers in the order in which this rank asked it.
  for (const auto& [planner, message] : messages) {
    auto texts = unpack<std::vector<std::string>>(message);
    const auto& places = order.at(planner);
    for (std::size_t i = 0; i < places.size(); ++i) {
      heard.texts[places[i]] = std::move(texts.at(i));
    }
  }
  return heard;
}

void agree_on_least(Group& group, const std::optional<Error>& mine) {
  if (mine && mine->code() == Code::communication) throw Error(*mine);
  if (!any_of(group, mine.has_value())) return;
  // Only the least name travels on, so that messages do not grow if many ranks fail.
  struct Failed {
    int rank;
    std::string tensor;
  };
  const auto tensor = [](const std::string& said) { return unpack<Failed>(said).tensor; };
  std::string said;
  if (mine) said = pack(Failed{group.rank(), mine->tensor()});
  said = reduce_to_root(group, std::move(said), [&](std::string low, std::string high) {
    // Of equal names the lowest rank's stays.
    const bool is_high = low.empty() || (!high.empty() && tensor(high) < tensor(low));
    return is_high ? std::move(high) : std::move(low);
  });
  const int whose = broadcast_value(group, said.empty() ? 0 : unpack<Failed>(said).rank);
  std::optional<Error> one;
  if (group.rank() == whose) {
    one = mine;
    if (one->rank() < 0) one->on_rank(0);  // not the planner, which has no part in it
  }
  agree(group, one);
}

void to_root(Group& group, std::string mine, const std::function<void(std::string)>& take) {
  constexpr std::size_t bits = 62;  // of a number: the sum never reaches the sign
  const auto size = static_cast<std::size_t>(group.size()),
             rank = static_cast<std::size_t>(group.rank());
  std::vector<std::int64_t> senders((size + bits - 1) / bits);
  if (!mine.empty()) senders[rank / bits] = std::int64_t{1} << rank % bits;
  // Rank 0 learns from one reduction who sends, so ranks without a message send none.
  group.all_reduce(senders, Group::Op::sum);
  if (rank != 0) {
    if (!mine.empty()) group.send(0, mine);
    mine.clear();
  }
  DeferredError error;
  for (std::size_t from = 0; rank == 0 && from < size; ++from) {
    if ((senders[from / bits] >> from % bits & 1) == 0) continue;
    // After an error, too: a sender waits until its message is received.
    auto message = from == 0 ? std::exchange(mine, {}) : group.receive(static_cast<int>(from));
    if (!error) error.guard([&] { take(std::move(message)); });
  }
  agree(group, error.first());
}

}  // namespace cairn
