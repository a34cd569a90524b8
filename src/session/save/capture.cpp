// Copies of asynchronous saves. A CaptureForm is made with the plan; each save then only copies, in
// the layout that its files will have.
#include "session/save/capture.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checksum.hpp"
#include "base/copy.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "exchange/messages.hpp"
#include "group/collectives.hpp"
#include "layout/offsets.hpp"
#include "model/runs.hpp"

namespace cairn {

void CaptureLayouter::add(const StoredTensor& entry) {
  const auto& slice = entry.slices.front();
  if (slice.file != file_) {
    file_ = slice.file;
    begin_ = next_page(begin_ + end_);
    end_ = 0;
  }
  end_ = entry_begin(end_, slice.raw_bytes);
  layout_.at.push_back(begin_ + end_);
  end_ += slice.raw_bytes;
}

CaptureLayout CaptureLayouter::end(std::int64_t dense_bytes) {
  layout_.shard_bytes = next_page(begin_ + end_);
  layout_.bytes = layout_.shard_bytes + dense_bytes;
  return std::move(layout_);
}

// Stores all that can be known before a copy: places, runs of contiguous memory, and packed
// entries. So copy() neither allocates nor computes for contiguous data.
CaptureForm::CaptureForm(const RefreshedState& state, const LocalShards& local, int first_file,
                         bool one_file, std::int64_t dense_bytes)
    : made_(true), entries_(count_of(local)) {
  pieces_.reserve(entries_);
  CaptureLayouter layouter(entries_);
  StoredTensor entry;
  const auto make = [&]() -> auto& { return entry = {}; };
  each_outgoing(state, local, first_file, one_file, make, [&](const Outgoing::Bytes& at) {
    auto& piece = pieces_.emplace_back(Piece{at.tensor, at.slice_index});
    layouter.add(entry);
    file_sizes_.add(entry);
    packed_.add(entry);
    const auto& tensor = state.tensors()[at.tensor].second;
    const auto& stored = entry.slices.front();
    piece.bytes = stored.raw_bytes;
    if (tensor.strings || tensor.slices.empty() || piece.bytes == 0) return;
    const auto& slice = tensor.slices[at.slice_index];
    auto part = stored.box.relative_to(slice.box.start);
    if (const auto run = run_at(part, slice.box.extent)) {
      piece.run = *run * static_cast<std::int64_t>(dtype_size(tensor.dtype));
    }
    if (!part.is_whole(slice.box.extent)) parts_.emplace(pieces_.size() - 1, std::move(part));
  });
  packed_.bytes.shrink_to_fit();
  layout_ = layouter.end(dense_bytes);
}

// Each served rank sends its list of entries once. Both sides then compute the same frames, so a
// copy sends bytes only.
void CaptureForm::tell_io_ranks(const Job& job) {
  if (job.places.served_by.empty()) return;
  Group& group = *job.group;
  const auto me = rank_ = job.rank();
  std::vector<std::pair<int, std::string>> lists;
  if (job.is_io_rank()) {
    for (int rank = 0; rank < group.size(); ++rank) {
      if (rank != me && job.io_rank_of(rank) == me) lists.emplace_back(rank, group.receive(rank));
    }
  } else {
    group.send(job.io_rank_of(me), packed_.bytes);
  }
  run_and_agree(group, [&] {
    const auto limit = job.options.write.chunk_bytes;
    const auto dense_bytes = layout_.bytes - layout_.shard_bytes;
    if (!job.is_io_rank()) {
      stream_.emplace(unpack_all<StoredTensor>(packed_.bytes), limit, layout_.at);
      // A served rank keeps no copy: it needs room for the largest frame, and for pieces of dense
      // tensors.
      layout_ = {{}, next_page(stream_->largest), 0};
    }
    for (const auto& [rank, bytes] : lists) {
      const auto entries = unpack_all<StoredTensor>(bytes);
      CaptureLayouter layouter(entries.size());
      for (const auto& entry : entries) {
        layouter.add(entry);
        file_sizes_.add(entry);
      }
      const auto own = layouter.end(0);
      const auto begin = layout_.shard_bytes;
      served_.push_back({rank, entries.size(), begin, Frames(entries, limit, own.at)});
      for (const auto at : own.at) layout_.at.push_back(begin + at);
      layout_.shard_bytes += own.shard_bytes;
      entries_ += entries.size();
      packed_.bytes += bytes;
    }
    layout_.bytes = layout_.shard_bytes + dense_bytes;
  });
}

std::vector<SentEntry> CaptureForm::copy(const Job& job, const RefreshedState& state,
                                         const StringStore& strings, std::span<std::byte> memory,
                                         const CapturePlaces& places) const {
  if (stream_) {
    send(job, state, strings, memory);
    return {};
  }
  DeferredError error;
  error.guard([&] { copy_own(state, strings, memory, places); });
  std::vector<SentEntry> sent;
  if (!served_.empty()) {
    sent = receive(*job.group,
                   memory.subspan(static_cast<std::size_t>(own_bytes() - places.left_out)));
  }
  if (error) throw Error(*error.first());
  return sent;
}

// The piece's box, relative to its slice.
Box CaptureForm::part_of(std::size_t piece, const LocalTensor& tensor) const {
  const auto found = parts_.find(piece);
  if (found != parts_.end()) return found->second;
  return Box::whole(tensor.slices[pieces_[piece].slice].box.extent);
}

// The bytes of this rank's own entries in the layout; those of ranks that it serves follow.
std::int64_t CaptureForm::own_bytes() const {
  return served_.empty() ? layout_.shard_bytes : served_.front().begin;
}

// Calls take(piece, its Staying::Place) for each of this rank's entries. Returns the size of the
// copies.
template <class Take>
std::int64_t CaptureForm::place(const RefreshedState& state, const Take& take) const {
  std::int64_t end = 0;
  Staying staying;
  for (const auto& piece : pieces_) {
    const auto& tensor = state.tensors()[piece.tensor].second;
    const auto place = staying.of(tensor, piece.slice, piece.bytes, piece.run != no_run);
    if (place == Staying::Place::stays) {
      take(piece, place, CapturePlaces::stays);
      continue;
    }
    end = entry_begin(end, piece.bytes);
    take(piece, place, end);
    end += piece.bytes;
  }
  return next_page(end);
}

std::int64_t CaptureForm::left_out(const RefreshedState& state, Until until) const {
  if (until == Until::captured || stream_) return 0;
  return own_bytes() - place(state, [](const Piece&, Staying::Place, std::int64_t) {});
}

void CaptureForm::leave(const RefreshedState& state, std::vector<std::int64_t>& places,
                        Window& window, CopiedWhole& told) const {
  if (stream_) return;
  std::size_t i = 0;
  places.reserve(pieces_.size());
  place(state, [&](const Piece& piece, Staying::Place place, std::int64_t at) {
    places.push_back(at);
    const auto number = i++;
    const auto& [key, tensor] = state.tensors()[piece.tensor];
    if (place == Staying::Place::refused) told.add(key, CopiedWhole::refused, piece.bytes);
    if (place != Staying::Place::stays) return;
    window.add(piece_of(key, tensor, piece.slice, piece.run, piece.bytes,
                        [&, &tensor = tensor] { return part_of(number, tensor); }));
  });
}

// Copies past the caches if memory is contiguous: the copy is not read again by this thread.
void CaptureForm::copy_own(const RefreshedState& state, const StringStore& strings,
                           std::span<std::byte> memory, const CapturePlaces& places) const {
  const auto& at = places.at.empty() ? layout_.at : places.at;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (at[i] == CapturePlaces::stays) continue;
    const auto& piece = pieces_[i];
    const auto& tensor = state.tensors()[piece.tensor].second;
    auto* to = memory.data() + at[i];
    if (tensor.strings) {
      const auto& bytes = strings.at(piece.tensor).bytes;
      std::memcpy(to, bytes.data(), bytes.size());
    } else if (piece.bytes > 0) {
      const auto& from = *tensor.slices[piece.slice].memory;
      const auto* base = from.contiguous();
      if (base && piece.run != no_run) {
        copy_past_caches(to, base + piece.run, static_cast<std::size_t>(piece.bytes));
      } else {
        from.read(part_of(i, tensor), to);
      }
    }
  }
}

