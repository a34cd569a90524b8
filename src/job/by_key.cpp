#include "job/by_key.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "base/wire.hpp"

namespace cairn {
namespace {

// Less is done as quickly as it is handed on.
constexpr std::int64_t slices_a_planner = 4096;

}  // namespace

int KeyPlanners::of(std::string_view key) const {
  if (planners <= 1) return 0;
  // Rank 0 has enough to do with what planners send it.
  const auto planner = mixed_bits(crc32c(key)) % static_cast<std::uint64_t>(planners);
  return 1 + static_cast<int>(planner * static_cast<std::uint64_t>(ranks - 1) /
                              static_cast<std::uint64_t>(planners));
}

KeyPlanners key_planners(Group& group, std::size_t slices) {
  const auto all = all_reduce(group, static_cast<std::int64_t>(slices), Group::Op::sum);
  const auto most = std::max<std::int64_t>(group.size() - 1, 1);
  return {group.size(),
          static_cast<int>(std::clamp<std::int64_t>(all / slices_a_planner, 1, most))};
}

void agree_on_least(Group& group, const std::optional<Error>& mine) {
  if (mine && mine->code() == Code::communication) throw Error(*mine);
  if (!any_of(group, mine.has_value())) return;
  // Only the least name travels on, so that messages do not grow where many ranks fail.
  const auto tensor = [](const std::string& said) {
    WireReader in(said);
    in.get<int>();
    return in.get<std::string>();
  };
  std::string said;
  if (mine) said = WireWriter().put(group.rank()).put(mine->tensor()).take();
  said = reduce_to_root(group, std::move(said), [&](std::string low, std::string high) {
    const bool is_high = low.empty() || (!high.empty() && tensor(high) < tensor(low));
    return is_high ? std::move(high) : std::move(low);
  });
  const int whose = broadcast_value(group, said.empty() ? 0 : WireReader(said).get<int>());
  std::optional<Error> one;
  if (group.rank() == whose) {
    one = mine;
    if (one->rank() < 0) one->on_rank(0);  // whoever looked at it says nothing of the tensor
  }
  agree(group, one);
}

void to_root(Group& group, std::string mine, const std::function<void(std::string)>& take) {
  constexpr std::size_t bits = 62;  // of a number that is added up without a carry into the sign
  const auto size = static_cast<std::size_t>(group.size()),
             rank = static_cast<std::size_t>(group.rank());
  std::vector<std::int64_t> senders((size + bits - 1) / bits);
  if (!mine.empty()) senders[rank / bits] = std::int64_t{1} << rank % bits;
  group.all_reduce(senders, Group::Op::sum);
  if (rank != 0) {
    if (!mine.empty()) group.send(0, mine);
    mine.clear();
  }
  KeptError error;
  for (std::size_t from = 0; rank == 0 && from < size; ++from) {
    if ((senders[from / bits] >> from % bits & 1) == 0) continue;
    auto message = from == 0 ? std::move(mine) : group.receive(static_cast<int>(from));
    if (!error) error.guard([&] { take(std::move(message)); });
  }
  agree(group, error.first());
}

}  // namespace cairn
