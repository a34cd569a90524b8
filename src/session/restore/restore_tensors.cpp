// Reads a batch of tensors: ranks plan who reads which chunk, read in rounds, pass pieces on, and
// at the end compare the checksums of whole slices.
#include "session/restore/restore_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "base/checksum.hpp"
#include "base/let_go.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "exchange/messages.hpp"
#include "exchange/pass_pieces.hpp"
#include "exchange/plan_together.hpp"
#include "group/collectives.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "layout/codec.hpp"
#include "layout/offsets.hpp"
#include "store/contents/contents_reader.hpp"

namespace cairn {
namespace {

struct Stored {
  const StoredTensor* tensor;
  const Piece* slice;
};

// The sources of the exchange are the stored slices, numbered in the order of the index. If a
// tensor's slices are dealt to ranks, this rank knows only the slices that it wants, and learns of
// others from the ranks that want them.
class StoredPieces {
 public:
  StoredPieces(const SharedIndex& index, const std::vector<int>& first_numbers)
      : index_(index), first_(first_numbers) {}

  static std::vector<int> first_numbers(const SharedIndex& index) {
    std::vector<int> first;
    int next = 0;
    for (std::size_t t = 0; t < index.contents().tensors.size(); ++t) {
      first.push_back(next);
      next += static_cast<int>(index.slices(static_cast<int>(t)));
    }
    return first;
  }
  int number(int tensor, int slice) const {
    return first_[static_cast<std::size_t>(tensor)] + slice;
  }
  Stored at(int number) const {
    const auto tensor = tensor_of(number);
    const auto& stored = index_.contents().tensors[tensor];
    if (index_.is_dealt(static_cast<int>(tensor))) return {&stored, &learned_.at(number)};
    return {&stored, &stored.slices.at(static_cast<std::size_t>(number - first_[tensor]))};
  }

  void learn(int number, Piece slice) { learned_.try_emplace(number, std::move(slice)); }
  /// Packs what another rank may not know of a source.
  /// Nothing if all ranks know the slice.
  void put(std::string& out, int number) const {
    const auto tensor = tensor_of(number);
    if (index_.is_dealt(static_cast<int>(tensor))) pack_into(out, learned_.at(number));
  }
  void learn(WireReader& in, int number) {
    if (index_.is_dealt(static_cast<int>(tensor_of(number)))) learn(number, in.get<Piece>());
  }

 private:
  std::size_t tensor_of(int number) const {
    const auto after = std::upper_bound(first_.begin(), first_.end(), number);
    return static_cast<std::size_t>(after - first_.begin() - 1);
  }

  const SharedIndex& index_;
  const std::vector<int>& first_;  // number of each tensor's first slice
  std::unordered_map<int, Piece> learned_;
};

// A run of bytes of one source, with its checksum.
struct Run {
  int source;
  std::int64_t offset, bytes;
  std::uint32_t crc;
};
// Goes to the rank that compares the checksums of these sources.
struct CheckMessage {
  std::vector<int> sources;
  std::vector<Run> runs;
  std::string slices;  // the slices of the sources, packed by StoredPieces::put
};

// The restore of a batch of tensors.
class Restore {
 public:
  Restore(const Job& job, const SharedIndex& index, const std::vector<int>& first_numbers,
          const std::vector<const LocalSlice*>& memories, const Wants::Batch& wants, bool place,
          DirectIo direct_io)
      : job_(job),
        contents_(index.contents()),
        memories_(memories),
        parts_(wants.parts),
        place_(place),
        direct_io_(direct_io),
        stored_(index, first_numbers) {
    plan::Spread::Setting setting{.rank = job.rank(),
                                  .ranks = job.group->size(),
                                  .chunk_bytes = job.options.write.chunk_bytes,
                                  .served_by = job.places.served_by,
                                  .source = [this](int source) { return box_of(source); },
                                  .before = [this](int a, int b) { return lies_before(a, b); }};
    if (index.is_dealt()) {
      setting.put_source = [this](std::string& out, int source) { stored_.put(out, source); };
      setting.get_source = [this](WireReader& in, int source) { stored_.learn(in, source); };
    }
    plan::Spread spread(std::move(setting));
    run_and_agree(*job.group, [&] {
      for (const auto& [tensor, one] : wants.found) {
        stored_.learn(stored_.number(tensor, static_cast<int>(one.number)), one.slice);
      }
      spread.expect(parts_.size());
      touched_.reserve(parts_.size());
      for (const auto& [tensor, slice, id] : parts_) {
        const auto source = stored_.number(tensor, slice);
        spread.want(source, id, memories_[at(id)]->box);
        touched_.push_back(source);
      }
    });
    plan_ = plan_together(*job.group, spread);
    if (place) return;
    // Every chunk is still read and checked by its reader, but no piece travels.
    for (auto& round : plan_.rounds) round.local = {}, round.steps.clear();
    let_go(plan_.pieces);
  }

