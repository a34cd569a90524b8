#include "exchange/pass_pieces.hpp"

#include <algorithm>
#include <cstring>

#include "base/copy.hpp"
#include "model/copy_part.hpp"
#include "model/runs.hpp"

namespace cairn {
namespace {

// Where a part of a source or target lies, if it is one run of bytes there; else null.
template <class End>
auto run_of(const End& end, const Box& part) -> decltype(end.base) {
  if (!end.base) return nullptr;
  const auto run = run_in_box(part, end.box->start, end.box->extent);
  return run ? end.base + *run * static_cast<std::int64_t>(dtype_size(end.dtype)) : nullptr;
}

// Where a message begins in memory, if its pieces lie one behind the other, as rows do that are
// slices of their own; else null.
template <class EndOf>
auto run_of_all(std::span<const plan::Passed> message, const EndOf& end_of) {
  const auto run = [&](const plan::Passed& piece) { return run_of(end_of(piece), piece.box); };
  const auto begin = run(message.front());
  auto next = begin;
  for (std::size_t i = 1; next && i < message.size(); ++i) {
    next += message[i - 1].bytes;
    if (run(message[i]) != next) return decltype(begin){};
  }
  return begin;
}

// A rank that gets this many bytes has no room for them in its processor's caches.
constexpr std::int64_t far_bytes = std::int64_t{16} << 20;

// Packs a part of a source row-major; write() is the way back.
void read(const PieceSource& from, const Box& part, std::byte* out) {
  if (!from.base) return from.memory->read(part.relative_to(from.box->start), out);
  copy_part(part, dtype_size(from.dtype), out, part, from.base, *from.box);
}

void write(const PieceTarget& to, const Box& part, const std::byte* in, bool far) {
  if (!to.base) return to.memory->write(part.relative_to(to.box->start), in);
  copy_part(part, dtype_size(to.dtype), to.base, *to.box, in, part, far);
}

std::int64_t sum_of(std::span<const plan::Passed> pieces) {
  std::int64_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.bytes;
  return bytes;
}

// Calls `take` with the pieces of each message.
template <class Take>
void each_message(std::span<const plan::Passed> pieces, const Take& take) {
  for (std::size_t first = 0, end = 0; first < pieces.size(); first = end) {
    end = first + 1;
    while (end < pieces.size() && pieces[end].joins) ++end;
    take(pieces.subspan(first, end - first));
  }
}

}  // namespace

const std::byte* run_in(const PieceSource& from, const Box& part) { return run_of(from, part); }
std::byte* run_in(const PieceTarget& to, const Box& part) { return run_of(to, part); }

PassingRoom room_to_pass(const plan::RankPlan& plan, bool backwards) {
  PassingRoom room;
  for (const auto& round : plan.rounds) {
    for (const auto& piece : round.local) room.out = std::max(room.out, piece.bytes);
    for (const auto& step : round.steps) {
      room.out = std::max(room.out, sum_of(backwards ? step.receives : step.sends));
      room.in = std::max(room.in, sum_of(backwards ? step.sends : step.receives));
    }
  }
  return room;
}

PassingRoom room_to_pass_all(const plan::RankPlan& plan, std::int64_t chunk_bytes) {
  PassingRoom most, all;
  for (const auto& round : plan.rounds) {
    for (const auto& piece : round.local) most.kept = std::max(most.kept, piece.bytes);
    for (const auto& step : round.steps) {
      const PassingRoom one{sum_of(step.sends), sum_of(step.receives)};
      most.out = std::max(most.out, one.out), most.in = std::max(most.in, one.in);
      all.out += one.out, all.in += one.in;
    }
  }
  // More than all pieces together is never needed, less than the largest step is not enough.
  most.out = std::max(most.out, std::min(all.out, chunk_bytes));
  most.in = std::max(most.in, std::min(all.in, chunk_bytes));
  return {2 * most.out, 2 * most.in, most.kept};
}

void PiecePasser::make_room(const PassingRoom& room) {
  own_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(room.bytes()));
  use_room(room, own_.get());
}

void PiecePasser::use_room(const PassingRoom& room, std::byte* where) {
  room_ = room;
  where_ = where;
}

void PiecePasser::keep(const plan::Passed& piece) {
  const auto size = static_cast<std::size_t>(piece.bytes);
  const auto from = from_(piece);
  const auto to = to_(piece);
  const auto* bytes = run_of(from, piece.box);
  auto* place = run_of(to, piece.box);
  if (place && place == bytes) return;
  // Both are in host memory, but one of them has gaps there: one copy from box to box.
  if (from.base && to.base && !(place && bytes)) {
    if (from.base == to.base && *from.box == *to.box) return;
    return write_.guard([&] {  // boxes of many dimensions allocate memory
      copy_part(piece.box, dtype_size(to.dtype), to.base, *to.box, from.base, *from.box, far_);
    });
  }
  if (place && !bytes) return read_.guard([&] { read(from, piece.box, place); });
  // The source has no run of these bytes, so they are packed first.
  if (!bytes) {
    auto* packed = room_.kept > 0 ? where_ + room_.out + room_.in : where_;
    read_.guard([&] { read(from, piece.box, packed); });
    bytes = packed;
  }
  if (place) {
    std::memcpy(place, bytes, size);
  } else {
    write_.guard([&] { write(to, piece.box, bytes, far_); });
  }
}

