#pragma once
/// What a seed chooses: jobs that follow each other in one directory, and their mishaps.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/campaigns/programs/random.hpp"
#include "lab/campaigns/programs/stamped_state.hpp"
#include "support/process_files.hpp"

namespace cairn::campaign {

/// What a run of the campaign leaves out.
struct Without {
  bool two_owners = false, read_errors = false, double_faults = false, faults = false,
       threads = false, hdf5 = false, direct = false, pins = false, errands = false;
};
/// Names separated by commas. Throws invalid_argument for an unknown one.
Without parse_without(const std::string& names);

struct Action {
  enum class Kind {
    save,
    save_again,  ///< the same step
    save_async,
    save_async_again,
    poll,
    wait,
    go_back,  ///< restore an earlier step
    look,     ///< restore all that is listed, then the newest
    pin,
    unpin
  };
  Kind kind = Kind::save;
  int choice = 0;  ///< number of the choice among what exists at that time
  std::optional<test::Mishap> mishap = {};
};

/// An errand of an operator, between two jobs (crash_errand.hpp).
struct Errand {
  enum class Kind {
    copy_index,  ///< of one step over that of another, and a repair, as after the next four
    exchange_indexes,
    lose_index,
    flip_index,
    lose_metadata,
    convert_beside,   ///< in the other format, put beside what it was made from
    convert_in_place  ///< the same, which takes its place
  };
  Kind kind = Kind::copy_index;
  int choice = 0;
  std::optional<test::ProcessFiles::Place> stop = {};  ///< where the tool is killed
  StoreCodec codec = StoreCodec::none;                 ///< of a conversion to HDF5
};

struct Process {
  int ranks = 1;
  Format format = Format::bundle;
  StoreCodec codec = StoreCodec::none;  ///< of HDF5 files
  int max_to_keep = 0;
  bool recycle = true, overwrite = true, records = true;
  int io_ranks = 0;  ///< 0: everyone
  WhenBusy when_busy = WhenBusy::wait;
  bool begins_anew = false;  ///< it restores nothing
  std::vector<Action> actions;
  std::optional<test::Mishap> at_opening = {};
  /// The process is killed or stopped at this place, after this action has begun; the opening is
  /// number 0. Negative: it is not.
  int stop_action = -1;
  test::ProcessFiles::Place stop = {};
  bool power_fails = false;           ///< when the process has ended
  std::optional<Errand> errand = {};  ///< after that
  test::Locks locks = test::Locks::kernel;
};

struct Plan {
  std::uint64_t seed = 0;
  Shape shape;
  bool direct = false;  ///< the disk has no renames
  bool clones = false;  ///< its files share space
  bool threads =
      false;  ///< real ones, of ranks and writers; else all that happens follows the seed
  std::vector<Process> processes;
  /// Takes over from the last process while that is stopped, and may be stopped itself while the
  /// first one goes on.
  std::optional<Process> successor = {};
  std::string neglect = {};  ///< what the disk only pretends to do: "sync", "sync_directory"
  bool tells = false;        ///< jobs print what they do to the disk
  bool read_errors = false;  ///< some of the last disks have read errors at the opening
};

Plan make_plan(std::uint64_t seed, const Without&);
std::string text_of(const Process&);
std::string text_of(const Plan&);

}  // namespace cairn::campaign
