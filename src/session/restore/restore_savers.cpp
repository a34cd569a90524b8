// Calls the registered savers, which read what they wrote.
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "session/restore/restore.hpp"

namespace cairn {

void restore_savers(const Job& job, const CheckpointContents& contents, Touched* touched) {
  if (!contents.meta) return;
  for (const auto& saver : job.options.hooks.savers) {
    if (!contents.meta->savers.count(saver.name)) continue;
    // Before the call: a saver that fails half-way has changed its data, too.
    if (touched) touched->savers.insert(saver.name);
    run_and_agree(*job.group, [&] {
      try {
        call_user_code(cat("saver '", saver.name, "'"), [&] { saver.restore(contents.prefix); });
      } catch (const Error& error) {
        if (error.code() == Code::data_loss || error.code() == Code::communication) throw;
        // An error with the application's own files does not mean that this checkpoint is damaged.
        throw Error(Code::application, error.problem(), error.reason(), error.way_out())
            .at(error.path());
      }
    });
  }
}

}  // namespace cairn
