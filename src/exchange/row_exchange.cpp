// Moves rows to blocks and back: picks them out of the memory of one rank in the order of their
// ids, and puts them into that of another.
#include "exchange/row_exchange.hpp"

#include <cstring>
#include <vector>

#include "exchange/row_messages.hpp"
#include "group/collectives.hpp"

namespace cairn {
namespace {

using plan::Place;

// Messages are this short, so that picked rows are sent before they leave the cache.
constexpr std::int64_t message_bytes = std::int64_t{1} << 20;
// Rows lie anywhere in memory: so many rows ahead are prefetched.
constexpr std::size_t ahead = 16;

template <std::size_t Bytes>
struct FixedRow {
  void operator()(std::byte* to, const std::byte* from) const { std::memcpy(to, from, Bytes); }
  static constexpr std::size_t bytes = Bytes;
};
struct AnyRow {
  void operator()(std::byte* to, const std::byte* from) const { std::memcpy(to, from, bytes); }
  std::size_t bytes;
};

// Calls `use` with a function that copies a row of this size. The usual sizes need no call of
// memcpy.
template <class Use>
void with_row(std::int64_t bytes, const Use& use) {
  switch (bytes) {
    case 4:
      return use(FixedRow<4>());
    case 8:
      return use(FixedRow<8>());
    case 16:
      return use(FixedRow<16>());
    case 24:
      return use(FixedRow<24>());
    case 32:
      return use(FixedRow<32>());
    case 48:
      return use(FixedRow<48>());
    case 64:
      return use(FixedRow<64>());
    default:
      return use(AnyRow{static_cast<std::size_t>(bytes)});
  }
}

// out[i] = rows[places[i]]
void pick(std::byte* out, const std::byte* rows, std::span<const Place> places,
          std::int64_t row_bytes) {
  with_row(row_bytes, [&](auto copy) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (i + ahead < places.size()) __builtin_prefetch(rows + places[i + ahead] * copy.bytes);
      copy(out + i * copy.bytes, rows + places[i] * copy.bytes);
    }
  });
}

// rows[places[i]] = in[i]
void put(std::byte* rows, const std::byte* in, std::span<const Place> places,
         std::int64_t row_bytes) {
  with_row(row_bytes, [&](auto copy) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (i + ahead < places.size()) __builtin_prefetch(rows + places[i + ahead] * copy.bytes, 1);
      copy(rows + places[i] * copy.bytes, in + i * copy.bytes);
    }
  });
}

// to[to_places[i]] = from[from_places[i]]
void move(std::byte* to, std::span<const Place> to_places, const std::byte* from,
          std::span<const Place> from_places, std::int64_t row_bytes) {
  with_row(row_bytes, [&](auto copy) {
    for (std::size_t i = 0; i < to_places.size(); ++i) {
      if (i + ahead < to_places.size()) {
        __builtin_prefetch(from + from_places[i + ahead] * copy.bytes);
        __builtin_prefetch(to + to_places[i + ahead] * copy.bytes, 1);
      }
      copy(to + to_places[i] * copy.bytes, from + from_places[i] * copy.bytes);
    }
  });
}

// One side of the exchange: where rows are, and which of them go to or come from which rank.
struct Side {
  const std::vector<Place>& places;
  const std::vector<RowPlan::Part>& parts;
  std::byte* RowMemory::*memory;

  std::span<const Place> of(std::int64_t first, std::int64_t count) const {
    return std::span(places).subspan(static_cast<std::size_t>(first),
                                     static_cast<std::size_t>(count));
  }
};

// The part of this rank; null if it has none.
const RowPlan::Part* part_of(const std::vector<RowPlan::Part>& parts, int rank) {
  for (const auto& part : parts) {
    if (part.rank == rank) return &part;
  }
  return nullptr;
}