  // Reads and passes on all rounds, then compares checksums. Errors of reading are kept until all
  // rounds are over, since other ranks wait for this rank's messages.
  std::int64_t run() {
    run_and_agree(*job_.group, [&] { allocate(); });
    for (const auto& round : plan_.rounds) {
      for (auto c = round.first; c < round.end; ++c) acquire(c);
      for (const auto& piece : round.local) passer_.keep(piece);
      for (const auto& step : round.steps) passer_.pass(step.sends, step.receives);
    }
    // What the rounds needed is freed before the messages about checksums take memory.
    reader_.reset();
    let_go(plan_);
    let_go(held_);
    let_go(places_);
    agree(*job_.group, error_.first());
    check_runs();
    // This error comes after the check of the checksums: a value that does not fit its memory may
    // come from damaged bytes, and then data_loss is the right error.
    agree(*job_.group, passer_.write_error());
    return bytes_read_;
  }

 private:
  struct Held {
    std::byte* place;  // in the application's memory; null if in the buffer, at `in_buffer`
    std::int64_t in_buffer;
  };
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  plan::Spread::SourceBox box_of(int source) const {
    const auto stored = stored_.at(source);
    return {&stored.slice->box, static_cast<std::int64_t>(dtype_size(stored.tensor->dtype))};
  }
  // Slices are read in the order of their place in the files.
  bool lies_before(int a, int b) const {
    const auto *one = stored_.at(a).slice, *other = stored_.at(b).slice;
    return std::tie(one->file, one->offset, a) < std::tie(other->file, other->offset, b);
  }
  const plan::Chunk& chunk_of(const plan::Passed& piece) const {
    return plan_.chunks[at(piece.chunk)];
  }
  DType dtype_of(const plan::Passed& piece) const { return stored_.at(piece.source).tensor->dtype; }
  // Describes a piece of a chunk that this rank holds.
  PieceSource source_of(const plan::Passed& piece) const {
    return {&chunk_of(piece).box, dtype_of(piece), bytes_at(held_[at(piece.chunk)]), nullptr};
  }
  PieceTarget target_of(const plan::Passed& piece) const {
    const auto& slice = *memories_[at(piece.id)];
    return {&slice.box, dtype_of(piece), places_[at(piece.id - first_id_)], slice.memory.get()};
  }

  // All memory is allocated before the rounds begin, and errors are kept until they end: see
  // PiecePasser.
  void allocate() {
    if (place_) {
      const auto [low, high] = std::minmax_element(
          parts_.begin(), parts_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
      if (low != parts_.end()) {
        first_id_ = low->id;
        places_.resize(at(high->id - first_id_ + 1));
      }
      for (const auto& part : parts_) {
        auto& place = places_[at(part.id - first_id_)];
        if (!place) place = memories_[at(part.id)]->memory->contiguous_writable();
      }
    }
    std::int64_t staged = 0;
    for (const auto& round : plan_.rounds) staged = std::max(staged, place_chunks(round));
    // Not initialised, so that pages that are never used take no memory.
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(staged));
    passer_.make_room(room_to_pass(plan_));
    begin_reading();
  }

