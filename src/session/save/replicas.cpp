// Chooses which replicas a save compares, and computes their checksums.
#include "session/save/replicas.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "exchange/exchange.hpp"
#include "model/runs.hpp"
namespace cairn {
namespace {

/// The part of the box that this round compares, if any. The box has at most round.sample_of parts.
std::optional<Box> part_of(const Box& box, double bytes, const ReplicaRound& round,
                           std::int64_t ordinal) {
  std::int64_t parts =
      std::min(static_cast<double>(round.sample_of), bytes / small_replica_bytes + 1);
  std::size_t dim = 0;  // the first one that is long enough, or else the longest
  for (std::size_t d = 0; d < box.rank() && box.extent[dim] < parts; ++d) {
    if (box.extent[d] > box.extent[dim]) dim = d;
  }
  const auto extent = box.extent[dim];
  parts = std::min(parts, extent);
  // Slices begin in different rounds, so that each round has about the same work.
  const auto part = (round.round % round.sample_of + ordinal % round.sample_of) % round.sample_of;
  if (part >= parts) return std::nullopt;
  Box cut = box;
  cut.start[dim] += extent / parts * part + std::min(part, extent % parts);
  cut.extent[dim] = extent / parts + (part < extent % parts);
  return cut;
}

/// The slices that this rank has written, by key and box.
class Written {
 public:
  explicit Written(const std::vector<StoredTensor>& entries) {
    for (const auto& entry : entries) {
      for (const auto& slice : entry.slices) {
        // The checksum of encoded bytes cannot be compared with the holders' checksums.
        if (slice.codec == Codec::none) by_key_[entry.key][slice.box] = &slice;
      }
    }
  }

  /// The checksum of a box, if this rank has written it in consecutive contiguous pieces.
  std::optional<std::uint32_t> checksum(const std::string& key, const Box& box) const {
    const auto tensor = by_key_.find(key);
    if (tensor == by_key_.end()) return std::nullopt;
    const auto count = box.count();
    std::int64_t done = 0;
    std::uint32_t crc = 0;
    auto last = box.start;
    for (std::size_t d = 0; d < last.size(); ++d) last[d] = box.end(d) - 1;
    for (auto at = tensor->second.lower_bound({box.start, {}});
         at != tensor->second.end() && at->first.start <= last && done < count; ++at) {
      const auto& [piece, slice] = *at;
      if (!box.contains(piece)) continue;
      // The pieces must follow each other in the row-major order of the box.
      if (run_at(piece.relative_to(box.start), box.extent) != done) return std::nullopt;
      crc = crc32c_combine(crc, slice->crc32c, static_cast<std::uint64_t>(slice->stored_bytes));
      done += piece.count();
    }
    if (done != count) return std::nullopt;
    return crc;
  }

