#include "store/contents/whose.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/meta.hpp"
#include "store/commit/names.hpp"
#include "store/contents/format.hpp"
#include "store/contents/lost.hpp"
#include "store/contents/notes.hpp"

namespace cairn {

Whose whose(const Address& prefix, const CheckpointMeta& meta) {
  const auto name = prefix.name();
  if (const auto named = commit::split_step(name)) {
    const bool is_its = meta.step == named->step;
    if (meta.name == named->name) return is_its ? Whose::its_own : Whose::anothers;
    // A checkpoint without a number is saved as step 0; earlier versions stored no name.
    if (!meta.name.empty() || (meta.step == 0 && !is_its)) return Whose::unknown;
    return is_its ? Whose::its_own : Whose::anothers;
  }
  const auto notes = read_notes(*prefix.files(), prefix.path().parent_path());
  const auto note = notes.find(name);
  if (note == notes.end() || note->second.bundle.empty()) return Whose::unknown;
  return note->second.bundle == meta.uuid ? Whose::its_own : Whose::anothers;
}

std::string misplaced(const CheckpointContents& contents) {
  const auto named = commit::split_step(io::Path(contents.prefix).filename().string());
  if (!named || !contents.meta) return "";
  const auto& meta = *contents.meta;
  if (meta.name != named->name || meta.step == named->step) return "";
  return cat("it holds ", meta.name, "-", meta.step,
             ": it was renamed or copied, or has changed places with another");
}

void require_in_place(const IndexFile& loaded, const CheckpointContents& contents) {
  const auto refuse = [&](const std::string& why, const char* way_out) {
    throw Error(Code::data_loss, cat("this is not the checkpoint ", contents.prefix), why, way_out)
        .at(format_of(contents.format).main_file(contents.prefix).string());
  };
  if (!loaded.foreign.empty()) {
    refuse(loaded.foreign, index_way_out(contents.prefix));
  }
  if (const auto why = misplaced(contents); !why.empty()) {
    refuse(why, "Give it the name back that it had, or another than those of the job.");
  }
}

bool lacks_metadata(const CheckpointContents& contents) {
  return !contents.meta && std::any_of(contents.own.begin(), contents.own.end(),
                                       [](const auto& own) { return own.key == bundle::meta_key; });
}

OpenCheckpoint read_in_place(const Address& prefix) {
  auto loaded = load_index(prefix);
  auto contents = parse_contents(loaded, prefix.path());
  require_in_place(loaded, contents);
  return {prefix, std::move(contents)};
}

}  // namespace cairn
