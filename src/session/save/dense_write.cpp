// Writes the dense tensors of a save: in rounds, pieces of slices travel to the ranks that write
// the runs.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/copy.hpp"
#include "cairn/error.hpp"
#include "exchange/pass_pieces.hpp"
#include "group/collectives.hpp"
#include "session/save/dense.hpp"
#include "session/save/dense_runs.hpp"
#include "session/save/staying.hpp"
#include "session/save/writers/writer.hpp"

namespace cairn {
namespace {

class DenseWrite {
 public:
  DenseWrite(const Job& job, const RefreshedState& state, const DensePlan& plan, int first_file)
      : job_(job), plan_(plan), first_file_(first_file) {
    std::unordered_map<std::string_view, const LocalTensor*> by_key;
    for (const auto& [key, tensor] : state.tensors()) by_key[key] = &tensor;
    for (const auto& tensor : plan.tensors) tensors_.push_back(by_key[tensor.key]);
  }

  // All ranks go through all rounds of the plan, since with some writers each round is collective.
  std::vector<StoredTensor> run(const Draft& draft, const MadeFile& made) {
    const auto& writer = writer_of(job_);
    in_hand_.not_finite = draft.not_finite();
    run_and_agree(*job_.group, [&] {
      allocate();
      look_at_files(draft, made);
      // The agreement after this makes sure that a file is there before any rank opens it.
      for (const auto& place : places_) writer.make_runs(job_, plan_, place, first_file_, draft);
    });
    std::unique_ptr<RunsFile> file;
    const RunsTarget* open = nullptr;
    for (const auto& round : plan_.rounds) {
      const auto& next = places_[static_cast<std::size_t>(round.file)];
      if (&next != open) {
        if (open) close(*file, *open, false);
        file = writer.open_runs(job_, plan_, next, first_file_, error_);
        open = &next;
      }
      complete(round);
      file->write(in_hand_, entries_, error_);
    }
    if (open) close(*file, *open, true);
    return std::move(written_);
  }

  // Copies the runs of this rank that do not stay to this memory. Nothing is written.
  std::vector<CapturedRun> capture(std::span<std::byte> where, const StayingRuns* staying) {
    staying_ = staying;
    run_and_agree(*job_.group, [&] { allocate(where); });
    std::vector<CapturedRun> captured;
    for (const auto& round : plan_.rounds) {
      complete(round);
      error_.guard([&] {
        for (const auto& [number, run] : in_hand_.runs) {
          if (stays(number)) {
            captured.push_back({number, nullptr});
            continue;
          }
          const auto bytes = plan_.run(number).bytes;
          // The application's memory may change after the capture, so a run that lies there is
          // copied, too.
          if (run.bytes != run.buffer) {
            copy_past_caches(run.buffer, run.bytes, static_cast<std::size_t>(bytes));
          }
          captured.push_back({number, run.buffer});
          hand_ += bytes;
        }
      });
    }
    agree(*job_.group, error_.first());
    return captured;
  }

 private:
  // Finds out which rank makes each file, and which files this rank writes to.
  void look_at_files(const Draft& draft, const MadeFile& made) {
    for (std::size_t f = 0; f < plan_.file_bytes.size(); ++f) {
      const auto number = static_cast<int>(f);
      places_.push_back(
          {number, draft.path(first_file_ + number), plan_.file_bytes[f], made, draft});
    }
    for (const auto& run : plan_.exchange.chunks) {
      auto& place = places_[static_cast<std::size_t>(plan_.tensor_of(run).file)];
      place.has_runs = true;
      // The rank that has the first run of a file makes the file.
      if (plan_.offset_of(run) == 0) place.makes_it = !made;
    }
  }

  // Closing the last file is always collective, since all ranks then agree on success.
  void close(RunsFile& file, const RunsTarget& place, bool last) {
    file.close(error_);
    const auto& writer = writer_of(job_);
    if (last || writer.writes_together()) agree(*job_.group, error_.first());
    writer.check_runs(job_, place, entries_);
    std::move(entries_.begin(), entries_.end(), std::back_inserter(written_));
    entries_.clear();
  }

  // Completes the runs of one round in this rank's memory.
  void complete(const DensePlan::Round& round) {
    in_hand_.round = &round;
    in_hand_.runs.clear();
    const auto& mine = plan_.exchange.rounds;
    // This rank takes no part in every round of the job.
    if (next_ == mine.size() || mine[next_].group != round.file ||
        mine[next_].number != round.number) {
      return;
    }
    const auto& own = mine[next_++];
    begin(own);
    for (const auto& piece : own.local) {
      if (stays(piece.chunk)) continue;
      const auto& run = in_hand_.runs.at(piece.chunk);
      // A run that lies in the application's memory as a whole is written from there.
      if (run.bytes == run.buffer) passer_.keep(piece);
    }
    // Backwards: what the plan receives, this sends (DensePlan).
    for (const auto& step : own.steps) passer_.pass(step.receives, step.sends);
    keep_errors();
  }