  // Decides which chunks of a round are read directly into the application's memory, and where in
  // the buffer the others go. Returns the bytes of the others.
  std::int64_t place_chunks(const plan::OwnRound& round) {
    std::int64_t staged = 0;
    held_.resize(round.end);
    for (const auto& piece : round.local) {
      if (piece.box != chunk_of(piece).box) continue;
      if (auto* place = run_in(target_of(piece), piece.box)) held_[at(piece.chunk)].place = place;
    }
    for (auto c = round.first; c < round.end; ++c) {
      if (held_[c].place) continue;
      // A chunk without such a place needs the buffer.
      held_[c].in_buffer = staged;
      if (place_) staged += plan_.chunks[c].bytes;
    }
    return staged;
  }

  // Whether the slice is encoded, and this chunk is all of it, as with the chunks of HDF5 datasets.
  // Such a slice is read ahead and decoded once in the job. Others are read whole, when a rank
  // wants their first chunk.
  static bool is_encoded_whole(const Stored& from, const plan::Chunk& chunk) {
    return from.slice->codec != Codec::none && chunk.box == from.slice->box;
  }

  // Starts to read the first chunks ahead. Extents are in the order in which read_chunk() takes
  // them.
  void begin_reading() {
    std::map<int, int> numbers;
    std::vector<io::Path> files;
    std::vector<io::Extent> extents;
    extents.reserve(held_.size());
    std::vector<std::size_t> encoded;  // extents of slices that are decoded
    std::int64_t encoded_bytes = 0;
    for (std::size_t c = 0; c < held_.size(); ++c) {
      const auto& chunk = plan_.chunks[c];
      const auto from = stored_.at(chunk.source);
      const auto& slice = *from.slice;
      const bool whole = is_encoded_whole(from, chunk);
      if (decoder_of(contents_, *from.tensor, slice) && !whole) continue;
      const auto [file, fresh] = numbers.try_emplace(slice.file, static_cast<int>(files.size()));
      if (fresh) files.push_back(data_path(contents_, slice.file));
      if (whole) {
        encoded_bytes = std::max(encoded_bytes, slice.stored_bytes);
        encoded.push_back(extents.size());
        extents.push_back({file->second, slice.offset, slice.stored_bytes, nullptr, false});
        continue;
      }
      extents.push_back({file->second, place_of(slice, chunk.offset), chunk.bytes,
                         bytes_at(held_[c]), held_[c].place != nullptr});
    }
    encoded_.resize(static_cast<std::size_t>(encoded_bytes));
    for (const auto e : encoded) {
      extents[e].to = reinterpret_cast<std::byte*>(encoded_.data());
    }
    reader_ = job_.files->read_ahead(std::move(files), std::move(extents), direct_io_);
  }

  // Returns null if the bytes are only checked.
  std::byte* bytes_at(const Held& held) const {
    if (held.place) return held.place;
    return place_ ? buffer_.get() + held.in_buffer : nullptr;
  }

  // Reads a chunk and computes its checksum. An error is kept: other ranks wait for the messages of
  // this one, so it continues with the bytes that it has.
  void acquire(std::size_t number) {
    error_.guard([&] { read_chunk(plan_.chunks[number], bytes_at(held_[number])); });
  }

  // Bytes are checksummed as they are stored, before they are swapped for this machine.
  void read_chunk(const plan::Chunk& chunk, std::byte* bytes) {
    const auto from = stored_.at(chunk.source);
    try {
      if (from.slice->codec != Codec::none) {
        decode_chunk(from, chunk, bytes);
      } else {
        const auto crc = reader_->next();
        bytes_read_ += chunk.bytes;
        add_run({chunk.source, chunk.offset, chunk.bytes, crc});
      }
    } catch (const Error& error) {
      throw Error(error).of_tensor(from.tensor->key).on_rank(job_.rank());
    }
    if (contents_.big_endian && bytes) {
      bundle::swap_bytes({bytes, static_cast<std::size_t>(chunk.bytes)},
                         dtype_swap_unit(from.tensor->dtype));
    }
  }

