#include "store/directory/commit_bundle.hpp"

#include "store/commit/protocol.hpp"
#include "store/contents/format.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/no_more_open.hpp"
#include "store/contents/notes.hpp"
#include "store/contents/seal.hpp"
#include "store/directory/recovery.hpp"

namespace cairn {

// The steps of the protocol for one process that writes no data: the data files are links or
// copies. It leaves no part records, so nobody can roll it forward.
void commit_bundle(const Location& place, const commit::OwnedName& owner, NewBundle bundle,
                   const std::function<std::optional<PinLock>()>& sealed) {
  auto& files = *place.files;
  const auto data_files = static_cast<int>(bundle.data.size());
  commit::Transaction save{place.directory,    place.naming,   0,
                           commit::new_uuid(), data_files + 1, !place.atomic_rename};
  commit::avoid_counts_in_use(files, save);
  if (save.direct) put_back_undecided(place, 0);
  const auto made = no_more_open({place.files, place.directory}, bundle.access);
  commit::begin(files, save);
  try {
    for (int file = 0; file < data_files; ++file) {
      io::link_or_copy(files, bundle.data[static_cast<std::size_t>(file)], save.part(file));
    }
    bundle.meta.uuid = save.uuid;
    const auto index =
        seal_index({std::move(bundle.tensors), {}}, bundle.meta, data_files, save.num_files);
    owner.check();
    // The lock is held until the commit, so that nobody pins or unpins in between.
    const auto pins = sealed();
    commit::publish(*made.files(), save, index.index, index.own_files,
                    [&](const auto& one) { return holds(files, one); });
  } catch (const Error& error) {
    if (error.code() != Code::durability_unknown) commit::abandon(files, save, owner.ownership());
    throw;
  }
  commit::clean_up(files, save, owner.ownership(), was_own_hdf5(files, save.prefix()));
  note_saved(files, save.prefix(), false, Format::bundle, save.uuid);
}

}  // namespace cairn
