#pragma once
/// Moves the pieces of an exchange from where they are to where they are wanted: what saves,
/// restores and redistributions have in common.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cairn/state.hpp"
#include "exchange/spread.hpp"
#include "group/collectives.hpp"

namespace cairn {

/// The elements of a box that pieces are cut from: a slice of the application, or a chunk in a
/// buffer. Boxes are in coordinates of the tensor.
struct PieceSource {
  const Box* box;
  DType dtype;
  const std::byte* base;      ///< if it is row-major without gaps; else null
  const SliceMemory* memory;  ///< null: there is only the base
};
/// The same, to be put into.
struct PieceTarget {
  const Box* box;
  DType dtype;
  std::byte* base;
  SliceMemory* memory;
};

/// Where the bytes of a part lie, if they are one run; else null.
const std::byte* run_in(const PieceSource&, const Box& part);
std::byte* run_in(const PieceTarget&, const Box& part);

/// Memory for the pieces of a step: those on their way out, packed, and those that arrive. One that
/// stays is packed where those go out, unless there is room for it.
struct PassingRoom {
  std::int64_t out = 0, in = 0, kept = 0;
  std::int64_t bytes() const { return out + in + kept; }
};
/// What each step of a plan needs at most. `backwards`: pieces go from where they are wanted to who
/// acquires.
PassingRoom room_to_pass(const plan::RankPlan&, bool backwards = false);
/// For pass_all(): what steps that go together need, twice. While one half is under way, the next
/// is packed and the last is unpacked: waiting after each step would cost each time what the slower
/// of two processes is late.
PassingRoom room_to_pass_all(const plan::RankPlan&, std::int64_t chunk_bytes);

/// One rank's hands. Once rounds have begun, a rank that threw would leave the others waiting for
/// its messages: so errors are kept until everybody has moved everything, and a piece that could
/// not be had travels as whatever is in the buffer.
class PiecePasser {
 public:
  using From = std::function<PieceSource(const plan::Passed&)>;
  using To = std::function<PieceTarget(const plan::Passed&)>;

  /// `from` is asked for pieces that this rank has, `to` for those that it gets.
  PiecePasser(Group& group, From from, To to)
      : group_(group), from_(std::move(from)), to_(std::move(to)) {}

  /// Takes memory of its own; not initialised: what is never used is never touched.
  void make_room(const PassingRoom&);
  /// Uses this memory, of room.bytes(), which outlives it.
  void use_room(const PassingRoom& room, std::byte* where);

  /// A piece that stays on this rank. Nothing happens to one that lies where it is to go.
  void keep(const plan::Passed&);
  /// The pieces of a step. No call of the group where there are none.
  void pass(std::span<const plan::Passed> sends, std::span<const plan::Passed> receives);
  /// All of a plan whose chunks are in memory already. What needs no packing takes no room, so many
  /// steps go at once; while some are under way, others are packed and unpacked. The room is that
  /// of room_to_pass_all().
  void pass_all(const plan::RankPlan&);

  const std::optional<Error>& read_error() const { return read_.first(); }    ///< of `from`
  const std::optional<Error>& write_error() const { return write_.first(); }  ///< of `to`

 private:
  struct Arrival {
    const Box* box;
    PieceTarget to;
    const std::byte* bytes;
  };
  /// Messages that are begun together, and the room that they take.
  struct Load {
    std::byte *packed = nullptr, *arrived = nullptr;  // the room
    std::int64_t out = 0, in = 0;                     // taken of it
    std::vector<Group::Send> sends = {};
    std::vector<Group::Receive> receives = {};
    std::vector<Arrival> to_place = {};
    std::unique_ptr<Group::Exchange> under_way = nullptr;
  };
  void pack(Load&, std::span<const plan::Passed> message);
  void expect(Load&, std::span<const plan::Passed> message);
  void add(Load&, std::span<const plan::Passed> sends, std::span<const plan::Passed> receives);
  PassingRoom need(const plan::OwnStep&) const;
  void place(Load&);
  void end(Load&);

  Group& group_;
  From from_;
  To to_;
  std::unique_ptr<std::byte[]> own_;
  PassingRoom room_;
  std::byte* where_ = nullptr;
  bool far_ = false;  // what arrives goes past the processor's caches
  DeferredError read_, write_;
};

}  // namespace cairn