// The bytes of a part of one of this rank's entries. Points into the application's memory if they
// are contiguous there; otherwise packs them into `packing`.
std::span<const std::byte> CaptureForm::fetch(const RefreshedState& state,
                                              const StringStore& strings, const Frames::Part& part,
                                              std::byte* packing) const {
  const auto& piece = pieces_[part.entry];
  const auto& tensor = state.tensors()[piece.tensor].second;
  const auto size = static_cast<std::size_t>(part.bytes);
  if (size == 0) return {};
  if (tensor.strings) {
    const auto& bytes = strings.at(piece.tensor).bytes;
    return std::as_bytes(std::span(bytes)).subspan(static_cast<std::size_t>(part.offset), size);
  }
  const auto& slice = tensor.slices[piece.slice];
  const auto* base = slice.memory->contiguous();
  if (base && piece.run != no_run) return {base + piece.run + part.offset, size};
  slice.memory->read(part.box.relative_to(slice.box.start), packing);
  return {packing, size};
}

// Sends frames as they will lie in the io rank's memory. If this rank cannot read something, it
// still sends the frame, since its io rank waits for it. Its error reaches all ranks later.
void CaptureForm::send(const Job& job, const RefreshedState& state, const StringStore& strings,
                       std::span<std::byte> memory) const {
  const auto io_rank = job.io_rank_of(job.rank());
  DeferredError error;
  std::vector<SentEntry> sent(entries_);
  for (const auto& frame : stream_->frames) {
    if (frame.bytes == 0) continue;
    auto bytes = memory.first(static_cast<std::size_t>(frame.bytes));
    std::span<const std::byte> message = bytes;
    error.guard([&] {
      auto end = frame.begin;  // of the bytes that are filled
      for (auto p = frame.first; p < frame.end; ++p) {
        const auto& part = stream_->parts[p];
        const auto found = fetch(state, strings, part, bytes.data() + (part.at - frame.begin));
        auto& crc = sent[part.entry].bytes_crc32c;
        crc = crc32c(found, crc);
        // A frame of a single part is sent from where it lies.
        if (frame.end - frame.first == 1) {
          message = found;
        } else if (!found.empty()) {
          auto* to = bytes.data() + (part.at - frame.begin);
          // Gaps between entries travel with the frame, and must not show what the memory held
          // before.
          std::fill(bytes.data() + (end - frame.begin), to, std::byte{0});
          if (found.data() != to) copy_past_caches(to, found.data(), found.size());
          end = part.at + part.bytes;
        }
      }
    });
    const Group::Send one{io_rank, message};
    job.group->exchange({&one, 1}, {});
  }
  error.guard([&] {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const auto text = strings.find(pieces_[i].tensor);
      if (text != strings.end()) sent[i].entry_crc32c = text->second.crc32c;
      sent[i].is_known = true;
    }
  });
  // The io rank compares these checksums with those of the bytes that it writes. Without them it
  // knows that this rank has failed.
  std::string_view sums(reinterpret_cast<const char*>(sent.data()),
                        sent.size() * sizeof(SentEntry));
  if (error) sums = {};
  job.group->send(io_rank, sums);
  if (error) throw Error(*error.first());
}

