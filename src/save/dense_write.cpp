// The dense half of a save: rounds in which pieces of slices travel to the writers of runs.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/copy.hpp"
#include "cairn/error.hpp"
#include "cairn/shared_files.hpp"
#include "group/collectives.hpp"
#include "model/runs.hpp"
#include "save/dense.hpp"
#include "save/dense_runs.hpp"
#include "save/shared_write.hpp"

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

  std::vector<StoredTensor> run(const commit::Transaction& save) {
    together(*job_.group, [&] {
      allocate();
      look_at_files();
      if (save.hdf5 || job_.shares_files()) return;
      for (std::size_t f = 0; f < makers_.size(); ++f) {
        if (makers_[f] != job_.rank()) continue;
        make_dense_file(*job_.files, plan_, static_cast<int>(f), first_file_, save)->close();
      }
    });
    int number = -1;
    for (const auto& round : plan_.exchange.rounds) {
      const auto next = file_of(round.chunks.front());
      if (next != number) {
        if (number >= 0) close_file(false);
        open_file(number = next, save);
      }
      complete(round);
      if (datasets_) {
        write_datasets(round);
        continue;
      }
      for (const auto& [chunk, run] : in_hand_) {
        error_.guard([&, number = chunk, bytes = run.bytes] { write(number, bytes); });
      }
      // All ranks take part in as many writes as the busiest has.
      if (shared_) write_none(most_chunks(round) - in_hand_.size());
    }
    close_file(true);
    return std::move(written_);
  }

  // All runs of this rank, kept in this memory. Nothing is written.
  std::vector<CapturedRun> capture(std::span<std::byte> where) {
    together(*job_.group, [&] { allocate(where); });
    std::vector<CapturedRun> captured;
    for (const auto& round : plan_.exchange.rounds) {
      complete(round);
      error_.guard([&] {
        for (const auto& [number, run] : in_hand_) {
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
  void look_at_files() {
    makers_.assign(plan_.file_bytes.size(), -1);
    mine_.assign(plan_.file_bytes.size(), false);
    for (std::size_t c = 0; c < plan_.exchange.chunks.size(); ++c) {
      const auto file = static_cast<std::size_t>(file_of(static_cast<int>(c)));
      const auto rank = plan_.exchange.chunks[c].rank;
      if (makers_[file] < 0) makers_[file] = rank;
      if (rank == job_.rank()) mine_[file] = true;
    }
  }

  // Collective where ranks write together.
  void open_file(int number, const commit::Transaction& save) {
    const auto file = static_cast<std::size_t>(number);
    path_ = save.part(first_file_ + number);
    if (job_.shares_files()) {
      const bool makes_it = !save.hdf5 && job_.rank() == makers_[file];
      shared_ = open_shared(job_, path_, 0, makes_it, plan_.file_bytes[file]);
    } else if (job_.writes_datasets()) {
      open_datasets(path_);
    } else if (mine_[file]) {
      error_.guard([&] {
        file_ = job_.files->open_write(path_);
        file_->stream(job_.options.write.direct_io);
      });
    }
  }

  // The last one's is collective in any case.
  void close_file(bool last) {
    finish();
    const bool written_together = job_.shares_files() || job_.writes_datasets();
    if (last || written_together) agree(*job_.group, error_.first());
    if (written_together) {
      together(*job_.group, [&] { read_back(job_, path_, entries_, checksums()); });
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

  std::size_t most_chunks(const plan::Round& round) const {
    std::map<int, std::size_t> by_rank;
    std::size_t most = 0;
    for (const auto number : round.chunks) {
      most =
          std::max(most, ++by_rank[plan_.exchange.chunks[static_cast<std::size_t>(number)].rank]);
    }
    return most;
  }

  void write_none(std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) error_.guard([&] { shared_->write_at_all(0, {}); });
  }

  // Each rank opens the file by itself, too: to sync it at the end, and because HDF5, where that
  // fails on one rank, may leave the others waiting.
  void open_datasets(const io::Path& path) {
    Group& group = *job_.group;
    together(group, [&] { file_ = job_.files->open_write(path); });
    datasets_ = together(
        group, [&] { return group.dataset_files()->open(path, job_.options.write.mpi_io.hints); });
  }

  // All ranks' runs of a tensor in one transfer, tensors in order.
  void write_datasets(const plan::Round& round) {
    std::map<int, std::vector<int>> tensors;  // of all ranks; and the runs of this one
    for (const auto number : round.chunks) {
      const auto& chunk = plan_.exchange.chunks[static_cast<std::size_t>(number)];
      auto& mine = tensors[plan_.runs[static_cast<std::size_t>(chunk.source)].tensor];
      if (chunk.rank == job_.rank()) mine.push_back(number);
    }
    for (const auto& [tensor, mine] : tensors) {
      std::vector<Box> boxes;
      const std::byte* bytes = nullptr;
      std::vector<DatasetFile::Block> blocks;
      error_.guard([&, runs = std::span(mine)] {
        if (error_ || runs.empty()) return;
        bytes = in_a_row(runs);
        for (const auto number : runs) {
          add_joined(boxes, plan_.exchange.chunks[static_cast<std::size_t>(number)].box);
        }
        blocks.reserve(boxes.size());
        for (const auto& box : boxes) blocks.push_back({box.start, box.extent});
      });
      if (error_) blocks.clear();
      const auto& key = plan_.tensors[static_cast<std::size_t>(tensor)].key;
      error_.guard([&] { datasets_->write_all(key, blocks, bytes); });
      for (const auto number : mine) {
        error_.guard([&, one = number] { write(one, in_hand_.at(one).bytes); });
      }
    }
  }

  // Several runs of a tensor are neighbours in the buffer. Where they lie elsewhere, and are no
  // neighbours there, they go to the buffer.
  const std::byte* in_a_row(std::span<const int> runs) {
    const auto size = [&](int number) {
      return plan_.exchange.chunks[static_cast<std::size_t>(number)].bytes;
    };
    const auto* first = in_hand_.at(runs.front()).bytes;
    const auto* next = first;
    bool row = true;
    for (const auto number : runs) {
      row = row && in_hand_.at(number).bytes == next;
      next += size(number);
    }
    if (row) return first;
    for (const auto number : runs) {
      auto& hand = in_hand_.at(number);
      if (hand.bytes != hand.buffer) {
        std::memcpy(hand.buffer, hand.bytes, static_cast<std::size_t>(size(number)));
      }
      hand.bytes = hand.buffer;
    }
    return in_hand_.at(runs.front()).buffer;
  }

  // A box that begins where the last one ends, in one dimension and alike in the others, makes it
  // longer: HDF5 is quicker with few boxes.
  static void add_joined(std::vector<Box>& boxes, const Box& box) {
    if (!boxes.empty() && !box.start.empty()) {
      auto& last = boxes.back();
      std::size_t differs = 0, where = 0;
      for (std::size_t d = 0; d < box.start.size(); ++d) {
        if (box.start[d] == last.start[d] && box.extent[d] == last.extent[d]) continue;
        ++differs;
        where = d;
      }
      if (differs == 1 && box.start[where] == last.start[where] + last.extent[where]) {
        last.extent[where] += box.extent[where];
        return;
      }
    }
    boxes.push_back(box);
  }

  void finish() {
    if (datasets_) {
      error_.guard([&] { datasets_->flush(); });
      error_.guard([&] { datasets_->close(); });
      datasets_.reset();
    }
    if (shared_) {
      error_.guard([&] { shared_->sync(); });
      error_.guard([&] { shared_->close(); });
    }
    error_.guard([&] {
      if (!file_) return;
      file_->sync();
      file_->close();
    });
    file_.reset();
    shared_.reset();
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

  // A run that this rank completes in this round. Where it lies in the application's memory as it
  // is to be written, `bytes` is there, and the buffer is not used.
  struct Hand {
    std::byte* buffer;
    const std::byte* bytes;
  };

  void begin(const plan::Round& round) {
    in_hand_.clear();
    auto* at = hand_;
    for (const auto number : round.chunks) {
      const auto& chunk = plan_.exchange.chunks[static_cast<std::size_t>(number)];
      if (chunk.rank != job_.rank()) continue;
      in_hand_[number] = {at, at};
      at += chunk.bytes;
    }
    for (const auto& piece : round.local) {
      const auto mine = in_hand_.find(piece.chunk);
      if (mine == in_hand_.end() || piece.box != chunk_of(piece).box) continue;
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
    return at ? in_hand_.at(piece.chunk).buffer + *at * item_of(piece) : nullptr;
  }

  void fetch(const plan::Piece& piece, std::byte* out) const {
    const auto& slice = slice_of(piece);
    slice.memory->read(piece.box.relative_to(slice.box.start), out);
  }

  // Into a run of the buffer, from row-major bytes of the piece.
  void place(const plan::Piece& piece, const std::byte* bytes) const {
    const auto& chunk = chunk_of(piece);
    auto* run = in_hand_.at(piece.chunk).buffer;
    host_memory(dtype_of_run(chunk), run, run, chunk.box.extent, {})
        ->write(piece.box.relative_to(chunk.box.start), bytes);
  }

  void copy(const plan::Piece& piece) {
    const auto& hand = in_hand_.at(piece.chunk);
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

  void write(int number, const std::byte* bytes) {
    const auto& chunk = plan_.exchange.chunks[static_cast<std::size_t>(number)];
    // Before anything that may fail: the others wait for it.
    if (shared_) {
      const auto offset = plan_.offsets[static_cast<std::size_t>(chunk.source)];
      const std::span all(bytes, static_cast<std::size_t>(chunk.bytes));
      error_.guard([&] { shared_->write_at_all(offset, error_ ? all.first(0) : all); });
    }
    if (error_) return;
    write_run(plan_, number, bytes, first_file_, datasets_ ? nullptr : file_.get(), entries_);
  }

  const Job& job_;
  const DensePlan& plan_;
  const int first_file_;
  std::vector<const LocalTensor*> tensors_;           // of this rank; null where it has none
  std::vector<std::vector<const std::byte*>> bases_;  // of their slices; null: not one run of bytes
  std::unique_ptr<std::byte[]> own_;
  std::byte *hand_ = nullptr, *packed_ = nullptr, *arrived_ = nullptr;  // in it, or in a pool
  std::map<int, Hand> in_hand_;  // by chunk: those of this round
  std::vector<int> makers_;      // of the files
  std::vector<bool> mine_;       // files that this rank writes to
  io::Path path_;                // of the open one
  std::unique_ptr<io::File> file_;
  std::unique_ptr<SharedFile> shared_;     // instead, where ranks share files
  std::unique_ptr<DatasetFile> datasets_;  // writes for file_, which is open on all ranks then
  std::vector<StoredTensor> entries_, written_;  // of the open file, of those before
  KeptError error_;
};

}  // namespace

std::vector<StoredTensor> write_dense(const Job& job, const State& state, const DensePlan& plan,
                                      int first_file, const commit::Transaction& save) {
  if (plan.bytes == 0) return {};
  return DenseWrite(job, state, plan, first_file).run(save);
}

std::vector<CapturedRun> capture_dense(const Job& job, const State& state, const DensePlan& plan,
                                       std::span<std::byte> where) {
  if (plan.bytes == 0) return {};
  std::byte none[1];  // a rank without runs needs no memory
  return DenseWrite(job, state, plan, 0).capture(where.empty() ? std::span(none) : where);
}

}  // namespace cairn
