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
#include "model/not_finite.hpp"
#include "store/commit/names.hpp"
#include "store/commit/recycled.hpp"

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
/// bytes only: so rank 0's can be a part of a sum to which other ranks add zeros, and a repeated
/// asynchronous save begins without a message. It names the staging directory too: a rank that
/// remembered one from an earlier save could write into one that was left. What one call allows (a
/// policy, to overwrite) is in the plan and the Intent.
struct DraftId {
  std::int64_t step = -1;
  std::int64_t sequence = 0;  ///< of its commit
  std::int64_t parent = -1;   ///< sequence of the checkpoint that the state descends from
  double time = 0;            ///< seconds since 1970
  commit::Uuid uuid = {};
  std::int64_t data_files = 0;  ///< that its writers make
  std::int64_t num_files = 0;   ///< of the checkpoint
  std::int64_t records = 1;     ///< whether its writers leave part records ...
  /// ... and over which earlier ones, in a staging directory: the slot that no pending save has. It
  /// is not made of the sequence, of which a save that gave way leaves a gap.
  std::int64_t slot = 0;
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

/// What a rank notes of the bytes that it writes.
struct WriteNotes {
  std::int64_t recycled_files = 0;  ///< overwritten instead of new
  bool looks = false;               ///< for numbers that are not finite, ...
  NotFiniteKeys not_finite = {};    ///< ... which these tensors have
};

/// What a store does for one save on one rank. What says nothing else is local, and for any thread.
class DraftFiles {
 public:
  virtual ~DraftFiles() = default;
  virtual std::unique_ptr<DraftFiles> copy() const = 0;
  /// From here on bytes are written at this pace, which outlives it.
  virtual void go_at(io::Pace&) = 0;

  /// What holds its files is there, whoever makes it. For a save that nobody has made anything of.
  virtual void make_place() const = 0;
  /// A data file, for its one writer. Over that of a checkpoint that is gone, where the store keeps
  /// some: it may be longer than what is written.
  virtual commit::PartFile make(int number, std::int64_t most_bytes) const = 0;
  /// A data file that several ranks write, each for itself: whoever comes first makes it.
  virtual std::unique_ptr<io::File> make_or_open(int number) const = 0;
  /// Of a data file while it is written.
  virtual io::Path path(int number) const = 0;

  /// A data file of another checkpoint (DraftId::Files), which this save may have one more name of.
  /// Nothing: there is none.
  virtual std::optional<io::Path> shared_path(int number) const = 0;
  /// One more name for such a file. False, and nothing there, where it cannot have one.
  virtual bool share(int number, const io::Path& data) const = 0;

  /// Where a registered saver writes.
  virtual io::Path saver_prefix(int saver) const = 0;
  /// What it wrote, as a data file of this save.
  virtual void adopt(const io::Path& data, int number) const = 0;
  /// Rank 0, as there are so many data files now: the count of files that the checkpoint then has.
  /// All ranks are told it (set_num_files).
  virtual int count_with(int data_files) const = 0;
  virtual void set_num_files(int count) = 0;

  /// The part record of a writer, and with it all names of what it wrote: durable on return.
  virtual void record(int writer, int writers, std::string_view bytes) const = 0;
  /// Whether a writer gives names to what it wrote after the verdict; the same on all ranks.
  virtual bool names_data() const = 0;
  /// ... which this does.
  virtual void name(const std::set<int>& data_files) const = 0;
};

/// A value. What says nothing else is local, and for any thread.
class Draft {
 public:
  /// See Store::join. `prefix`: of the checkpoint that it becomes.
  Draft(std::unique_ptr<DraftFiles> files, const DraftId& id, Format format, io::Path prefix)
      : files_(std::move(files)), id_(id), format_(format), prefix_(std::move(prefix)) {}
  Draft(const Draft& other) : Draft(other.files_->copy(), other.id_, other.format_, other.prefix_) {
    notes_ = other.notes_;
    named_ = other.named_;
  }
  Draft(Draft&&) noexcept = default;
  Draft& operator=(Draft&&) noexcept = default;
  /// The same, whose bytes are written at this pace, which outlives it.
  Draft through(io::Pace& pace) const {
    Draft paced = *this;
    paced.files_->go_at(pace);
    return paced;
  }

  const DraftId& id() const { return id_; }
  std::int64_t step() const { return id_.step; }
  std::string uuid() const { return commit::uuid_text(id_.uuid); }
  Format format() const { return format_; }
  const io::Path& prefix() const { return prefix_; }
  int num_files() const { return static_cast<int>(id_.num_files); }
  bool leaves_records() const { return id_.records != 0; }
  /// Whether this save may be taking files that wait for any save.
  bool takes_waiting() const { return id_.files.recycled_bytes >= 0 && id_.files.left_step < 0; }
  /// Whether the checkpoint whose frozen files it may share is the one of this commit.
  bool shares(std::int64_t sequence) const {
    return id_.files.shared_step >= 0 && id_.files.shared_sequence == sequence;
  }
  /// Rank 0, before others are told the id.
  void descends_from(std::int64_t parent, double time) {
    id_.parent = parent;
    id_.time = time;
  }

  // See DraftFiles.
  void make_place() const { files_->make_place(); }
  commit::PartFile make(int number, std::int64_t most_bytes) const {
    auto made = files_->make(number, most_bytes);
    if (notes_) notes_->recycled_files += made.recycled;
    return made;
  }
  std::unique_ptr<io::File> make_or_open(int number) const { return files_->make_or_open(number); }
  io::Path path(int number) const { return files_->path(number); }
  std::optional<io::Path> shared_path(int number) const { return files_->shared_path(number); }
  bool share(int number, const io::Path& data) const { return files_->share(number, data); }
  io::Path saver_prefix(int saver) const { return files_->saver_prefix(saver); }
  void adopt(const io::Path& data, int number) const { files_->adopt(data, number); }
  int count_with(int data_files) const { return files_->count_with(data_files); }
  void set_num_files(int count) {
    files_->set_num_files(count);
    id_.num_files = count;
  }
  void record(int writer, int writers, std::string_view bytes) const {
    files_->record(writer, writers, bytes);
  }
  bool names_data() const { return files_->names_data(); }
  void name(const std::set<int>& data_files) const { files_->name(data_files); }

  /// Where it is noted; it outlives the writing.
  void note_into(WriteNotes& notes) { notes_ = &notes; }
  /// Null: numbers are not looked at.
  NotFiniteKeys* not_finite() const {
    return notes_ && notes_->looks ? &notes_->not_finite : nullptr;
  }
  /// Rank 0: writers have named so many files.
  void was_named(int data_files) { named_ = data_files; }
  int named() const { return named_; }

  /// The store's own.
  DraftFiles& files() { return *files_; }
  const DraftFiles& files() const { return *files_; }

 private:
  std::unique_ptr<DraftFiles> files_;
  DraftId id_;
  Format format_;
  io::Path prefix_;
  WriteNotes* notes_ = nullptr;
  int named_ = 0;
};

}  // namespace cairn
