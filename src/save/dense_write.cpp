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
#include "save/writers/read_back.hpp"
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
    const auto& writer = cairn::writer_of(job_);
    together(*job_.group, [&] {
      allocate();
      look_at_files(save, are_there);
      for (const auto& place : places_) writer.make_runs(job_, plan_, place, first_file_, save);
    });
    std::unique_ptr<RunsFile> file;
    const RunsPlace* open = nullptr;
    for (const auto& round : plan_.exchange.rounds) {
      const auto& next = places_[static_cast<std::size_t>(file_of(round.chunks.front()))];
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
    for (const auto& round : plan_.exchange.rounds) {
      complete(round);
      error_.guard([&] {
        for (const auto& [number, run] : in_hand_.runs) {
          const auto bytes = plan_.exchange.chunks[static_cast<std::size_t>(number)].bytes;
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
  int file_of(int chunk) const {
    return plan_.tensor_of(plan_.exchange.chunks[static_cast<std::size_t>(chunk)]).file;
  }

  // Who makes each file, and which of them this rank writes to.
  void look_at_files(const commit::Transaction& save, bool are_there) {
    for (std::size_t f = 0; f < plan_.file_bytes.size(); ++f) {
      const auto number = static_cast<int>(f);
      places_.push_back({number, save.part(first_file_ + number), plan_.file_bytes[f], are_there});
    }
    std::vector<bool> has_maker(places_.size());
    for (std::size_t c = 0; c < plan_.exchange.chunks.size(); ++c) {
      const auto file = static_cast<std::size_t>(file_of(static_cast<int>(c)));
      const bool mine = plan_.exchange.chunks[c].rank == job_.rank();
      if (!has_maker[file]) places_[file].makes_it = mine;
      has_maker[file] = true;
      places_[file].has_runs = places_[file].has_runs || mine;
    }
  }

  // The last one's is collective in any case.
  void close(RunsFile& file, const RunsPlace& place, bool last) {
    file.close(error_);
    const bool together_written = cairn::writer_of(job_).writes_together();
    if (last || together_written) agree(*job_.group, error_.first());
    if (together_written) {
      together(*job_.group, [&] { read_back(job_, place.path, entries_, checksums()); });
    }
    std::move(entries_.begin(), entries_.end(), std::back_inserter(written_));
    entries_.clear();
  }

  // The runs of a round, whole in this rank's memory.
  void complete(const plan::Round& round) {
    begin(round);
    for (const auto& piece : round.local) {
      if (writer_of(piece) == job_.rank()) error_.guard([&] { copy(piece); });
    }
    for (const auto& step : round.steps) exchange(step);
  }

  std::vector<std::uint32_t> checksums() const {
    std::vector<std::uint32_t> all;
    for (const auto& entry : entries_) {
      for (const auto& slice : entry.slices) all.push_back(slice.crc32c);
    }
    return all;
  }

  const plan::Chunk& chunk_of(const plan::Piece& piece) const {
    return plan_.exchange.chunks[static_cast<std::size_t>(piece.chunk)];
  }
  int writer_of(const plan::Piece& piece) const { return chunk_of(piece).rank; }
  const plan::Target& target_of(const plan::Piece& piece) const {
    return plan_.slices[static_cast<std::size_t>(piece.target)];
  }
  const LocalSlice& slice_of(const plan::Piece& piece) const {
    const auto& target = target_of(piece);
    const auto& tensor = *tensors_[static_cast<std::size_t>(target.tensor)];
    return tensor.slices[static_cast<std::size_t>(target.id)];
  }
  std::int64_t item_of(const plan::Piece& piece) const {
    return plan_.runs[static_cast<std::size_t>(chunk_of(piece).source)].element_bytes;
  }
  DType dtype_of_run(const plan::Chunk& chunk) const {
    const auto tensor = plan_.runs[static_cast<std::size_t>(chunk.source)].tensor;
    return plan_.tensors[static_cast<std::size_t>(tensor)].dtype;
  }

  // Once rounds have begun, a rank that threw would leave the others waiting for its messages: all
  // memory is taken before, and errors are kept until everybody has moved everything.
  void allocate(std::span<std::byte> where = {}) {
    for (const auto* tensor : tensors_) {
      auto& bases = bases_.emplace_back();
      if (!tensor) continue;
      for (const auto& slice : tensor->slices) bases.push_back(slice.memory->contiguous());
    }
    const auto need = dense_memory(plan_, job_.rank(), !where.empty());
    if (where.empty()) {
      // Not initialised: what is never used is never touched.
      own_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(need.bytes()));
      where = {own_.get(), static_cast<std::size_t>(need.bytes())};
    }
    hand_ = where.data();
    packed_ = hand_ + need.hand;
    arrived_ = packed_ + need.out;
  }

  void begin(const plan::Round& round) {
    in_hand_.round = &round;
    in_hand_.runs.clear();
    auto* at = hand_;
    for (const auto number : round.chunks) {
      const auto& chunk = plan_.exchange.chunks[static_cast<std::size_t>(number)];
      if (chunk.rank != job_.rank()) continue;
      in_hand_.runs[number] = {at, at};
      at += chunk.bytes;
    }
    for (const auto& piece : round.local) {
      const auto mine = in_hand_.runs.find(piece.chunk);
      if (mine == in_hand_.runs.end() || piece.box != chunk_of(piece).box) continue;
      if (const auto* place = place_of(piece)) mine->second.bytes = place;
    }
  }

  // Where a piece lies in the application's memory, if it is one run of bytes there.
  const std::byte* place_of(const plan::Piece& piece) const {
    const auto& slice = slice_of(piece);
    const auto& target = target_of(piece);
    const auto* base =
        bases_[static_cast<std::size_t>(target.tensor)][static_cast<std::size_t>(target.id)];
    if (!base) return nullptr;
    const auto at = run_at(piece.box.relative_to(slice.box.start), slice.box.extent);
    return at ? base + *at * item_of(piece) : nullptr;
  }

  // Where it goes in a run in the buffer, if it is one run of bytes there.
  std::byte* destination_of(const plan::Piece& piece) const {
    const auto& chunk = chunk_of(piece);
    const auto at = run_at(piece.box.relative_to(chunk.box.start), chunk.box.extent);
    return at ? in_hand_.runs.at(piece.chunk).buffer + *at * item_of(piece) : nullptr;
  }

  void fetch(const plan::Piece& piece, std::byte* out) const {
    const auto& slice = slice_of(piece);
    slice.memory->read(piece.box.relative_to(slice.box.start), out);
  }

  // Into a run of the buffer, from row-major bytes of the piece.
  void place(const plan::Piece& piece, const std::byte* bytes) const {
    const auto& chunk = chunk_of(piece);
    auto* run = in_hand_.runs.at(piece.chunk).buffer;
    host_memory(dtype_of_run(chunk), run, run, chunk.box.extent, {})
        ->write(piece.box.relative_to(chunk.box.start), bytes);
  }

  void copy(const plan::Piece& piece) {
    const auto& hand = in_hand_.runs.at(piece.chunk);
    if (hand.bytes != hand.buffer) return;
    if (auto* out = destination_of(piece)) return fetch(piece, out);
    fetch(piece, packed_);
    place(piece, packed_);
  }

  void exchange(const std::vector<plan::Piece>& step) {
    std::vector<Group::Send> sends;
    std::vector<Group::Receive> receives;
    std::vector<std::pair<const plan::Piece*, const std::byte*>> to_place;
    auto* packing = packed_;
    auto* arriving = arrived_;
    for (const auto& piece : step) {
      const auto size = static_cast<std::size_t>(piece.bytes);
      if (target_of(piece).rank == job_.rank()) {
        const auto* bytes = place_of(piece);
        if (!bytes) {
          error_.guard([&] { fetch(piece, packing); });
          bytes = packing;
          packing += size;
        }
        sends.push_back({writer_of(piece), {bytes, size}});
      }
      if (writer_of(piece) != job_.rank()) continue;
      auto* out = destination_of(piece);
      if (!out) {
        out = arriving;
        to_place.emplace_back(&piece, arriving);
        arriving += size;
      }
      receives.push_back({target_of(piece).rank, {out, size}});
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
