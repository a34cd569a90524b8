#include "job/pass_pieces.hpp"

#include <algorithm>
#include <cstring>

#include "model/runs.hpp"

namespace cairn {
namespace {

template <class End>
auto run_of(const End& end, const Box& part) -> decltype(end.base) {
  if (!end.base) return nullptr;
  const auto run = run_at(part.relative_to(end.box->start), end.box->extent);
  return run ? end.base + *run * static_cast<std::int64_t>(dtype_size(end.dtype)) : nullptr;
}

void read(const PieceSource& from, const Box& part, std::byte* out) {
  const auto box = part.relative_to(from.box->start);
  if (from.memory) return from.memory->read(box, out);
  host_memory(from.dtype, from.base, nullptr, from.box->extent, {})->read(box, out);
}

void write(const PieceTarget& to, const Box& part, const std::byte* in) {
  const auto box = part.relative_to(to.box->start);
  if (to.memory) return to.memory->write(box, in);
  host_memory(to.dtype, to.base, to.base, to.box->extent, {})->write(box, in);
}

std::int64_t sum_of(const std::vector<plan::Passed>& pieces) {
  std::int64_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.bytes;
  return bytes;
}

}  // namespace

const std::byte* run_in(const PieceSource& from, const Box& part) { return run_of(from, part); }
std::byte* run_in(const PieceTarget& to, const Box& part) { return run_of(to, part); }

PassingRoom room_to_pass(const plan::OwnPlan& plan, bool backwards) {
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

void PiecePasser::make_room(const PassingRoom& room) {
  own_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(room.bytes()));
  use_room(room, own_.get());
}

void PiecePasser::use_room(const PassingRoom& room, std::byte* where) {
  packed_ = where;
  arrived_ = where + room.out;
}

void PiecePasser::keep(const plan::Passed& piece) {
  const auto size = static_cast<std::size_t>(piece.bytes);
  const auto from = from_(piece);
  const auto to = to_(piece);
  const auto* bytes = run_of(from, piece.box);
  auto* place = run_of(to, piece.box);
  if (place && place == bytes) return;
  if (place && !bytes) return read_.guard([&] { read(from, piece.box, place); });
  if (!bytes) {
    read_.guard([&] { read(from, piece.box, packed_); });
    bytes = packed_;
  }
  if (place) {
    std::memcpy(place, bytes, size);
  } else {
    write_.guard([&] { write(to, piece.box, bytes); });
  }
}

void PiecePasser::pass(const std::vector<plan::Passed>& pieces_out,
                       const std::vector<plan::Passed>& pieces_in) {
  if (pieces_out.empty() && pieces_in.empty()) return;
  std::vector<Group::Send> sends;
  std::vector<Group::Receive> receives;
  struct Arrival {
    const Box* box;
    PieceTarget to;
    const std::byte* bytes;
  };
  std::vector<Arrival> to_place;
  auto* packing = packed_;
  auto* arriving = arrived_;
  for (const auto& piece : pieces_out) {
    const auto from = from_(piece);
    const auto* bytes = run_of(from, piece.box);
    if (!bytes) {
      read_.guard([&] { read(from, piece.box, packing); });
      bytes = packing;
      packing += piece.bytes;
    }
    sends.push_back({piece.peer, {bytes, static_cast<std::size_t>(piece.bytes)}});
  }
  for (const auto& piece : pieces_in) {
    const auto to = to_(piece);
    auto* place = run_of(to, piece.box);
    if (!place) {
      place = arriving;
      to_place.push_back({&piece.box, to, arriving});
      arriving += piece.bytes;
    }
    receives.push_back({piece.peer, {place, static_cast<std::size_t>(piece.bytes)}});
  }
  group_.exchange(sends, receives);
  for (const auto& [box, to, bytes] : to_place) {
    write_.guard([&, box = box, &to = to, bytes = bytes] { write(to, *box, bytes); });
  }
}

}  // namespace cairn
