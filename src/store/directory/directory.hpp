#pragma once
/// The store in a file system: what the owner of a checkpoint directory does there.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/commit/transaction.hpp"
#include "store/directory/marks.hpp"
#include "store/directory/open_metrics.hpp"
#include "store/directory/save_status.hpp"
#include "store/directory/sequences.hpp"
#include "store/directory/upkeep.hpp"
#include "store/store.hpp"

namespace cairn {

/// Numbers of steps are those of the protocol (store/commit/protocol.cpp).
class Directory final : public Store {
 public:
  /// The location outlives it.
  explicit Directory(const Location& place)
      : Store(place),
        owned_(place),
        upkeep_(place, policy_, owned_),
        sequences_(place, last_number_),
        recorder_(place) {}

  /// Makes the directory and becomes its owner.
  bool take() override;
  /// See store/directory/recovery.hpp.
  Recovered recover(const Readers&) const override;
  /// Reads the catalog, begins to give out numbers, makes room for recycled files, brings notes and
  /// state file up to date.
  void begin(Recovered, const SizesOfSteps& = {}) override;
  void let_go() override;
  void check_owner() const override {
    if (owned_.name) owned_.name->check();
  }
  void leave(bool has_pending) override {
    if (owned_.staging && (has_pending || unwithdrawn_ || history_.any_volatile()))
      owned_.staging->leave();
  }

  void look_again() override;

  std::int64_t number_elsewhere(std::int64_t step) override {
    sequences_.require(step);
    return sequences_.next();
  }
  /// Also: the staging directory is there durably, and the save can take all that was left.
  bool is_simple(std::int64_t step, int data_files) const override;
  DraftId offer(int data_files) override;
  void use(const DraftId&) override;
  void look_before(Draft&, std::int64_t bytes) const override;
  /// Step 1: then makes the temp directory.
  Draft begin_save(const Intent&) override;
  Draft join(const DraftId&) const override;
  void remove_untaken(const Draft&, int first, int end) const override;
  /// Steps 4 to 6.
  std::optional<io::FileId> publish(Prepared&, int data_files, JoinedEntries,
                                    const std::optional<CatalogEntry>& there) override;
  void committed(const Prepared&, bool volatile_commit, const std::optional<io::FileId>& index,
                 bool is_new = true) override;
  void save_failed(std::int64_t step, const Error&) override;
  void saved_elsewhere(std::int64_t step) override { recorder_.saved(step); }
  /// Step 7: the state file.
  void tell(const Draft&) override;
  /// Step 8. What a next save like this one can overwrite stays where it is.
  void tidy(const Draft*) override;
  /// ... and what is kept for the next save is counted, which may find it where it is.
  std::function<bool()> tidy_later(const Draft&, int data_files, bool durable, Meanwhile) override;
  Withdrawn withdraw(const Draft&) override;
  void spoil(bool alone) override;

  std::optional<std::int64_t> step_to_prove(const std::vector<std::int64_t>& saving,
                                            const std::set<std::int64_t>& tried) override;
  std::size_t remove_surplus(std::int64_t proved, const std::vector<std::int64_t>& saving) override;

  void pin(std::int64_t step) override;
  void unpin(std::int64_t step) override;
  void mark(std::int64_t step, std::optional<StepMark>) override;
  void refresh_pins(std::vector<CatalogEntry>& catalog) const override {
    cairn::refresh_pins(place_, catalog);
    refresh_marks(place_, catalog);
  }

  Recycling& recycling() { return owned_.recycling; }

 private:
  void mark_damaged(const CatalogEntry&, const std::string& reason) override;
  void make_durable();
  void make_temp(commit::Transaction&);
  void require_replaceable(std::int64_t step, bool may_overwrite) const;
  void warn_of_others(std::int64_t step);
  void tell_if_removed(const Error&) const;
  bool is_staged(const commit::Transaction&) const;  // is to be
  bool tidy_behind(const commit::Transaction&, int data_files, bool durable,
                   std::vector<CatalogEntry>, const Meanwhile&);

  Owned owned_;
  Upkeep upkeep_;                                    // in the hands of whoever tidies
  Expiry expiry_;                                    // of the save in hand
  std::optional<std::vector<std::string>> listing_;  // as it began
  Sequences sequences_;
  SaveRecorder recorder_;
  MetricsFile metrics_;
  std::optional<commit::Transaction> unwithdrawn_;  // failed, but recovery could still complete it
  std::unique_ptr<commit::KnownBlocks> known_ = std::make_unique<commit::KnownBlocks>();
  std::int64_t highest_ = -1;  // step that was there or was saved, as far as is known
  bool warned_ = false;        // that others' checkpoints are there
  bool spoiled_ = false;       // the staging directory is to go when no save needs it
};

}  // namespace cairn
