#include "checkpoint/restore/restore_tensors.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "checkpoint/tools/contents_reader.hpp"
#include "format/bundle/strings.hpp"
#include "group/collectives.hpp"
#include "model/box_index.hpp"
#include "model/runs.hpp"
#include "plan/exchange.hpp"

namespace cairn {
namespace {

struct Stored {
  const StoredTensor* tensor;
  const StoredSlice* slice;
};

// Small enough that the bytes are still in the cache when they are checked after the read.
constexpr std::size_t checked_bytes = std::size_t{1} << 17;

// Every stored slice that somebody wants a part of.
void collect_sources(const CheckpointContents& contents, const std::vector<Want>& wants,
                     std::vector<plan::Source>& sources, std::vector<Stored>& stored) {
  std::map<int, std::vector<const Want*>> by_tensor;
  for (const auto& want : wants) by_tensor[want.tensor].push_back(&want);
  for (const auto& [t, wanted] : by_tensor) {
    const auto& tensor = contents.tensors[static_cast<std::size_t>(t)];
    std::vector<Box> boxes;
    for (const auto* want : wanted) boxes.push_back(want->box);
    const BoxIndex index(boxes);
    for (const auto& slice : tensor.slices) {
      bool hit = false;
      index.query(slice.box, [&](std::size_t) { return hit = true, false; });
      if (!hit) continue;
      sources.push_back({t, slice.box, static_cast<std::int64_t>(dtype_size(tensor.dtype)), -1});
      stored.push_back({&tensor, &slice});
    }
  }
}

// A run of bytes of one source, with its checksum.
struct Run {
  int source;
  std::int64_t offset, bytes;
  std::uint32_t crc;
};

class Restore {
 public:
  Restore(const Job& job, const CheckpointContents& contents, const std::vector<Want>& wants,
          const std::vector<const LocalSlice*>& memories, bool place)
      : job_(job), contents_(contents), memories_(memories) {
    collect_sources(contents, wants, sources_, stored_);
    if (place) {
      for (const auto& want : wants) {
        targets_.push_back({want.tensor, want.box, want.rank, want.id});
      }
    }
    plan_ = plan::plan_exchange(sources_, targets_, job.group->size(), job.options.chunk_bytes,
                                plan::Packing::one_chunk, job.served_by);
  }

  std::int64_t run() {
    together(*job_.group, [&] { allocate(); });
    for (const auto& round : plan_.rounds) {
      chunk_ = nullptr;
      for (const auto number : round.chunks) {
        if (plan_.chunks[static_cast<std::size_t>(number)].rank == job_.rank()) {
          acquire(number, round);
        }
      }
      for (const auto& piece : round.local) {
        if (is_mine(piece)) place_error_.guard([&] { keep(piece); });
      }
      for (const auto& step : round.steps) exchange(step);
    }
    file_.reset();
    agree(*job_.group, error_.first());
    check_runs();
    // Only now: a value that has no place in memory may be a damaged one.
    agree(*job_.group, place_error_.first());
    return bytes_read_;
  }

 private:
  bool is_mine(const plan::Piece& piece) const {
    return plan_.chunks[static_cast<std::size_t>(piece.chunk)].rank == job_.rank();
  }
  const plan::Target& target_of(const plan::Piece& piece) const {
    return targets_[static_cast<std::size_t>(piece.target)];
  }
  const LocalSlice& memory_of(const plan::Piece& piece) const {
    return *memories_[static_cast<std::size_t>(target_of(piece).id)];
  }

  // Once rounds have begun, a rank that threw would leave the others waiting for its messages: all
  // memory is taken before, and errors are kept until everybody has moved everything.
  void allocate() {
    for (const auto* slice : memories_) places_.push_back(slice->memory->contiguous_writable());
    std::int64_t chunk = 0, kept = 0, out = 0, in = 0;
    const auto me = job_.rank();
    for (const auto& round : plan_.rounds) {
      for (const auto number : round.chunks) {
        const auto& one = plan_.chunks[static_cast<std::size_t>(number)];
        if (one.rank == me) chunk = std::max(chunk, one.bytes);
      }
      for (const auto& piece : round.local) {
        if (is_mine(piece)) kept = std::max(kept, piece.bytes);
      }
      for (const auto& step : round.steps) {
        std::int64_t step_out = 0, step_in = 0;
        for (const auto& piece : step) {
          if (is_mine(piece)) step_out += piece.bytes;
          if (target_of(piece).rank == me) step_in += piece.bytes;
        }
        out = std::max(out, step_out), in = std::max(in, step_in);
      }
    }
    // Not initialised: what is never used is never touched.
    const auto take = [](std::int64_t bytes) {
      return std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
    };
    buffer_ = take(chunk);
    packed_ = take(std::max(kept, out));
    arrived_ = take(in);
  }

