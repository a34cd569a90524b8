// The dense half of a save: rounds in which pieces of slices travel to the writers of runs.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/copy.hpp"
#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "model/runs.hpp"
#include "save/dense.hpp"
#include "save/dense_runs.hpp"
#include "save/writers/writer.hpp"

namespace cairn {
namespace {

class DenseWrite {
 public:
  DenseWrite(const Job& job, const State& state, const DensePlan& plan, int first_file)
      : job_(job), plan_(plan), first_file_(first_file) {
    std::unordered_map<std::string_view, const LocalTensor*> by_key;
    for (const auto& [key, tensor] : state.tensors()) by_key[key] = &tensor;
    for (const auto& tensor : plan.tensors) tensors_.push_back(by_key[tensor.key]);
  }

  std::vector<StoredTensor> run(const commit::Transaction& save, bool are_there) {
    const auto& writer = writer_of(job_);
    together(*job_.group, [&] {
      allocate();
      look_at_files(save, are_there);
      for (const auto& place : places_) writer.make_runs(job_, plan_, place, first_file_, save);
    });
    std::unique_ptr<RunsFile> file;
    const RunsPlace* open = nullptr;
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

  // All runs of this rank, kept in this memory. Nothing is written.
  std::vector<CapturedRun> capture(std::span<std::byte> where) {
    together(*job_.group, [&] { allocate(where); });
    std::vector<CapturedRun> captured;
    for (const auto& round : plan_.rounds) {
      complete(round);
      error_.guard([&] {
        for (const auto& [number, run] : in_hand_.runs) {
          const auto bytes = plan_.run(number).bytes;
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
  // Who makes each file, and which of them this rank writes to.
  void look_at_files(const commit::Transaction& save, bool are_there) {
    for (std::size_t f = 0; f < plan_.file_bytes.size(); ++f) {
      const auto number = static_cast<int>(f);
      places_.push_back({number, save.part(first_file_ + number), plan_.file_bytes[f]});
    }
    for (const auto& run : plan_.exchange.chunks) {
      auto& place = places_[static_cast<std::size_t>(plan_.tensor_of(run).file)];
      place.has_runs = true;
      // The first run of the file is of a tensor that begins it.
      if (plan_.offset_of(run) == 0) place.makes_it = !are_there;
    }
  }

  // The last one's is collective in any case.
  void close(RunsFile& file, const RunsPlace& place, bool last) {
    file.close(error_);
    const auto& writer = writer_of(job_);
    if (last || writer.writes_together()) agree(*job_.group, error_.first());
    if (writer.writes_together()) {
      together(*job_.group, [&] { writer.check_runs(job_, place.path, entries_); });
    }
    std::move(entries_.begin(), entries_.end(), std::back_inserter(written_));
    entries_.clear();
  }

  // The runs of a round, whole in this rank's memory.
  void complete(const DensePlan::Round& round) {
    in_hand_.round = &round;
    in_hand_.runs.clear();
    const auto& mine = plan_.exchange.rounds;
    if (next_ == mine.size() || mine[next_].group != round.file ||
        mine[next_].number != round.number) {
      return;
    }
    const auto& own = mine[next_++];
    begin(own);
    for (const auto& piece : own.local) error_.guard([&] { copy(piece); });
    for (const auto& step : own.steps) exchange(step);
  }

  const plan::Chunk& run_of(const plan::Passed& piece) const { return plan_.run(piece.chunk); }
  const DensePlan::Slice& target_of(const plan::Passed& piece) const {
    return plan_.slices[static_cast<std::size_t>(piece.id)];
  }
  const LocalSlice& slice_of(const plan::Passed& piece) const {
    const auto& target = target_of(piece);
    const auto& tensor = *tensors_[static_cast<std::size_t>(target.tensor)];
    return tensor.slices[static_cast<std::size_t>(target.slice)];
  }
  DType dtype_of(const plan::Passed& piece) const {
    return plan_.tensors[static_cast<std::size_t>(piece.source)].dtype;
  }
  std::int64_t item_of(const plan::Passed& piece) const {
    return static_cast<std::int64_t>(dtype_size(dtype_of(piece)));
  }

  // Once rounds have begun, a rank that threw would leave the others waiting for its messages: all
  // memory is taken before, and errors are kept until everybody has moved everything.
  void allocate(std::span<std::byte> where = {}) {
    for (const auto* tensor : tensors_) {
      auto& bases = bases_.emplace_back();
      if (!tensor) continue;
      for (const auto& slice : tensor->slices) bases.push_back(slice.memory->contiguous());
    }
    const auto need = dense_memory(plan_, !where.empty());
    if (where.empty()) {
      // Not initialised: what is never used is never touched.
      own_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(need.bytes()));
      where = {own_.get(), static_cast<std::size_t>(need.bytes())};
    }
    hand_ = where.data();
    packed_ = hand_ + need.hand;
    arrived_ = packed_ + need.out;
  }

  void begin(const plan::OwnRound& round) {
    auto* at = hand_;
    for (auto c = round.first; c < round.end; ++c) {
      in_hand_.runs[static_cast<int>(c)] = {at, at};
      at += plan_.exchange.chunks[c].bytes;
    }
    for (const auto& piece : round.local) {
      if (piece.box != run_of(piece).box) continue;
      if (const auto* place = place_of(piece)) in_hand_.runs.at(piece.chunk).bytes = place;
    }
  }

  // Where a piece lies in the application's memory, if it is one run of bytes there.
  const std::byte* place_of(const plan::Passed& piece) const {
    const auto& slice = slice_of(piece);
    const auto& target = target_of(piece);
    const auto* base =
        bases_[static_cast<std::size_t>(target.tensor)][static_cast<std::size_t>(target.slice)];
    if (!base) return nullptr;
    const auto at = run_at(piece.box.relative_to(slice.box.start), slice.box.extent);
    return at ? base + *at * item_of(piece) : nullptr;
  }

  // Where it goes in a run in the buffer, if it is one run of bytes there.
  std::byte* destination_of(const plan::Passed& piece) const {
    const auto& run = run_of(piece);
    const auto at = run_at(piece.box.relative_to(run.box.start), run.box.extent);
    return at ? in_hand_.runs.at(piece.chunk).buffer + *at * item_of(piece) : nullptr;
  }

  void fetch(const plan::Passed& piece, std::byte* out) const {
    const auto& slice = slice_of(piece);
    slice.memory->read(piece.box.relative_to(slice.box.start), out);
  }

  // Into a run of the buffer, from row-major bytes of the piece.
  void place(const plan::Passed& piece, const std::byte* bytes) const {
    const auto& run = run_of(piece);
    auto* buffer = in_hand_.runs.at(piece.chunk).buffer;
    host_memory(dtype_of(piece), buffer, buffer, run.box.extent, {})
        ->write(piece.box.relative_to(run.box.start), bytes);
  }

  void copy(const plan::Passed& piece) {
    const auto& hand = in_hand_.runs.at(piece.chunk);
    if (hand.bytes != hand.buffer) return;
    if (auto* out = destination_of(piece)) return fetch(piece, out);
    fetch(piece, packed_);
    place(piece, packed_);
  }

  void exchange(const plan::OwnStep& step) {
    std::vector<Group::Send> sends;
    std::vector<Group::Receive> receives;
    std::vector<std::pair<const plan::Passed*, const std::byte*>> to_place;
    auto* packing = packed_;
    auto* arriving = arrived_;
    for (const auto& piece : step.receives) {
      const auto size = static_cast<std::size_t>(piece.bytes);
      const auto* bytes = place_of(piece);
      if (!bytes) {
        error_.guard([&] { fetch(piece, packing); });
        bytes = packing;
        packing += size;
      }
      sends.push_back({piece.peer, {bytes, size}});
    }
    for (const auto& piece : step.sends) {
      const auto size = static_cast<std::size_t>(piece.bytes);
      auto* out = destination_of(piece);
      if (!out) {
        out = arriving;
        to_place.emplace_back(&piece, arriving);
        arriving += size;
      }
      receives.push_back({piece.peer, {out, size}});
    }
    if (sends.empty() && receives.empty()) return;
    job_.group->exchange(sends, receives);
    for (const auto& [piece, bytes] : to_place) {
      error_.guard([&, piece = piece, bytes = bytes] { place(*piece, bytes); });
    }
  }

  const Job& job_;
  const DensePlan& plan_;
  const int first_file_;
  std::vector<const LocalTensor*> tensors_;           // of this rank; null where it has none
  std::vector<std::vector<const std::byte*>> bases_;  // of their slices; null: not one run of bytes
  std::unique_ptr<std::byte[]> own_;
  std::byte *hand_ = nullptr, *packed_ = nullptr, *arrived_ = nullptr;  // in it, or in a pool
  RunsInHand in_hand_;                                                  // of this round
  std::size_t next_ = 0;                                                // of this rank's rounds
  std::vector<RunsPlace> places_;                                       // of the files
  std::vector<StoredTensor> entries_, written_;  // of the open file, of those before
  KeptError error_;
};

}  // namespace

std::vector<StoredTensor> write_dense(const Job& job, const State& state, const DensePlan& plan,
                                      int first_file, bool are_there,
                                      const commit::Transaction& save) {
  if (plan.bytes == 0) return {};
  return DenseWrite(job, state, plan, first_file).run(save, are_there);
}

std::vector<CapturedRun> capture_dense(const Job& job, const State& state, const DensePlan& plan,
                                       std::span<std::byte> where) {
  if (plan.bytes == 0) return {};
  std::byte none[1];  // a rank without runs needs no memory
  return DenseWrite(job, state, plan, 0).capture(where.empty() ? std::span(none) : where);
}

}  // namespace cairn