// Collective. Both directions are the same movement with sides exchanged. Rows that stay on this
// rank are moved without a message.
void travel(Group& group, const Side& from, const Side& to, std::span<const RowMemory> tensors) {
  std::int64_t row_bytes = 0;
  for (const auto& one : tensors) row_bytes += one.row_bytes;
  if (row_bytes == 0) return;
  const int rank = group.rank(), ranks = group.size();
  const auto most = std::max<std::int64_t>(message_bytes / row_bytes, 1);
  std::vector<RowMessage> out, in;
  std::unique_ptr<std::byte[]> sent, come;
  run_and_agree(group, [&] {
    out = row_messages(from.parts, Direction::to_peers, rank, ranks, most);
    in = row_messages(to.parts, Direction::from_peers, rank, ranks, most);
    const auto room = static_cast<std::size_t>(most * row_bytes);
    if (!out.empty()) sent = std::make_unique_for_overwrite<std::byte[]>(room);
    if (!in.empty()) come = std::make_unique_for_overwrite<std::byte[]>(room);
  });
  if (const auto* mine = part_of(from.parts, rank), *same = part_of(to.parts, rank); mine && same) {
    for (const auto& one : tensors) {
      move(one.*to.memory, to.of(same->first, same->count), one.*from.memory,
           from.of(mine->first, mine->count), one.row_bytes);
    }
  }
  // In a message the rows of one tensor follow those of the tensor before it.
  const auto each = [&](const RowMessage& message, const Side& side, std::byte*& at, auto&& take) {
    for (const auto& one : tensors) {
      take(at, one.*side.memory, side.of(message.first, message.count), one.row_bytes);
      at += message.count * one.row_bytes;
    }
  };
  in_groups(out, in, most,
            [&](std::span<const RowMessage> going, std::span<const RowMessage> coming) {
              std::vector<Group::Send> sends;
              std::vector<Group::Receive> receives;
              auto* at = sent.get();
              for (const auto& message : going) {
                const auto* begin = at;
                each(message, from, at,
                     [](std::byte* packed, const std::byte* rows, auto places, auto bytes) {
                       pick(packed, rows, places, bytes);
                     });
                sends.push_back({message.peer, {begin, at}});
              }
              at = come.get();
              for (const auto& message : coming) {
                const auto size = static_cast<std::size_t>(message.count * row_bytes);
                receives.push_back({message.peer, {at, size}});
                at += size;
              }
              group.exchange(sends, receives);
              at = come.get();
              for (const auto& message : coming) {
                each(message, to, at,
                     [](const std::byte* packed, std::byte* rows, auto places, auto bytes) {
                       put(rows, packed, places, bytes);
                     });
              }
            });
}

}  // namespace

void rows_to_blocks(Group& group, const RowPlan& plan, std::span<const RowMemory> tensors) {
  travel(group, {plan.order, plan.holding, &RowMemory::rows},
         {plan.places, plan.holders, &RowMemory::block}, tensors);
}

void blocks_to_rows(Group& group, const RowPlan& plan, std::span<const RowMemory> tensors) {
  travel(group, {plan.places, plan.holders, &RowMemory::block},
         {plan.order, plan.holding, &RowMemory::rows}, tensors);
}

RunOfRows::RunOfRows(std::shared_ptr<SliceMemory> memory, Dims extent, DType dtype, bool reading)
    : memory_(std::move(memory)), extent_(std::move(extent)) {
  if (element_count(extent_) == 0) return;
  if (reading) {
    // The memory is only read.
    data_ = const_cast<std::byte*>(std::as_const(*memory_).contiguous());
  } else {
    data_ = memory_->contiguous_writable();
  }
  if (data_) return;
  const auto bytes = element_count(extent_) * static_cast<std::int64_t>(dtype_size(dtype));
  copy_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
  data_ = copy_.get();
  if (reading) memory_->read(Box::whole(extent_), data_);
}

void RunOfRows::write_back() {
  if (copy_) memory_->write(Box::whole(extent_), copy_.get());
}

}  // namespace cairn
