#pragma once
/// One save on one rank: its data files, its part record, and the DraftId that all ranks share.
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/contents.hpp"
#include "io/paced.hpp"
#include "model/not_finite.hpp"
#include "store/commit/names.hpp"
#include "store/commit/recycled.hpp"

namespace cairn {

/// What rank 0 asks of a save that begins.
struct Intent {
  std::int64_t step = 0;
  int data_files = 0;
  std::int64_t bytes = 0;   ///< at most, of all ranks
  bool records = true;      ///< its writers leave part records
  bool alone = true;        ///< no other save is on its way
  bool background = false;  ///< the application goes on while it is written
  /// The number of a save that was numbered before (Store::number_elsewhere); -1: it gets a new
  /// one.
  std::int64_t sequence = -1;
  bool may_overwrite = false;  ///< a whole checkpoint of this step may be replaced
  int slot = 0;                ///< DraftId::slot
  /// The save may share frozen files of the checkpoint of this sequence, or of the newest one if
  /// there is no such checkpoint. None: it shares none.
  std::optional<std::int64_t> shares = std::nullopt;
};

/// What every rank needs to take part in a save; the same on all of them. It holds only numbers of
/// eight bytes, so that rank 0's can be part of a sum to which other ranks add zeros: that is how a
/// repeated asynchronous save begins without a message. It names the staging directory, too: a rank
/// that remembered one from an earlier save could write into one that was abandoned. What only one
/// call allows (a policy, to overwrite) is in the plan and the Intent.
struct DraftId {
  std::int64_t step = -1;
  std::int64_t sequence = 0;  ///< of its commit
  std::int64_t parent = -1;   ///< sequence of the checkpoint that the state descends from
  double time = 0;            ///< seconds since 1970
  commit::Uuid uuid = {};
  std::int64_t data_files = 0;  ///< that its writers make
  std::int64_t num_files = 0;   ///< of the checkpoint
  std::int64_t records = 1;     ///< whether its writers leave part records ...
  /// ... and, in a staging directory, in which slot, over the slot's earlier records. It is the
  /// slot that no pending save has. It does not follow from the sequence, since a save that gave
  /// way leaves a gap there.
  std::int64_t slot = 0;
  /// Only the store reads these.
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

/// What a rank notes about the bytes that it writes.
struct WriteNotes {
  std::int64_t recycled_files = 0;   ///< overwritten instead of new
  std::int64_t unchanged_bytes = 0;  ///< that these held already, and were not written
  bool looks = false;                ///< for numbers that are not finite, ...
  NotFiniteKeys not_finite = {};     ///< ... which these tensors have
};

/// A part of a data file, which one rank writes alone, in a store that takes files of several ranks
/// in parts only (StoreMaker::part_bytes). Parts are numbered from 1 to most_parts.
struct FilePart {
  int number;
  std::int64_t begin, end;
  bool is_last;  ///< of the file
};
constexpr std::int64_t most_parts = 10'000;

/// What lies before such parts in a file, and behind them. The tail is one more part. Its bytes may
/// change until the commit.
struct FileEnds {
  std::string head;
  std::int64_t tail_offset = 0;
  std::string tail;
};

/// What a store does for one save on one rank. Unless marked otherwise, functions are local, and
/// any thread may call them.
class DraftFiles {
 public:
  virtual ~DraftFiles() = default;
  virtual std::unique_ptr<DraftFiles> copy() const = 0;
  /// From now on writes are limited to this pace. `Pace` outlives this.
  virtual void go_at(io::Pace&) = 0;

  /// Makes sure that the place for the files exists; any rank may make it. For a save of which
  /// nothing was made before.
  virtual void make_place() const = 0;
  /// Opens a data file for its only writer. Where the store keeps files of removed checkpoints it
  /// may be one of them, and longer than what is written.
  virtual commit::PartFile make(int number, std::int64_t most_bytes) const = 0;
  /// Notes what such a file holds, now that it is synced.
  virtual void wrote(int number, commit::WrittenBlocks) const = 0;
  /// The save was committed on all ranks.
  virtual void committed() const = 0;
  /// Opens a data file that several ranks write, each on its own; the first one makes it.
  virtual std::unique_ptr<io::File> make_or_open(int number) const = 0;
  /// Rank 0: begins data files that ranks write in parts. What tell() of rank 0 returns then must
  /// reach hear() on the others before they open one, and what theirs return that of rank 0 before
  /// the commit. It is a list of bundle::PartUpload.
  virtual void begin_parts(const std::vector<int>& numbers) = 0;
  virtual std::string tell() const = 0;
  /// The same for this rank's part record, with PartUpload::ends.
  virtual std::string tell_next_owner() const = 0;
  virtual void hear(std::string_view) = 0;
  /// Rank 0, before it opens its parts: what encloses those of all ranks. The first part is one of
  /// its own, and if it is the only one, the file was not begun. Only of a save whose format has
  /// one file.
  virtual void enclose(FileEnds) = 0;
  /// Opens such a file for a rank that writes these parts, in order.
  virtual std::unique_ptr<io::File> open_parts(int number, std::vector<FilePart>) const = 0;
  /// The path of a data file while it is written.
  virtual io::Path path(int number) const = 0;

