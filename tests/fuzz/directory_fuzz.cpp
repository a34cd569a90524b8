// Any bytes as the small files of a directory: the owner's record, TensorFlow's state file, the
// history of runs, seals of HDF5 files; and as the names of entries.
#include "base/checksum.hpp"
#include "base/utc.hpp"
#include "fuzz/hostile.hpp"
#include "layout/bundle/slice_key.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "session/schedule/run_history.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"
#include "store/commit/state_file.hpp"

using namespace cairn;

namespace {

void read_state_file(std::string_view text) {
  const auto state = commit::parse_state_file(text);
  if (!state) return;
  if (state->model_checkpoint_path.empty()) fuzz::wrong("a state file without a newest path");
  std::string printed;
  if (!fuzz::only([&] { printed = commit::print_state_file(*state); }, Code::internal)) return;
  if (!commit::parse_state_file(printed)) fuzz::wrong("a printed state file is none");
}

void read_names(std::string_view entry) {
  const commit::Naming naming{"ckpt"};
  commit::parse_name(entry, naming);
  commit::parse_aside_name(entry, naming);
  commit::parse_temp_name(entry);
  commit::parse_private_name(entry);
  commit::parse_recycled_name(entry);
  commit::parse_prefix(entry, naming);
}

}  // namespace

CAIRN_FUZZ_TARGET(directory) {
  if (const auto owner = commit::parse_owner(text)) {
    if (commit::describe(*owner).empty()) fuzz::wrong("an owner without words");
    if (!commit::parse_owner(commit::print_owner(*owner))) fuzz::wrong("an owner that is none");
  }
  read_state_file(text);
  if (const auto history = RunHistory::parse(text)) RunHistory::parse(history->print());
  parse_utc(text);
  read_names(text.substr(0, 300));
  bundle::decode_slice_key(text);
  hdf5::find_meta_place(text);
  hdf5::may_be_whole(text, static_cast<std::int64_t>(text.size()) * 3);
  fuzz::only_data_loss([&] { hdf5::decode_seal(text, 100'000); });
}