  void decode_chunk(const Stored& from, const plan::Chunk& chunk, std::byte* bytes) {
    const auto& slice = *from.slice;
    if (decoded_source_ != chunk.source) {
      decoded_source_ = -1;
      if (is_encoded_whole(from, chunk)) {
        const auto crc = reader_->next();
        if (crc != slice.crc32c) throw checksum_error(contents_, *from.tensor, slice, crc);
        decoded_ = decode_slice(
            contents_, *from.tensor, slice,
            std::string_view(encoded_).substr(0, static_cast<std::size_t>(slice.stored_bytes)));
      } else {
        decoded_ = read_slice(*job_.files, contents_, *from.tensor, slice);
      }
      decoded_source_ = chunk.source;
      bytes_read_ += slice.stored_bytes;
    }
    if (!bytes) return;
    std::memcpy(bytes, decoded_.data() + chunk.offset, static_cast<std::size_t>(chunk.bytes));
  }

  // Joins neighbouring chunks of one source, so that the last messages stay small.
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

  // Collective. For each slice one rank gets the checksums of all its runs and compares them with
  // the stored one. The ranks that want the slice tell it what to expect.
  void check_runs() {
    std::map<int, CheckMessage> outgoing;
    // The number of a source chooses the rank that compares its checksum.
    const auto size = job_.group->size();
    std::sort(touched_.begin(), touched_.end());
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    // Ranks that want a slice announce it, so that a slice which nobody has read is noticed, too.
    for (const auto source : touched_) outgoing[source % size].sources.push_back(source);
    for (const auto& run : runs_) outgoing[run.source % size].runs.push_back(run);
    for (auto& [rank, message] : outgoing) {
      for (const auto source : message.sources) stored_.put(message.slices, source);
    }
    const auto messages = all_to_all(*job_.group, messages_of(std::move(outgoing)));
    std::vector<int> expected;
    std::vector<Run> runs;
    for (const auto& [rank, bytes] : messages) {
      const auto message = unpack<CheckMessage>(bytes);
      runs.insert(runs.end(), message.runs.begin(), message.runs.end());
      WireReader slices(message.slices);
      for (const auto source : message.sources) stored_.learn(slices, source);
      expected.insert(expected.end(), message.sources.begin(), message.sources.end());
    }
    // If several slices are damaged, the error names the first in the index.
    constexpr auto none = std::numeric_limits<std::int64_t>::max();
    auto damaged = none;
    std::optional<Error> error;
    try {
      compare(std::move(expected), std::move(runs), damaged);
    } catch (...) {
      error = current_error();
    }
    const auto first = all_reduce(*job_.group, damaged, Group::Op::min);
    if (first != none && damaged != first) error.reset();
    agree(*job_.group, error);
  }

  // Throws for the first of these slices whose bytes are not the stored ones, and sets `damaged` to
  // its number.
  void compare(std::vector<int> expected, std::vector<Run> runs, std::int64_t& damaged) const {
    std::sort(expected.begin(), expected.end());
    expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
    std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
      return std::tie(a.source, a.offset) < std::tie(b.source, b.offset);
    });
    auto run = runs.begin();
    for (const auto source : expected) {
      std::int64_t end = 0;
      std::uint32_t crc = 0;
      for (; run != runs.end() && run->source == source; ++run) {
        // A gap: the length will not be right, which the comparison below reports.
        if (run->offset != end) break;
        crc = crc32c_combine(crc, run->crc, static_cast<std::uint64_t>(run->bytes));
        end += run->bytes;
      }
      const auto from = stored_.at(source);
      // The ranks that decoded the slice have compared its checksum.
      if (from.slice->codec != Codec::none) continue;
      if (end == from.slice->stored_bytes && crc == from.slice->crc32c) continue;
      damaged = source;
      if (end == from.slice->stored_bytes)
        throw checksum_error(contents_, *from.tensor, *from.slice, crc);
      throw Error(Code::internal, cat("bytes ", end, " and on of a slice were not read"))
          .of_tensor(from.tensor->key);
    }
  }