  // Where a box lies in the application's memory, if it is one run of bytes there.
  std::byte* place_of(const plan::Piece& piece, std::int64_t element_bytes) const {
    const auto& slice = memory_of(piece);
    auto* base = places_[static_cast<std::size_t>(target_of(piece).id)];
    if (!base) return nullptr;
    const auto at = run_at(piece.box.relative_to(slice.box.start), slice.box.extent);
    return at ? base + *at * element_bytes : nullptr;
  }

  // Reads a chunk, straight into place where that is possible, and checksums it. An error is
  // remembered: other ranks wait for this one's messages, so it goes on with what is there.
  void acquire(int number, const plan::Round& round) {
    chunk_ = &plan_.chunks[static_cast<std::size_t>(number)];
    const auto& from = stored_[static_cast<std::size_t>(chunk_->source)];
    const auto size = static_cast<std::size_t>(chunk_->bytes);
    bytes_ = {};
    for (const auto& piece : round.local) {
      if (piece.chunk != number || piece.box != chunk_->box) continue;
      if (auto* place = place_of(piece, element_bytes())) bytes_ = {place, size};
    }
    if (bytes_.empty()) bytes_ = {buffer_.get(), size};
    error_.guard([&] { read_chunk(from); });
  }

  void read_chunk(const Stored& from) {
    std::uint32_t crc = 0;
    try {
      if (!file_ || file_number_ != from.slice->file) {
        file_.reset();
        file_ = job_.files->open_read(data_path(contents_, from.slice->file));
        file_number_ = from.slice->file;
      }
      for (std::size_t at = 0; at < bytes_.size(); at += checked_bytes) {
        const auto piece = bytes_.subspan(at, std::min(checked_bytes, bytes_.size() - at));
        file_->read_at(from.slice->offset + chunk_->offset + static_cast<std::int64_t>(at), piece);
        crc = crc32c(piece, crc);
      }
    } catch (const Error& error) {
      throw Error(error).of_tensor(from.tensor->key).on_rank(job_.rank());
    }
    bytes_read_ += chunk_->bytes;
    add_run({chunk_->source, chunk_->offset, chunk_->bytes, crc});
    if (contents_.big_endian) {
      bundle::swap_bytes(bytes_, dtype_swap_unit(from.tensor->dtype));
    }
  }

  std::int64_t element_bytes() const {
    return sources_[static_cast<std::size_t>(chunk_->source)].element_bytes;
  }

  // The bytes of a piece of the chunk in hand: a view where they are one run, else packed.
  std::span<const std::byte> bytes_of(const plan::Piece& piece, std::byte* packed) const {
    const auto part = piece.box.relative_to(chunk_->box.start);
    const auto size = static_cast<std::size_t>(piece.bytes);
    if (const auto at = run_at(part, chunk_->box.extent)) {
      return bytes_.subspan(static_cast<std::size_t>(*at * element_bytes()), size);
    }
    const auto dtype = stored_[static_cast<std::size_t>(chunk_->source)].tensor->dtype;
    host_memory(dtype, bytes_.data(), nullptr, chunk_->box.extent, {})->read(part, packed);
    return {packed, size};
  }

  void keep(const plan::Piece& piece) {
    auto* place = place_of(piece, element_bytes());
    if (place && place == bytes_.data()) return;  // it was read there
    const auto bytes = bytes_of(piece, packed_.get());
    const auto& slice = memory_of(piece);
    slice.memory->write(piece.box.relative_to(slice.box.start), bytes.data());
  }

