// The public run_and_agree() (cairn/group.hpp). The one of collectives.hpp is for the library's own
// stages, which are in a call already.
#include "cairn/group.hpp"

#include "group/call_group.hpp"
#include "group/collectives.hpp"

namespace cairn::detail {

void agree_on(const std::shared_ptr<Group>& group, const std::exception_ptr& mine) {
  if (!group) throw Error(Code::invalid_argument, "the group of run_and_agree is null");
  const auto calls = CallGroup::of(group);
  collective_call(*calls, "run_and_agree", [&] {
    std::optional<Error> error;
    if (mine) {
      try {
        std::rethrow_exception(mine);
      } catch (...) {
        error = application_error("");
      }
    }
    // The number of ranks that failed goes with the entry check, so success costs no other message.
    std::int64_t failed = error.has_value();
    calls->check_entry({&failed, 1});
    if (failed > 0) agree(*calls, error);
  });
}

}  // namespace cairn::detail