// Receives the i-th frame of all served ranks in one exchange, directly to its place in the copy,
// of which `memory` is the part after this rank's own.
std::vector<SentEntry> CaptureForm::receive(Group& group, std::span<std::byte> memory) const {
  std::size_t most = 0;
  for (const auto& from : served_) most = std::max(most, from.stream.frames.size());
  std::vector<Group::Receive> receives;
  receives.reserve(served_.size());
  for (std::size_t i = 0; i < most; ++i) {
    receives.clear();
    for (const auto& from : served_) {
      if (i >= from.stream.frames.size() || from.stream.frames[i].bytes == 0) continue;
      const auto& frame = from.stream.frames[i];
      receives.push_back({from.rank, memory.subspan(static_cast<std::size_t>(
                                                        from.begin - own_bytes() + frame.begin),
                                                    static_cast<std::size_t>(frame.bytes))});
    }
    if (!receives.empty()) group.exchange({}, receives);
  }
  std::vector<SentEntry> sent;
  DeferredError error;
  for (const auto& from : served_) {
    const auto sums = group.receive(from.rank);
    error.guard([&] {
      const auto first = sent.size();
      sent.resize(first + from.entries);
      if (sums.size() != from.entries * sizeof(SentEntry)) return;  // that rank has failed
      if (!sums.empty()) std::memcpy(sent.data() + first, sums.data(), sums.size());
    });
  }
  if (error) throw Error(*error.first());
  return sent;
}