  void exchange(const std::vector<plan::Piece>& step) {
    std::vector<Group::Send> sends;
    std::vector<Group::Receive> receives;
    std::vector<std::pair<const plan::Piece*, const std::byte*>> to_place;
    auto* packing = packed_.get();
    auto* arriving = arrived_.get();
    for (const auto& piece : step) {
      if (is_mine(piece)) {
        sends.push_back({target_of(piece).rank, bytes_of(piece, packing)});
        packing += piece.bytes;
      }
      if (target_of(piece).rank != job_.rank()) continue;
      const auto source = plan_.chunks[static_cast<std::size_t>(piece.chunk)].source;
      const auto item = sources_[static_cast<std::size_t>(source)].element_bytes;
      auto* place = place_of(piece, item);
      if (!place) {
        place = arriving;
        to_place.emplace_back(&piece, arriving);
        arriving += piece.bytes;
      }
      receives.push_back({plan_.chunks[static_cast<std::size_t>(piece.chunk)].rank,
                          {place, static_cast<std::size_t>(piece.bytes)}});
    }
    if (sends.empty() && receives.empty()) return;
    job_.group->exchange(sends, receives);
    for (const auto& [piece, bytes] : to_place) {
      const auto& slice = memory_of(*piece);
      place_error_.guard([&, piece = piece, bytes = bytes] {
        slice.memory->write(piece->box.relative_to(slice.box.start), bytes);
      });
    }
  }

  // Neighbouring chunks of one source join, so that little travels at the end.
  void add_run(const Run& run) {
    if (!runs_.empty() && runs_.back().source == run.source &&
        runs_.back().offset + runs_.back().bytes == run.offset) {
      auto& last = runs_.back();
      last.crc = crc32c_combine(last.crc, run.crc, static_cast<std::uint64_t>(run.bytes));
      last.bytes += run.bytes;
    } else {
      runs_.push_back(run);
    }
  }

  // Collective. Rank 0 puts the checksums of each slice's runs together and compares.
  void check_runs() {
    WireWriter mine;
    for (const auto& run : runs_) mine.put(run);
    const auto all = reduce_to_root(*job_.group, mine.take(),
                                    [](std::string a, std::string b) { return std::move(a) + b; });
    together(*job_.group, [&] {
      if (!job_.root()) return;
      std::vector<Run> runs;
      for (WireReader reader(all); !reader.empty();) runs.push_back(reader.get<Run>());
      std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
        return std::tie(a.source, a.offset) < std::tie(b.source, b.offset);
      });
      auto run = runs.begin();
      for (std::size_t s = 0; s < stored_.size(); ++s) {
        std::int64_t end = 0;
        std::uint32_t crc = 0;
        for (; run != runs.end() && run->source == static_cast<int>(s); ++run) {
          if (run->offset != end) break;
          crc = crc32c_combine(crc, run->crc, static_cast<std::uint64_t>(run->bytes));
          end += run->bytes;
        }
        const auto& from = stored_[s];
        if (end != from.slice->size) {
          throw Error(Code::internal, cat("bytes ", end, " and on of a slice were not read"))
              .of_tensor(from.tensor->key);
        }
        if (crc != from.slice->crc32c) {
          throw checksum_error(contents_, *from.tensor, *from.slice, crc);
        }
      }
    });
  }

  const Job& job_;
  const CheckpointContents& contents_;
  const std::vector<const LocalSlice*>& memories_;
  std::vector<plan::Source> sources_;
  std::vector<Stored> stored_;
  std::vector<plan::Target> targets_;
  plan::ExchangePlan plan_;

  std::vector<std::byte*> places_;      // of the memories that are one run of bytes; else null
  const plan::Chunk* chunk_ = nullptr;  // in hand
  std::span<std::byte> bytes_;          // its elements, in buffer_ or in the application's memory
  std::unique_ptr<std::byte[]> buffer_, packed_, arrived_;
  std::unique_ptr<io::File> file_;
  int file_number_ = -1;
  std::vector<Run> runs_;
  std::int64_t bytes_read_ = 0;
  KeptError error_, place_error_;  // of reading, of writing to memory
};

}  // namespace

std::int64_t restore_tensors(const Job& job, const CheckpointContents& contents,
                             const std::vector<Want>& wants,
                             const std::vector<const LocalSlice*>& memories, bool place) {
  return Restore(job, contents, wants, memories, place).run();
}

}  // namespace cairn
