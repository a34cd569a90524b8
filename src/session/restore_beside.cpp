// Restores beside the job that owns the directory, and may remove or replace any step meanwhile.
#include "base/text.hpp"
#include "base/wire.hpp"
#include "group/collectives.hpp"
#include "session/restore_steps.hpp"
#include "store/contents/whose.hpp"
#include "store/directory/set_aside.hpp"

namespace cairn {

// What the owner has done meanwhile with the checkpoint that this reader could not restore.
Store::Change Restorer::look_for_change(std::int64_t step) {
  if (!job.options.read_only) return Store::Change::none;
  return unpack<Store::Change>(
      from_root(*job.group, [&] { return pack(store.look_for_change(step)); }));
}

// Only the name tells which step it is where metadata lack; so they must have lacked when the list
// was read. Else the files may be those of another step by now, which have this step's names only
// in the memory of this node.
void Restorer::require_metadata(std::int64_t step, const CheckpointContents& contents) const {
  if (!job.options.read_only || !lacks_metadata(contents)) return;
  from_root(*job.group, [&]() -> std::string {
    const auto* entry = store.history().find(step);
    const bool lacked =
        entry ? entry->lacks_metadata
              : index_set_aside(*job.files, job.prefix(step)).has_value();  // it is in no list
    if (lacked) return "";
    throw Error(Code::data_loss, cat("the metadata of ", contents.prefix, " cannot be read"),
                "they could be when the directory was listed", "Restore it again.")
        .at(contents.prefix);
  });
}

Error Restorer::removed_meanwhile(std::int64_t step, const Error& error) const {
  if (error.code() == Code::not_found) return error;
  const auto prefix = job.prefix(step).string();
  return Error(Code::not_found, cat("there is no checkpoint ", prefix, " any more"),
               "the job that saves there has removed it while it was read",
               "restore_latest takes the newest one.")
      .at(prefix);
}

}  // namespace cairn