// Compares the bytes that were written for another rank with those that it has sent.
void CaptureForm::check_sent(std::size_t number, const std::string& key, std::uint32_t crc,
                             std::span<const SentEntry> sent) const {
  const auto& there = sent[number];
  if (!there.is_known || there.bytes_crc32c == crc) return;
  auto from = served_.begin();
  for (; number >= from->entries; ++from) number -= from->entries;
  throw changed_on_the_way(key, from->rank, rank_, there.bytes_crc32c, crc);
}

// One of this rank's own entries.
void CaptureForm::write_own(std::size_t i, StoredTensor& entry, const Copy& copy,
                            Sink& file) const {
  const auto at = copy.places.at.empty() ? layout_.at[i] : copy.places.at[i];
  if (at == CapturePlaces::stays) {
    return copy.window.write_next(
        [&](std::span<const std::byte> bytes, bool stay) { file.append(bytes, stay); });
  }
  const auto bytes = static_cast<std::size_t>(entry.slices.front().raw_bytes);
  if (bytes > 0) file.append(copy.memory.subspan(static_cast<std::size_t>(at), bytes), true);
}

// The copy is laid out like the files, so whole runs of it are written without another copy.
void CaptureForm::write(const Draft& draft, const Copy& copy, const StringStore& strings,
                        const std::atomic<bool>& cancelled,
                        const std::function<void(const StoredTensor&)>& take) const {
  // A served rank has nothing to write: its io rank does that.
  if (stream_) return;
  Sink file(draft, file_sizes_);
  std::size_t i = 0;
  for (auto& entry : packed_.each()) {
    if (cancelled) return;
    auto& stored = entry.slices.front();
    const bool is_own = i < pieces_.size();
    if (!is_own) {
      if (entry.dtype == DType::string) {
        stored.crc32c = copy.sent[i - pieces_.size()].entry_crc32c;
      }
    } else if (const auto text = strings.find(pieces_[i].tensor); text != strings.end()) {
      stored.crc32c = text->second.crc32c;
    }
    file.begin(entry);
    if (is_own) {
      write_own(i, entry, copy, file);
    } else if (stored.raw_bytes > 0) {
      const auto at = static_cast<std::size_t>(layout_.at[i] - copy.places.left_out);
      file.append(copy.memory.subspan(at, static_cast<std::size_t>(stored.raw_bytes)), true);
    }
    const auto crc = file.end(entry);
    if (!is_own) check_sent(i - pieces_.size(), entry.key, crc, copy.sent);
    take(entry);
    ++i;
  }
  if (!cancelled) file.finish();
}

}  // namespace cairn