  const Job& job_;
  const CheckpointContents& contents_;
  const std::vector<const LocalSlice*>& memories_;
  const std::vector<Wants::Part>& parts_;
  const bool place_;
  const DirectIo direct_io_;
  StoredPieces stored_;
  std::vector<int> touched_;  // sources of which this rank wants a part
  plan::RankPlan plan_;

  int first_id_ = 0;                // of the batch
  std::vector<std::byte*> places_;  // by memory: its first byte, or null if it is not contiguous
  std::vector<Held> held_;          // by chunk
  std::unique_ptr<std::byte[]> buffer_;
  std::string encoded_;  // the stored bytes of the slice that is decoded
  // It writes into these two and into the application's memory, so it is destroyed first.
  std::unique_ptr<io::Reader> reader_;
  int decoded_source_ = -1;
  // The encoded slice that was decoded last: its chunks follow each other.
  std::string decoded_;  // its bytes
  std::vector<Run> runs_;
  std::int64_t bytes_read_ = 0;
  DeferredError error_;  // the first error of reading
  PiecePasser passer_{*job_.group, [this](const plan::Passed& piece) { return source_of(piece); },
                      [this](const plan::Passed& piece) { return target_of(piece); }};
};

}  // namespace

std::vector<Box> boxes_of(const std::vector<LocalSlice>& slices) {
  std::vector<Box> boxes;
  boxes.reserve(slices.size());
  for (const auto& slice : slices) boxes.push_back(slice.box);
  return boxes;
}

void Wants::add(int tensor, const StoredTensor& stored, const std::vector<LocalSlice>& more) {
  const auto first = static_cast<int>(slices.size());
  for (const auto& slice : more) slices.push_back(&slice);
  for (const auto& [slice, box] : stored_parts(stored, boxes_of(more))) {
    batches.back().parts.push_back(
        {tensor, static_cast<int>(slice), first + static_cast<int>(box)});
  }
}

void Wants::add(int tensor, const StoredTensor& stored, const std::vector<LocalSlice>& more,
                std::vector<NumberedSlice> there) {
  // Positions in `there` are not the slices' numbers, which the exchange needs; they are put in
  // below.
  StoredTensor known{stored.key, stored.dtype, stored.shape, true, {}, ""};
  for (const auto& one : there) known.slices.push_back(one.slice);
  auto& [parts, found] = batches.back();
  const auto first = parts.size();
  add(tensor, known, more);
  for (auto i = first; i < parts.size(); ++i) {
    auto& slice = parts[i].slice;
    slice = static_cast<int>(there[static_cast<std::size_t>(slice)].number);
  }
  for (auto& one : there) found.emplace_back(tensor, std::move(one));
}

RestoreBatches& restore_batches() {
  static RestoreBatches batches;
  return batches;
}

// A tensor with more slices than a batch may have is a batch by itself.
std::vector<TensorBatch> batches_of(const SharedIndex& index, int ranks) {
  const auto& sizes = restore_batches();
  const auto most = std::max(sizes.slices, sizes.slices_a_rank * ranks);
  const auto tensors = static_cast<int>(index.contents().tensors.size());
  std::vector<TensorBatch> batches{{0, 0}};
  std::int64_t slices = 0;
  for (int tensor = 0; tensor < tensors; ++tensor) {
    const auto more = index.slices(tensor);
    if (slices > 0 && slices + more > most) {
      batches.push_back({tensor, tensor});
      slices = 0;
    }
    slices += more;
    batches.back().end = tensor + 1;
  }
  return batches;
}

std::int64_t restore_tensors(const Job& job, const SharedIndex& index, const Wants& wants,
                             bool place, DirectIo direct_io) {
  const auto numbers =
      run_and_agree(*job.group, [&] { return StoredPieces::first_numbers(index); });
  std::int64_t bytes = 0;
  for (const auto& batch : wants.batches) {
    bytes += Restore(job, index, numbers, wants.slices, batch, place, direct_io).run();
  }
  return bytes;
}

}  // namespace cairn