// Adds an outgoing message: from where it lies, if it is one run there; else packed into the room.
void PiecePasser::pack(Load& load, std::span<const plan::Passed> message) {
  const auto bytes = static_cast<std::size_t>(sum_of(message));
  const auto peer = message.front().peer;
  if (const auto* there = run_of_all(message, from_)) {
    load.sends.push_back({peer, {there, bytes}});
    return;
  }
  auto* at = load.packed + load.out;
  load.sends.push_back({peer, {at, bytes}});
  for (const auto& piece : message) {
    const auto from = from_(piece);
    const auto size = static_cast<std::size_t>(piece.bytes);
    if (const auto* there = run_of(from, piece.box)) {
      std::memcpy(at, there, size);
    } else {
      read_.guard([&] { read(from, piece.box, at); });
    }
    at += piece.bytes;
  }
  load.out += static_cast<std::int64_t>(bytes);
}

// Adds an incoming message: into its place, if that is one run; else into the room, from where
// place() puts it.
void PiecePasser::expect(Load& load, std::span<const plan::Passed> message) {
  const auto bytes = static_cast<std::size_t>(sum_of(message));
  const auto peer = message.front().peer;
  if (auto* there = run_of_all(message, to_)) {
    load.receives.push_back({peer, {there, bytes}});
    return;
  }
  auto* at = load.arrived + load.in;
  load.receives.push_back({peer, {at, bytes}});
  for (const auto& piece : message) {
    load.to_place.push_back({&piece.box, to_(piece), at});
    at += piece.bytes;
  }
  load.in += static_cast<std::int64_t>(bytes);
}

void PiecePasser::add(Load& load, std::span<const plan::Passed> sends,
                      std::span<const plan::Passed> receives) {
  each_message(sends, [&](std::span<const plan::Passed> message) { pack(load, message); });
  each_message(receives, [&](std::span<const plan::Passed> message) { expect(load, message); });
}

void PiecePasser::place(Load& load) {
  for (const auto& [box, to, bytes] : load.to_place) {
    if (auto* there = run_of(to, *box)) {
      std::memcpy(there, bytes, static_cast<std::size_t>(box->count()) * dtype_size(to.dtype));
    } else {
      write_.guard([&, box = box, &to = to, bytes = bytes] { write(to, *box, bytes, far_); });
    }
  }
}

void PiecePasser::pass(std::span<const plan::Passed> sends,
                       std::span<const plan::Passed> receives) {
  if (sends.empty() && receives.empty()) return;
  Load load{.packed = where_, .arrived = where_ + room_.out};
  add(load, sends, receives);
  group_.exchange(load.sends, load.receives);
  place(load);
}

// The room that a step needs.
PassingRoom PiecePasser::need(const plan::OwnStep& step) const {
  PassingRoom room;
  each_message(step.sends, [&](std::span<const plan::Passed> message) {
    room.out += run_of_all(message, from_) ? 0 : sum_of(message);
  });
  each_message(step.receives, [&](std::span<const plan::Passed> message) {
    room.in += run_of_all(message, to_) ? 0 : sum_of(message);
  });
  return room;
}

void PiecePasser::end(Load& load) {
  if (!load.under_way) return;
  load.under_way->end();
  load.under_way.reset();
  place(load);
}

void PiecePasser::pass_all(const plan::RankPlan& plan) {
  std::int64_t gets = 0;
  for (const auto& round : plan.rounds) {
    gets += sum_of(round.local);
    for (const auto& step : round.steps) gets += sum_of(step.receives);
  }
  far_ = gets >= far_bytes;
  const PassingRoom half{room_.out / 2, room_.in / 2};
  Load loads[2];
  for (int i = 0; i < 2; ++i) {
    loads[i].packed = where_ + i * half.out;
    loads[i].arrived = where_ + room_.out + i * half.in;
  }
  std::vector<const plan::Passed*> local;
  int next = 0;
  // Begins the messages of one half, and ends those of the other, whose room is then free again.
  const auto begin = [&] {
    auto& load = loads[next];
    if (!load.sends.empty() || !load.receives.empty()) {
      load.under_way = group_.begin_exchange(load.sends, load.receives);
    }
    next = 1 - next;
    // While these are under way: move the pieces that stay here, and end the messages that were
    // begun before.
    for (const auto* piece : local) keep(*piece);
    local.clear();
    auto& before = loads[next];
    end(before);
    before.out = before.in = 0;
    before.sends.clear(), before.receives.clear(), before.to_place.clear();
  };
  for (const auto& round : plan.rounds) {
    for (const auto& piece : round.local) local.push_back(&piece);
    for (const auto& step : round.steps) {
      const auto more = need(step);
      if (loads[next].out + more.out > half.out || loads[next].in + more.in > half.in) begin();
      add(loads[next], step.sends, step.receives);
    }
  }
  // Twice: the second call ends what the first one has begun.
  begin();
  begin();
  order_copies_past_caches();
  far_ = false;  // other calls do not order such copies at their end
}

}  // namespace cairn
