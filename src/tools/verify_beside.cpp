#include "tools/verify_beside.hpp"

#include <algorithm>

#include "cairn/error.hpp"
#include "io/local_path.hpp"
#include "store/contents/given_back.hpp"
#include "store/directory/named_checkpoint.hpp"

namespace cairn {
namespace {

// A view knows only what was set aside when it was made, so each look needs a new one.
std::shared_ptr<GivenBack> look_at(const Address& given) {
  auto directory = given.at(io::local_path(given.path()));
  if (!directory.is_directory()) directory = directory.directory();
  return directory.exists() ? std::make_shared<GivenBack>(directory) : nullptr;
}

bool is_listed(const Address& given, const Address& prefix) try {
  const auto listed = checkpoints_beside(given);
  return std::any_of(listed.begin(), listed.end(),
                     [&](const Address& one) { return one.path() == prefix.path(); });
} catch (const Error& error) {
  if (error.code() != Code::not_found) throw;
  return false;
}

}  // namespace

std::vector<Address> checkpoints_beside(const Address& given) {
  const auto view = look_at(given);
  return resolve_checkpoints(view ? Address(view, given.path()) : given);
}

std::optional<FoundBeside> verify_beside(const Address& given, const Address& prefix,
                                         const Progress& progress) {
  constexpr int most_looks = 8;  // a limit, since a job might replace the checkpoint for ever
  const bool is_of_directory = given.at(io::local_path(given.path())).is_directory();
  for (int looks = 1;; ++looks) {
    const auto now = looks == 1 ? given : given.view();
    const auto view = look_at(now);
    const auto seen = view ? Address(view, prefix.path()) : now.at(prefix.path());
    auto checked = verify_checkpoint(seen, progress);
    if (!checked.changed || looks == most_looks) {
      return FoundBeside{std::move(checked), view && view->is_set_aside(prefix.path())};
    }
    if (!is_of_directory) continue;
    if (!is_listed(given.view(), prefix)) return std::nullopt;
  }
}

}  // namespace cairn