 private:
  std::unordered_map<std::string_view, std::map<Box, const Piece*>> by_key_;
};

}  // namespace

// With `all`, each slice is compared in the pieces that are written. With `sample`, small slices
// are compared whole, and of each large one the part whose turn it is.
std::vector<Comparison> choose_comparisons(const std::vector<CoveredTensor>& held,
                                           const std::vector<CoveredTensor>& written,
                                           const Writers& writers, const ReplicaRound& round,
                                           std::uint64_t planner) {
  std::vector<Comparison> all;
  if (round.check == ReplicaCheck::none) return all;
  auto ordinal = static_cast<std::int64_t>(planner);
  for (std::size_t t = 0; t < written.size(); ++t) {
    const auto& tensor = written[t];
    const auto writer = [&](std::size_t s) {
      return written[t].slices[s].holders[static_cast<std::size_t>(writers[t][s])].rank;
    };
    const auto add = [&](const HeldSlice& slice, const Box& box) -> Comparison& {
      return all.emplace_back(
          Comparison{tensor.key, tensor.dtype, tensor.shape, box, slice.holders, {}});
    };
    // Compared in the pieces in which they are written, so that writers need not read them twice.
    if (round.check == ReplicaCheck::all) {
      for (std::size_t s = 0; s < written[t].slices.size(); ++s) {
        const auto& slice = written[t].slices[s];
        if (slice.holders.size() > 1) add(slice, slice.box).stored = {{slice.box, writer(s)}};
      }
      continue;
    }
    // Compared as ranks hold them, since slices may be cut differently for each save. The pieces
    // that were cut from a slice are found by its first holder.
    std::map<std::pair<int, int>, std::vector<std::size_t>> pieces;
    for (std::size_t s = 0; s < written[t].slices.size(); ++s) {
      const auto& holders = written[t].slices[s].holders;
      if (holders.size() > 1) pieces[{holders[0].rank, holders[0].box}].push_back(s);
    }
    for (const auto& slice : held[t].slices) {
      if (slice.holders.size() < 2) continue;
      const auto bytes = bytes_to_write(tensor, slice);
      std::optional<Box> part = slice.box;
      // Strings are always compared whole, since every rank reads them in any case.
      if (tensor.dtype != DType::string && bytes > small_replica_bytes) {
        part = part_of(slice.box, bytes, round, ordinal++);
      }
      if (!part) continue;
      auto& one = add(slice, *part);
      for (const auto s : pieces.at({slice.holders[0].rank, slice.holders[0].box})) {
        const auto& box = written[t].slices[s].box;
        if (overlaps(box, *part)) one.stored.emplace_back(box, writer(s));
      }
    }
  }
  return all;
}

// For saves that use the plan again: their sum over ranks compares replicas without a message of
// its own. So it needs weights instead of a rank that compares.
std::vector<WatchOrder> choose_watches(const std::vector<CoveredTensor>& held,
                                       const std::vector<CoveredTensor>& written,
                                       ReplicaCheck check, std::uint64_t planner) {
  std::vector<WatchOrder> all;
  if (check == ReplicaCheck::none) return all;
  auto ordinal = static_cast<std::int64_t>(planner);
  // Planners must not use the same numbers, from which the weights are made.
  auto number = planner << 40;
  for (const auto& tensor : check == ReplicaCheck::all ? written : held) {
    for (const auto& slice : tensor.slices) {
      if (slice.holders.size() < 2) continue;
      const bool whole = check == ReplicaCheck::all || tensor.dtype == DType::string ||
                         bytes_to_write(tensor, slice) <= small_replica_bytes;
      const auto turns = whole ? -1 : ordinal++;
      ++number;
      std::uint64_t sum = 0;
      for (std::size_t h = slice.holders.size(); h-- > 0;) {
        // Odd, so that no difference of checksums is lost in the product. The first holder's weight
        // makes the sum of all of them 0.
        const auto weight = h > 0 ? mixed_bits(number * 0x100000001b3u + h) | 1 : -sum;
        sum += weight;
        all.push_back({tensor.key, slice.holders[h], slice.box, turns, weight});
      }
    }
  }
  return all;
}

ReplicaWatch::ReplicaWatch(const RefreshedState& state, const std::vector<Watch>& watches,
                           int sample_of) {
  for (const auto& watch : watches) {
    const auto& tensor = state.tensors()[watch.tensor].second;
    auto& one = all_.emplace_back(Watched{watch.tensor, watch.slice, watch.weight, {}});
    const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
    for (int round = 0; round < (watch.ordinal < 0 ? 1 : sample_of); ++round) {
      auto& part = one.parts.emplace_back();
      if (tensor.strings) continue;
      std::optional<Box> box = watch.box;
      if (watch.ordinal >= 0) {
        const auto bytes = static_cast<double>(watch.box.count() * item);
        box = part_of(watch.box, bytes, {ReplicaCheck::sample, sample_of, round}, watch.ordinal);
      }
      if (!box || box->empty()) continue;
      const auto& slice = tensor.slices[static_cast<std::size_t>(watch.slice)];
      part.box = *box;
      part.bytes = box->count() * item;
      part.run = run_at(box->relative_to(slice.box.start), slice.box.extent);
      if (part.run) *part.run *= item;
    }
  }
}

std::uint64_t ReplicaWatch::choose(const RefreshedState& state, std::int64_t round) {
  std::uint64_t sum = 0;
  for (const auto& one : all_) {
    const auto& [key, tensor] = state.tensors()[one.tensor];
    if (tensor.strings) {
      sum += one.weight * bundle::encode_strings(string_values(key, tensor)).crc32c;
      continue;
    }
    const auto& part = one.parts[static_cast<std::size_t>(round) % one.parts.size()];
    if (part.bytes == 0) continue;
    const auto& slice = tensor.slices[static_cast<std::size_t>(one.slice)];
    const auto* base = part.run ? slice.memory->contiguous() : nullptr;
    const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
    sum += one.weight *
           (base ? crc32c(std::span(base + *part.run, static_cast<std::size_t>(part.bytes)))
                 : checksum_of(slice, part.box, item, buffer_));
  }
  return sum;
}

std::vector<std::string> string_values(const std::string& key, const LocalTensor& tensor) {
  auto values = tensor.strings->get();
  if (static_cast<std::int64_t>(values.size()) != element_count(tensor.shape)) {
    throw Error(Code::invalid_argument,
                cat("string tensor '", key, "' ", shape_text(tensor.shape), " now holds ",
                    values.size(), " strings"),
                "their number changed while they were being saved",
                "Leave a vector as it is until the save returns.")
        .of_tensor(key);
  }
  return values;
}

std::uint32_t checksum_of(const LocalSlice& slice, const Box& box, std::int64_t element_bytes,
                          std::vector<std::byte>& buffer) {
  const auto part = box.relative_to(slice.box.start);
  if (const auto* base = slice.memory->contiguous()) {
    if (const auto at = run_at(part, slice.box.extent)) {
      return crc32c(std::span(base + *at * element_bytes,
                              static_cast<std::size_t>(part.count() * element_bytes)));
    }
  }
  std::uint32_t crc = 0;
  for (const auto& chunk : plan::cut_into_chunks(part, element_bytes, cached_bytes)) {
    buffer.resize(static_cast<std::size_t>(chunk.bytes));
    slice.memory->read(chunk.box, buffer.data());
    crc = crc32c(buffer, crc);
  }
  return crc;
}

std::vector<std::uint32_t> replica_checksums(const RefreshedState& state, const ReplicaPlan& plan,
                                             const StringStore& stored_strings,
                                             const std::vector<StoredTensor>& written) {
  std::vector<std::uint32_t> checksums;
  if (plan.mine.empty()) return checksums;
  const Written entries(written);
  std::vector<std::byte> buffer;
  for (const auto& one : plan.mine) {
    const auto& [key, tensor] = state.tensors()[one.tensor];
    if (tensor.strings) {
      const auto stored = stored_strings.find(one.tensor);
      checksums.push_back(stored != stored_strings.end()
                              ? stored->second.crc32c
                              : bundle::encode_strings(string_values(key, tensor)).crc32c);
    } else if (const auto known = entries.checksum(key, one.box)) {
      checksums.push_back(*known);
    } else {
      const auto& slice = tensor.slices[static_cast<std::size_t>(one.slice)];
      const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
      checksums.push_back(checksum_of(slice, one.box, item, buffer));
    }
  }
  return checksums;
}

}  // namespace cairn
