#pragma once
/// The proof that the slices of all ranks make up each tensor: the same dtype and shape everywhere,
/// nothing twice, nothing missing, nothing outside. Identical slices are replicas.
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/dtype.hpp"
#include "cairn/state.hpp"

namespace cairn {

/// What a rank says of one tensor.
struct Declaration {
  std::string key;
  DType dtype{};
  Dims shape;
  int rank = 0;            ///< the rank that says so
  std::vector<Box> boxes;  ///< its slices; empty: it knows the tensor but holds none
  Storage storage = Storage::automatic;
  std::int64_t string_bytes = 0;  ///< of a string tensor, about as stored
  std::size_t fills = 0;          ///< this many of the last boxes are gaps that no rank holds
};

/// One distinct slice and all ranks that hold it (ascending, with the index of the box in the
/// holder's declaration).
struct HeldSlice {
  struct Holder {
    int rank;
    int box;
    bool fill = false;  ///< no rank holds the slice: this one has a sparse tensor's fill value
    bool operator==(const Holder&) const = default;
  };
  Box box;
  std::vector<Holder> holders;
  bool operator==(const HeldSlice&) const = default;
};

/// A tensor, or a part of a divided one (regions.hpp): the slices that begin in a region.
struct CoveredTensor {
  std::string key;
  DType dtype{};
  Dims shape;
  std::vector<HeldSlice> slices;         ///< ascending by box
  Storage storage = Storage::automatic;  ///< what ranks ask for other than this, if any
  std::int64_t string_bytes = 0;         ///< of a string tensor, as its first holder says
  std::size_t all_slices = 0;            ///< number in the whole tensor if this is a part; else 0
  bool first_part = true;                ///< of the parts of its tensor
  bool operator==(const CoveredTensor&) const = default;
};

/// Collects declarations (in any order; a rank that declares a key again goes on counting its
/// boxes) and checks them. Throws Code::coverage, or Code::disagreement for dtypes, shapes and
/// storage, and names the tensor, the box and the ranks: "tensor 'u' [512 512]: rows 128..255 ×
/// 0..511 are held by no rank". Sub-quadratic in boxes. The result ascends by key. Boxes without
/// elements are left out; but a tensor without elements has one slice, its whole (empty) box, held
/// by the lowest rank that declares it, as its box 0 or, if it gave no box, -1. A string tensor has
/// one slice, the whole of it.
std::vector<CoveredTensor> check_coverage(std::vector<Declaration> declarations);

/// Declarations in the form in which they travel: unpacked they would take several times the
/// memory. They are checked as by check_coverage, those of one key at a time.
class PackedDeclarations {
 public:
  /// Packs a declaration for add(). The key comes first.
  static std::string pack_one(const Declaration&);

  void expect(std::size_t declarations) { all_.reserve(declarations); }
  /// Adds a declaration of this rank, before those of higher ranks. The bytes must outlive this.
  void add(int rank, std::string_view packed);
  /// Throws what check_coverage throws. `tensor_of` gets, for each declaration that was added, the
  /// index of its tensor in the result.
  std::vector<CoveredTensor> check(std::vector<std::uint32_t>* tensor_of = nullptr) const;

 private:
  struct One {
    std::string_view key, packed;
    int rank;
  };
  std::vector<One> all_;
};

/// A box as one rank gave it.
struct GivenSlice {
  Box box;
  HeldSlice::Holder holder;
};
/// Takes all boxes of all ranks that touch a region, ascending by holder. Each is inside the
/// tensor, not empty, and not cut at the region. Returns the distinct ones, ascending, with their
/// holders; or nothing, unless they make up the region. So a tensor whose regions are all proved is
/// proved, and one that cannot be proved has a region that cannot; check_coverage tells why.
std::optional<std::vector<HeldSlice>> check_region(const Box& region, std::vector<GivenSlice>);

/// Chooses a writer for each slice so that bytes balance over ranks: result[t][s] is an index into
/// tensors[t].slices[s].holders. Deterministic. The largest load is the smallest that there is when
/// all replicas have the same size, and close to it otherwise. `load`: bytes that each rank writes
/// of other tensors; empty: none.
using Writers = std::vector<std::vector<int>>;
Writers choose_writers(const std::vector<CoveredTensor>& tensors, int ranks,
                       const std::vector<double>& load = {});

/// Bytes of a slice, as choose_writers counts them.
double bytes_to_write(const CoveredTensor& tensor, const HeldSlice& slice);

/// If that leaves a rank with much more than the mean: cuts large slices that this rank writes and
/// that others hold too, so that their holders can share the work. Pieces keep the holders of their
/// slice and have about least_bytes or more. Strings and tensors with Storage::sliced are not cut.
/// Returns whether any slice was cut; then writers must be chosen again.
bool share_replicas(std::vector<CoveredTensor>& tensors, const Writers& writers, int ranks,
                    const std::vector<double>& load = {},
                    std::int64_t least_bytes = std::int64_t{1} << 20);

/// A box of `whole` that none of these boxes touches; an empty optional if they cover it. The boxes
/// are disjoint (see find_overlap) and may reach out of `whole`. The result cannot be grown further
/// in any direction. The reader's check of stored slices uses this, too.
std::optional<Box> find_gap(const Box& whole, const std::vector<Box>& boxes);

/// Whether these boxes follow each other along one dimension and are whole in the others, so that
/// they cover a tensor of this shape once. This is the quick form for the usual case, without an
/// index of boxes. The complete proof beside it takes all other cases and makes the errors, so
/// false says nothing. Items must be in this order; box_of(item) is an item's box, with any
/// numbers.
template <class Items, class BoxOf>
bool are_in_line(const Dims& shape, const Items& items, const BoxOf& box_of);

/// Indices (ascending) of two boxes that share an element, or nothing.
std::optional<std::pair<std::size_t, std::size_t>> find_overlap(const std::vector<Box>& boxes);

/// Whether a box spans a tensor of this shape in all dimensions except `along`. It has as many
/// dimensions as the shape.
inline bool is_whole_but_along(std::size_t along, const Box& box, const Dims& shape) {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d != along && (box.start[d] != 0 || box.extent[d] != shape[d])) return false;
  }
  return true;
}

template <class Items, class BoxOf>
bool are_in_line(const Dims& shape, const Items& items, const BoxOf& box_of) {
  if (std::size(items) == 0) return false;
  const Box& first = box_of(*std::begin(items));
  const auto rank = shape.size();
  if (first.start.size() != rank || first.extent.size() != rank) return false;
  std::size_t along = 0;
  while (along < rank && first.extent[along] == shape[along]) ++along;
  if (along == rank) return std::size(items) == 1 && first.is_whole(shape);
  std::int64_t end = 0;
  for (const auto& item : items) {
    const Box& box = box_of(item);
    if (box.start.size() != rank || box.extent.size() != rank) return false;
    if (!is_whole_but_along(along, box, shape)) return false;
    if (box.start[along] != end || box.extent[along] <= 0) return false;
    if (box.extent[along] > shape[along] - end) return false;
    end += box.extent[along];
  }
  return end == shape[along];
}

}  // namespace cairn
