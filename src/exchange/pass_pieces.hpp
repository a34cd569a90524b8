#pragma once
/// Moves the pieces of an exchange from where they are to where they are wanted, for saves,
/// restores and redistributions.
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

/// A box of elements from which pieces are cut: a slice of the application, or a chunk in a buffer.
/// Boxes are in coordinates of the tensor.
struct PieceSource {
  const Box* box;
  DType dtype;
  const std::byte* base;      ///< if it is row-major in memory without gaps; else null
  const SliceMemory* memory;  ///< null: there is only the base
};
/// The same, for pieces that are put into it.
struct PieceTarget {
  const Box* box;
  DType dtype;
  std::byte* base;
  SliceMemory* memory;
};

/// Where the bytes of a part lie, if they are one run; else null.
const std::byte* run_in(const PieceSource&, const Box& part);
std::byte* run_in(const PieceTarget&, const Box& part);

/// Memory for the pieces of a step: the outgoing ones, packed, and those that arrive. A piece that
/// stays on its rank is packed in the room of the outgoing ones, unless it has room of its own
/// (`kept`).
struct PassingRoom {
  std::int64_t out = 0, in = 0, kept = 0;
  std::int64_t bytes() const { return out + in + kept; }
};
/// The most that a step of a plan needs. `backwards`: pieces go from the ranks that want them to
/// those that acquire.
PassingRoom room_to_pass(const plan::RankPlan&, bool backwards = false);
/// For pass_all(): twice the room of steps that go together. While one half is under way, the next
/// is packed and the last is unpacked. To wait after each step would each time cost the delay of
/// the slower of two processes.
PassingRoom room_to_pass_all(const plan::RankPlan&, std::int64_t chunk_bytes);

/// Passes one rank's pieces. Once rounds have begun, a rank that threw would leave the others
/// waiting for its messages. So errors are kept until all ranks have moved all pieces, and a piece
/// that could not be read travels as whatever is in the buffer.
class PiecePasser {
 public:
  using From = std::function<PieceSource(const plan::Passed&)>;
  using To = std::function<PieceTarget(const plan::Passed&)>;

  /// `from` is called for pieces that this rank has, `to` for those that it gets.
  PiecePasser(Group& group, From from, To to)
      : group_(group), from_(std::move(from)), to_(std::move(to)) {}

  /// Allocates the memory, not initialised: what is never used is never touched.
  void make_room(const PassingRoom&);
  /// Uses this memory, of room.bytes(), which must outlive this object.
  void use_room(const PassingRoom& room, std::byte* where);

  /// Moves a piece that stays on this rank. Does nothing if the piece already lies where it is to
  /// go.
  void keep(const plan::Passed&);
  /// Passes the pieces of a step. Makes no call of the group if there are none.
  void pass(std::span<const plan::Passed> sends, std::span<const plan::Passed> receives);
  /// Passes all pieces of a plan whose chunks are in memory already. Pieces that need no packing
  /// take no room, so many steps go at once. While some are under way, others are packed and
  /// unpacked. The room must be that of room_to_pass_all().
  void pass_all(const plan::RankPlan&);

  const std::optional<Error>& read_error() const { return read_.first(); }    ///< of reading `from`
  const std::optional<Error>& write_error() const { return write_.first(); }  ///< of writing `to`

 private:
  // A piece in the room for what arrives, which is placed when the exchange has ended.
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
  // The room of make_room(); null if the caller gave it.
  std::unique_ptr<std::byte[]> own_;
  PassingRoom room_;
  // The room: first what goes out, then what arrives, then what stays.
  std::byte* where_ = nullptr;
  bool far_ = false;  // pieces that arrive go past the processor's caches
  DeferredError read_, write_;
};

}  // namespace cairn
