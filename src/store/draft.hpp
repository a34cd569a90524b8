#pragma once
/// One save on one rank: its data objects, its part record, and the name by which ranks share it.
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>

#include "cairn/contents.hpp"
#include "io/paced.hpp"
#include "store/commit/recycled.hpp"
#include "store/commit/transaction.hpp"

namespace cairn {

/// What a save is to be, as rank 0 asks for it.
struct Intent {
  std::int64_t step = 0;
  int data_files = 0;
  std::int64_t bytes = 0;  ///< at most, of all ranks
  bool records = true;     ///< its writers leave part records
  bool alone = true;       ///< no other save is on its way
  /// Of a save that has got its number before (Directory::number_elsewhere); -1: it gets one.
  std::int64_t sequence = -1;
  bool may_overwrite = false;  ///< a whole checkpoint of this step may be replaced
  int slot = 0;                ///< DraftId::slot
  /// It may share frozen files: those of the checkpoint of this sequence, or else of the newest.
  std::optional<std::int64_t> shares = std::nullopt;
};

/// What every rank needs to take part in a save; the same on all of them. It holds numbers of eight
/// bytes only: rank 0's can be a part of a sum to which other ranks add zeros.
struct DraftId {
  std::int64_t step = -1;
  std::int64_t sequence = 0;  ///< of its commit
  std::int64_t parent = -1;   ///< sequence of the checkpoint that the state descends from
  double time = 0;            ///< seconds since 1970
  commit::Uuid uuid = {};
  std::int64_t data_files = 0;  ///< that its writers make
  std::int64_t num_files = 0;   ///< of the checkpoint
  std::int64_t records = 1;     ///< whether its writers leave part records ...
  std::int64_t slot = 0;        ///< ... and over which earlier ones, in a staging directory
  /// What the store alone reads of it.
  struct Files {
    std::int64_t recycled_bytes = -1;             ///< of files that it writes over; -1: all are new
    std::int64_t left_step = -1, left_files = 0;  ///< whose files these are; -1: they wait
    std::int64_t shared_step = -1;                ///< whose frozen files it may share; -1: of none
    std::int64_t shared_files = 0, shared_sequence = -1;
    commit::Uuid staging = {};  ///< of the owner's staging directory; zeros: it has one of its own
  };
  Files files = {};
};
static_assert(std::is_trivially_copyable_v<DraftId> && sizeof(DraftId) % sizeof(std::int64_t) == 0);

/// A value. What says nothing else is local, and for any thread.
class Draft {
 public:
  /// See Directory::join.
  Draft(std::shared_ptr<io::FileSystem> files, commit::Transaction save, const DraftId& id)
      : files_(std::move(files)), save_(std::move(save)), id_(id) {}
  /// The same, whose bytes are written at this pace, which outlives it.
  Draft through(io::Pace& pace) const {
    return {std::make_shared<io::PacedFileSystem>(files_, pace), save_, id_};
  }

  const DraftId& id() const { return id_; }
  std::int64_t step() const { return save_.step; }
  const std::string& uuid() const { return save_.uuid; }
  io::Path prefix() const { return save_.prefix(); }
  int num_files() const { return save_.num_files; }
  bool leaves_records() const { return save_.records; }
  /// Whether this save may be taking files that wait for any save.
  bool takes_waiting() const { return save_.files.recycle && !save_.files.takes; }
  /// Rank 0, before others are told the id.
  void descends_from(std::int64_t parent, double time) {
    id_.parent = parent;
    id_.time = time;
  }
  /// Where overwritten files are counted; it outlives the writing.
  void count_into(commit::FileCounts& counts) { save_.files.counts = &counts; }

  /// What holds its files is there, whoever makes it. For a save that nobody has made anything of.
  void make_place() const;

  /// A data file, for its one writer; see commit::make_part.
  commit::PartFile make(int number, std::int64_t most_bytes) const {
    return commit::make_part(*files_, save_, number, most_bytes);
  }
  /// A data file that several ranks write, each for itself: whoever comes first makes it.
  std::unique_ptr<io::File> make_or_open(int number) const;
  /// Of a data file while it is written.
  io::Path path(int number) const { return save_.part(number); }

  /// A data file of another checkpoint, which this save may have one more name of. Nothing: there
  /// is none.
  std::optional<io::Path> shared_path(int number) const;
  /// Whether that checkpoint is the one of this commit.
  bool shares(std::int64_t sequence) const {
    return save_.files.shares && save_.files.shares->sequence == sequence;
  }
  /// One more name for such a file; see commit::share_part.
  bool share(int number, const io::Path& data) const {
    return commit::share_part(*files_, save_, number, data);
  }

  /// Where a registered saver writes.
  io::Path saver_prefix(int saver) const { return save_.saver_prefix(saver); }
  /// What it wrote, as a data file of this save.
  void adopt(const io::Path& data, int number) const;
  /// Rank 0, as there are so many data files now: the count of files that the checkpoint then has.
  /// All ranks are told it (set_num_files).
  int count_with(int data_files) const;
  void set_num_files(int count);

  /// The part record of a writer, and with it all names of what it wrote: durable on return.
  void record(int writer, int writers, std::string_view bytes) const;
  /// Each writer, after the verdict: its data files get their final names. Nothing to be done where
  /// they have them, or all is in one file.
  void name(const std::set<int>& data_files) const;
  bool names_data() const { return !save_.direct && !commit::is_whole(save_.main); }
  /// Rank 0: writers have named so many files.
  void was_named(int data_files) { save_.named = data_files; }

  /// The store's own.
  const commit::Transaction& transaction() const { return save_; }
  commit::Transaction& transaction() { return save_; }

 private:
  std::shared_ptr<io::FileSystem> files_;
  commit::Transaction save_;
  DraftId id_;
};

}  // namespace cairn