  void keep_errors() {
    for (const auto* error : {&passer_.read_error(), &passer_.write_error()}) {
      if (*error) error_.guard([&] { throw Error(**error); });
    }
  }

  DType dtype_of(const plan::Passed& piece) const {
    return plan_.tensors[static_cast<std::size_t>(piece.source)].dtype;
  }
  // Where a piece comes from: the application's memory.
  PieceSource source_of(const plan::Passed& piece) const {
    const auto& target = plan_.slices[static_cast<std::size_t>(piece.id)];
    const auto tensor = static_cast<std::size_t>(target.tensor);
    const auto number = static_cast<std::size_t>(target.slice);
    const auto& slice = tensors_[tensor]->slices[number];
    return {&slice.box, dtype_of(piece), bases_[tensor][number], slice.memory.get()};
  }
  // Where a piece goes: a run in the buffer.
  PieceTarget target_of(const plan::Passed& piece) const {
    return {&plan_.run(piece.chunk).box, dtype_of(piece), in_hand_.runs.at(piece.chunk).buffer,
            nullptr};
  }

  // All memory is allocated before the rounds begin, and errors are kept until their end: see
  // PiecePasser.
  void allocate(std::span<std::byte> where = {}) {
    for (const auto* tensor : tensors_) {
      auto& bases = bases_.emplace_back();
      if (!tensor) continue;
      for (const auto& slice : tensor->slices) bases.push_back(slice.memory->contiguous());
    }
    const auto need = dense_memory(plan_, !where.empty());
    if (where.empty()) {
      // Not initialised, so that pages that are never used are never touched.
      own_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(need.bytes()));
      where = {own_.get(), static_cast<std::size_t>(need.bytes())};
    }
    hand_ = where.data();
    passer_.use_room(need.pass, hand_ + need.hand - (staying_ ? staying_->bytes() : 0));
  }

  bool stays(int chunk) const { return staying_ && staying_->has(chunk); }

  // Gives each run of the round its buffer. If one piece is the whole run, and contiguous in the
  // application's memory, the run is there.
  void begin(const plan::OwnRound& round) {
    auto* at = hand_;
    for (auto c = round.first; c < round.end; ++c) {
      const auto chunk = static_cast<int>(c);
      in_hand_.runs[chunk] = {at, at};
      if (!stays(chunk)) at += plan_.exchange.chunks[c].bytes;
    }
    for (const auto& piece : round.local) {
      if (piece.box != plan_.run(piece.chunk).box) continue;
      const auto* place = run_in(source_of(piece), piece.box);
      if (place) in_hand_.runs.at(piece.chunk).bytes = place;
    }
  }

  const Job& job_;
  const DensePlan& plan_;
  const int first_file_;
  std::vector<const LocalTensor*> tensors_;           // this rank's; null if it holds nothing of it
  std::vector<std::vector<const std::byte*>> bases_;  // start of each slice; null: not contiguous
  std::unique_ptr<std::byte[]> own_;
  std::byte* hand_ = nullptr;                    // in own_ or in a pool: the runs of this round
  RunsInHand in_hand_;                           // of this round
  const StayingRuns* staying_ = nullptr;         // null: none stays
  std::size_t next_ = 0;                         // index of this rank's next round
  std::vector<RunsTarget> places_;               // one per file
  std::vector<StoredTensor> entries_, written_;  // of the open file; of the files before it
  DeferredError error_;
  PiecePasser passer_{*job_.group, [this](const plan::Passed& piece) { return source_of(piece); },
                      [this](const plan::Passed& piece) { return target_of(piece); }};
};

}  // namespace

std::vector<StoredTensor> write_dense(const Job& job, const RefreshedState& state,
                                      const DensePlan& plan, int first_file, const MadeFile& made,
                                      const Draft& draft) {
  if (plan.bytes == 0) return {};
  return DenseWrite(job, state, plan, first_file).run(draft, made);
}

std::vector<CapturedRun> capture_dense(const Job& job, const RefreshedState& state,
                                       const DensePlan& plan, std::span<std::byte> where,
                                       const StayingRuns* staying) {
  if (plan.bytes == 0) return {};
  std::byte none[1];  // a rank without runs to copy needs no memory
  return DenseWrite(job, state, plan, 0).capture(where.empty() ? std::span(none) : where, staying);
}

}  // namespace cairn
