#include "restore/restore_tensors.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "contents/contents_reader.hpp"
#include "format/bundle/strings.hpp"
#include "group/collectives.hpp"
#include "model/box_index.hpp"
#include "model/runs.hpp"
#include "plan/exchange.hpp"

namespace cairn {
namespace {

struct Stored {
  int number;  // of the tensor in contents.tensors
  const StoredTensor* tensor;
  const StoredSlice* slice;
};

// Every stored slice that somebody wants a part of, as they lie in the files: so they are read.
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
      stored.push_back({t, &tensor, &slice});
    }
  }
  std::stable_sort(stored.begin(), stored.end(), [](const Stored& a, const Stored& b) {
    return std::tie(a.slice->file, a.slice->offset) < std::tie(b.slice->file, b.slice->offset);
  });
  sources.reserve(stored.size());
  for (const auto& [number, tensor, slice] : stored) {
    sources.push_back(
        {number, slice->box, static_cast<std::int64_t>(dtype_size(tensor->dtype)), -1});
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
          const std::vector<const LocalSlice*>& memories, bool place, DirectIo direct_io)
      : job_(job), contents_(contents), memories_(memories), direct_io_(direct_io) {
    collect_sources(contents, wants, sources_, stored_);
    if (place) {
      targets_.reserve(wants.size());
      for (const auto& want : wants) {
        targets_.push_back({want.tensor, want.box, want.rank, want.id});
      }
    }
    plan_ =
        plan::plan_exchange(sources_, targets_, job.group->size(), job.options.write.chunk_bytes,
                            plan::Packing::fill, job.places.served_by);
  }

  std::int64_t run() {
    together(*job_.group, [&] { allocate(); });
    for (const auto& round : plan_.rounds) {
      chunk_at_.clear();
      for (const auto number : round.chunks) {
        if (plan_.chunks[at(number)].rank == job_.rank()) acquire(number);
      }
      for (const auto& piece : round.local) {
        if (is_mine(piece)) place_error_.guard([&] { keep(piece); });
      }
      for (const auto& step : round.steps) exchange(step);
    }
    reader_.reset();
    agree(*job_.group, error_.first());
    check_runs();
    // Only now: a value that has no place in memory may be a damaged one.
    agree(*job_.group, place_error_.first());
    return bytes_read_;
  }

 private:
  struct Held {
    int chunk;
    std::byte* place;  // of the application, or null: in the buffer, here
    std::int64_t in_buffer;
  };
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  const plan::Chunk& chunk_of(const plan::Piece& piece) const {
    return plan_.chunks[at(piece.chunk)];
  }
  bool is_mine(const plan::Piece& piece) const { return chunk_of(piece).rank == job_.rank(); }
  const plan::Target& target_of(const plan::Piece& piece) const {
    return targets_[at(piece.target)];
  }
  const LocalSlice& memory_of(const plan::Piece& piece) const {
    return *memories_[at(target_of(piece).id)];
  }
  std::int64_t element_bytes(const plan::Chunk& chunk) const {
    return sources_[at(chunk.source)].element_bytes;
  }

  // Once rounds have begun, a rank that threw would leave the others waiting for its messages: all
  // memory is taken before, and errors are kept until everybody has moved everything.
  void allocate() {
    for (const auto* slice : memories_) places_.push_back(slice->memory->contiguous_writable());
    std::int64_t staged = 0, kept = 0, out = 0, in = 0;
    const auto me = job_.rank();
    for (const auto& round : plan_.rounds) {
      staged = std::max(staged, place_chunks(round));
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
    buffer_ = take(staged);
    packed_ = take(std::max(kept, out));
    arrived_ = take(in);
    begin_reading();
  }

  // Which chunks of a round are read straight into place, and where in the buffer others go;
  // returns the bytes of those.
  std::int64_t place_chunks(const plan::Round& round) {
    std::int64_t staged = 0;
    const auto first = held_.size();
    for (const auto number : round.chunks) {
      const auto& chunk = plan_.chunks[at(number)];
      if (chunk.rank == job_.rank()) held_.push_back({number, nullptr, 0});
    }
    for (const auto& piece : round.local) {
      if (!is_mine(piece) || piece.box != chunk_of(piece).box) continue;
      const auto found = std::lower_bound(
          held_.begin() + static_cast<std::ptrdiff_t>(first), held_.end(), piece.chunk,
          [](const Held& held, int chunk) { return held.chunk < chunk; });
      if (auto* place = place_of(piece, element_bytes(chunk_of(piece)))) found->place = place;
    }
    for (auto i = first; i < held_.size(); ++i) {
      if (held_[i].place) continue;
      held_[i].in_buffer = staged;
      if (!targets_.empty()) staged += plan_.chunks[at(held_[i].chunk)].bytes;
    }
    return staged;
  }

  // The disk begins with the first chunks.
  void begin_reading() {
    std::map<int, int> numbers;
    std::vector<io::Path> files;
    std::vector<io::Extent> extents;
    for (const auto& held : held_) {
      const auto& chunk = plan_.chunks[at(held.chunk)];
      const auto& slice = *stored_[at(chunk.source)].slice;
      const auto [file, fresh] = numbers.try_emplace(slice.file, static_cast<int>(files.size()));
      if (fresh) files.push_back(data_path(contents_, slice.file));
      extents.push_back({file->second, slice.offset + chunk.offset, chunk.bytes, bytes_at(held),
                         held.place != nullptr});
    }
    reader_ = job_.files->read_ahead(std::move(files), std::move(extents), direct_io_);
  }

  // Where a box lies in the application's memory, if it is one run of bytes there.
  std::byte* place_of(const plan::Piece& piece, std::int64_t element_bytes) const {
    const auto& slice = memory_of(piece);
    auto* base = places_[static_cast<std::size_t>(target_of(piece).id)];
    if (!base) return nullptr;
    const auto at = run_at(piece.box.relative_to(slice.box.start), slice.box.extent);
    return at ? base + *at * element_bytes : nullptr;
  }

  // Null: the bytes are only checked.
  std::byte* bytes_at(const Held& held) const {
    if (held.place) return held.place;
    return targets_.empty() ? nullptr : buffer_.get() + held.in_buffer;
  }

  // Reads and checksums a chunk. An error is remembered: other ranks wait for this one's messages,
  // so it goes on with what is there.
  void acquire(int number) {
    const auto& held = held_[next_held_++];
    chunk_at_[number] = bytes_at(held);
    error_.guard([&] { read_chunk(plan_.chunks[at(number)], bytes_at(held)); });
  }

  void read_chunk(const plan::Chunk& chunk, std::byte* bytes) {
    const auto& from = stored_[at(chunk.source)];
    std::uint32_t crc = 0;
    try {
      crc = reader_->next();
    } catch (const Error& error) {
      throw Error(error).of_tensor(from.tensor->key).on_rank(job_.rank());
    }
    bytes_read_ += chunk.bytes;
    add_run({chunk.source, chunk.offset, chunk.bytes, crc});
    if (contents_.big_endian && bytes) {
      bundle::swap_bytes({bytes, static_cast<std::size_t>(chunk.bytes)},
                         dtype_swap_unit(from.tensor->dtype));
    }
  }

  // The bytes of a piece of a chunk in hand: a view where they are one run, else packed.
  std::span<const std::byte> bytes_of(const plan::Piece& piece, std::byte* packed) const {
    const auto& chunk = chunk_of(piece);
    const auto* bytes = chunk_at_.at(piece.chunk);
    const auto part = piece.box.relative_to(chunk.box.start);
    const auto size = static_cast<std::size_t>(piece.bytes);
    if (const auto run = run_at(part, chunk.box.extent)) {
      return {bytes + *run * element_bytes(chunk), size};
    }
    const auto dtype = stored_[at(chunk.source)].tensor->dtype;
    host_memory(dtype, bytes, nullptr, chunk.box.extent, {})->read(part, packed);
    return {packed, size};
  }

  void keep(const plan::Piece& piece) {
    const auto& chunk = chunk_of(piece);
    auto* place = place_of(piece, element_bytes(chunk));
    if (place && place == chunk_at_.at(piece.chunk)) return;  // it was read there
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
      auto* place = place_of(piece, element_bytes(chunk_of(piece)));
      if (!place) {
        place = arriving;
        to_place.emplace_back(&piece, arriving);
        arriving += piece.bytes;
      }
      receives.push_back({chunk_of(piece).rank, {place, static_cast<std::size_t>(piece.bytes)}});
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

  std::vector<std::byte*> places_;  // of the memories that are one run of bytes; else null
  std::vector<Held> held_;          // this rank's chunks, as they are acquired
  std::size_t next_held_ = 0;
  std::map<int, const std::byte*> chunk_at_;  // those in hand
  std::unique_ptr<std::byte[]> buffer_, packed_, arrived_;
  const DirectIo direct_io_;
  std::unique_ptr<io::Reader> reader_;  // writes to the buffer: goes before it
  std::vector<Run> runs_;
  std::int64_t bytes_read_ = 0;
  KeptError error_, place_error_;  // of reading, of writing to memory
};

}  // namespace

std::int64_t restore_tensors(const Job& job, const CheckpointContents& contents,
                             const std::vector<Want>& wants,
                             const std::vector<const LocalSlice*>& memories, bool place,
                             DirectIo direct_io) {
  return Restore(job, contents, wants, memories, place, direct_io).run();
}

}  // namespace cairn