  /// A data file of another checkpoint (DraftId::Files) to which this save may make a hard link.
  /// Nothing if there is none.
  virtual std::optional<io::Path> shared_path(int number) const = 0;
  /// Makes a hard link to such a file. Returns false, and makes nothing, if it cannot have another
  /// name.
  virtual bool share(int number, const io::Path& data) const = 0;

  /// The prefix under which a registered saver writes.
  virtual io::Path saver_prefix(int saver) const = 0;
  /// Makes a file that the saver wrote a data file of this save.
  virtual void adopt(const io::Path& data, int number) const = 0;
  /// Rank 0, when the number of data files is known: how many files the checkpoint then has. All
  /// ranks are told that with set_num_files.
  virtual int count_with(int data_files) const = 0;
  virtual void set_num_files(int count) = 0;

  /// Writes a writer's part record and makes it durable, together with the names of all that the
  /// writer wrote.
  virtual void record(int writer, int writers, std::string_view bytes) const = 0;
  /// What the next owner does with the save if it is left as it is, in words.
  virtual const char* left_behind() const = 0;
  /// Whether each writer renames its data files to their final names after the ranks have agreed;
  /// the same on all ranks.
  virtual bool names_data() const = 0;
  /// Renames these data files so.
  virtual void name(const std::set<int>& data_files) const = 0;
};

/// A value. Unless marked otherwise, functions are local, and any thread may call them.
class Draft {
 public:
  /// Called by Store::join. `prefix`: that of the checkpoint which the save will become.
  Draft(std::unique_ptr<DraftFiles> files, const DraftId& id, Format format, io::Path prefix)
      : files_(std::move(files)), id_(id), format_(format), prefix_(std::move(prefix)) {}
  Draft(const Draft& other) : Draft(other.files_->copy(), other.id_, other.format_, other.prefix_) {
    notes_ = other.notes_;
    named_ = other.named_;
  }
  Draft(Draft&&) noexcept = default;
  Draft& operator=(Draft&&) noexcept = default;
  /// A copy whose writes are limited to this pace, which outlives it.
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
  /// Whether this save may be overwriting files that wait for any save.
  bool takes_waiting() const { return id_.files.recycled_bytes >= 0 && id_.files.left_step < 0; }
  /// Whether this commit's checkpoint is the one whose frozen files this save may share.
  bool shares(std::int64_t sequence) const {
    return id_.files.shared_step >= 0 && id_.files.shared_sequence == sequence;
  }
  /// Rank 0, before it sends the id to others.
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
  void wrote(int number, commit::WrittenBlocks blocks) const {
    if (notes_) notes_->unchanged_bytes += blocks.unchanged_bytes;
    files_->wrote(number, std::move(blocks));
  }
  void committed() const { files_->committed(); }
  std::unique_ptr<io::File> make_or_open(int number) const { return files_->make_or_open(number); }
  void begin_parts(const std::vector<int>& numbers) { files_->begin_parts(numbers); }
  std::string tell() const { return files_->tell(); }
  void hear(std::string_view told) { files_->hear(told); }
  std::unique_ptr<io::File> open_parts(int number, std::vector<FilePart> parts) const {
    return files_->open_parts(number, std::move(parts));
  }
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

  /// Where to note what is written. `notes` outlives the writing.
  void note_into(WriteNotes& notes) { notes_ = &notes; }
  /// Null: tensors are not checked for numbers that are not finite.
  NotFiniteKeys* not_finite() const {
    return notes_ && notes_->looks ? &notes_->not_finite : nullptr;
  }
  /// Rank 0: notes how many data files the writers have renamed.
  void was_named(int data_files) { named_ = data_files; }
  int named() const { return named_; }

  /// For the store that made this draft, and for what a format asks of it.
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
