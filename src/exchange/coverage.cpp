#include "exchange/coverage.hpp"

#include <algorithm>
#include <numeric>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "exchange/box_check.hpp"
#include "exchange/messages.hpp"

namespace cairn {
namespace {

constexpr const char* disjoint_advice =
    "Leave halos out of the slices; a slice that several ranks hold must be the same box on each.";

/// Whether shapes differ in rows only, as for tensors of which each rank has as many rows as it
/// likes.
bool differs_in_rows(const Dims& a, const Dims& b) {
  return !a.empty() && a.size() == b.size() && std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

// Whether some holder has the slice as a gap of a sparse tensor.
bool has_fill(const HeldSlice& slice) {
  return std::any_of(slice.holders.begin(), slice.holders.end(),
                     [](const auto& holder) { return holder.fill; });
}

/// Puts the holders of each distinct box together. `twice` gets a box that a rank gave twice, if
/// any.
std::vector<HeldSlice> join_holders(std::vector<GivenSlice> given,
                                    std::optional<GivenSlice>& twice) {
  // The start of a box decides nearly always. Starts are sorted in a list of their own: otherwise
  // boxes would be looked for in memory log n times.
  struct Begin {
    std::int64_t first = 0, second = 0;
    std::size_t from = 0;
  };
  std::vector<Begin> order(given.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    // Two dimensions tell most boxes apart. The rest is compared in the boxes themselves.
    const auto& start = given[i].box.start;
    order[i] = {start.empty() ? 0 : start[0], start.size() < 2 ? 0 : start[1], i};
  }
  // `given` ascends by rank and number, so its order breaks ties.
  std::sort(order.begin(), order.end(), [&](const Begin& a, const Begin& b) {
    if (a.first != b.first) return a.first < b.first;
    if (a.second != b.second) return a.second < b.second;
    const auto by_box = given[a.from].box <=> given[b.from].box;
    return by_box != 0 ? by_box < 0 : a.from < b.from;
  });
  std::vector<HeldSlice> slices;
  slices.reserve(given.size());
  for (const auto& begin : order) {
    auto& [box, holder] = given[begin.from];
    if (slices.empty() || slices.back().box != box) {
      slices.push_back({std::move(box), {holder}});
      continue;
    }
    auto& holders = slices.back().holders;
    // Holders ascend by rank, so two boxes of one rank are neighbours.
    if (holders.back().rank == holder.rank && !twice) twice = {slices.back().box, holder};
    holders.push_back(holder);
  }
  return slices;
}

/// Checks the declarations of one key, which come ascending by rank.
class TensorCheck {
 public:
  explicit TensorCheck(std::vector<Declaration>& declarations)
      : declarations_(declarations), first_(declarations.front()) {}

  CoveredTensor run() {
    agree();
    // A shape may be impossible, or have 2^63 elements or more; the error then gets the tensor's
    // name.
    try {
      count_ = element_count(first_.shape);
    } catch (const Error& error) {
      throw Error(
          error.code(),
          cat("tensor '", first_.key, "', declared by rank ", first_.rank, ": ", error.problem()),
          error.reason())
          .of_tensor(first_.key);
    }
    auto given = collect();
    CoveredTensor tensor{first_.key, first_.dtype, first_.shape, {}, agree_on_storage()};
    tensor.string_bytes = string_bytes();
    // A tensor without elements needs no proof, but must be in the index. One rank gets the empty
    // box.
    if (count_ == 0) {
      const int box = first_.boxes.empty() ? -1 : 0;
      tensor.slices.push_back({Box::whole(first_.shape), {{first_.rank, box}}});
      return tensor;
    }
    tensor.slices = merge(std::move(given));
    prove(tensor.slices);
    return tensor;
  }

 private:
  [[noreturn]] void fail(Code code, std::string problem, std::string reason,
                         std::string way_out) const {
    throw Error(code, std::move(problem), std::move(reason), std::move(way_out))
        .of_tensor(first_.key);
  }
  std::string name() const {
    return cat("tensor '", first_.key, "' ", shape_text(first_.shape), ": ");
  }
  // box_text() of a scalar is "the scalar", which is singular.
  std::string verb(const char* one, const char* many) const {
    return first_.shape.empty() ? one : many;
  }

  std::int64_t string_bytes() const {
    for (const auto& declaration : declarations_) {
      if (!declaration.boxes.empty()) return declaration.string_bytes;
    }
    return 0;
  }

  void agree() const {
    for (const auto& other : declarations_) {
      if (other.dtype == first_.dtype && other.shape == first_.shape) continue;
      const bool dtype = other.dtype != first_.dtype;
      const bool shape = other.shape != first_.shape;
      fail(Code::disagreement,
           cat("tensor '", first_.key, "' has differing ",
               dtype && shape ? "dtypes and shapes"
               : dtype        ? "dtypes"
                              : "shapes",
               ": ", dtype_name(first_.dtype), " ", shape_text(first_.shape), " on rank ",
               first_.rank, ", ", dtype_name(other.dtype), " ", shape_text(other.shape),
               " on rank ", other.rank),
           "a tensor has one dtype and one global shape in the whole job",
           cat("The shape to give is that of the whole tensor, not of a rank's slice.",
               shape && !dtype && differs_in_rows(first_.shape, other.shape)
                   ? " Rows whose number differs from rank to rank are given with cairn::ragged, "
                     "what is each rank's own with cairn::rank_private."
                   : ""));
    }
  }

  Storage agree_on_storage() const {
    const Declaration* said = nullptr;
    for (const auto& one : declarations_) {
      if (one.storage == Storage::automatic) continue;
      if (said && said->storage != one.storage) {
        fail(Code::disagreement,
             cat("tensor '", first_.key, "' is to be stored in two ways: ranks ", said->rank,
                 " and ", one.rank, " disagree on its Storage"),
             "it is stored either sliced or dense", "Say the same on all ranks that hold it.");
      }
      said = &one;
    }
    return said ? said->storage : Storage::automatic;
  }

  std::vector<GivenSlice> collect() {
    std::size_t total = 0;
    for (const auto& declaration : declarations_) total += declaration.boxes.size();
    std::vector<GivenSlice> given;
    given.reserve(total);
    const Box whole = Box::whole(first_.shape);
    int number = 0, rank = first_.rank;
    for (auto& declaration : declarations_) {
      // A rank that declares a tensor twice goes on counting its boxes.
      if (declaration.rank != rank) number = 0;
      rank = declaration.rank;
      // Boxes from this number on are gaps of a sparse tensor, which have its fill value.
      const auto held = declaration.boxes.size() - declaration.fills;
      for (std::size_t i = 0; i < declaration.boxes.size(); ++i) {
        auto& box = declaration.boxes[i];
        if (!lies_inside(box, first_.shape)) {
          fail(Code::coverage,
               cat(name(), any_box_text(box), " of rank ", rank, " ", verb("is", "are"),
                   " outside of it"),
               "a slice is given in global coordinates and lies inside the global shape", "");
        }
        if (first_.dtype == DType::string && box != whole) {
          fail(Code::coverage, cat(name(), "rank ", rank, " holds only ", box_text(box), " of it"),
               "a string tensor is whole on each rank that has it", "");
        }
        if (count_ != 0 && !box.empty())
          given.push_back({std::move(box), {rank, number, i >= held}});
        ++number;
      }
    }
    return given;
  }

  std::vector<HeldSlice> merge(std::vector<GivenSlice> given) const {
    std::optional<GivenSlice> twice;
    auto slices = join_holders(std::move(given), twice);
    if (twice) {
      fail(Code::coverage,
           cat(name(), box_text(twice->box), " ", verb("is", "are"), " given twice by rank ",
               twice->holder.rank),
           "each element has one value on a rank", "Give each slice once.");
    }
    for (const auto& slice : slices) {
      if (slice.holders.size() > 1 && has_fill(slice)) refuse_mixed(slice, slice);
    }
    return slices;
  }

  // Some rank holds elements of a sparse tensor that the ranks which give it as sparse take for a
  // gap.
  [[noreturn]] void refuse_mixed(const HeldSlice& a, const HeldSlice& b) const {
    const HeldSlice::Holder* plain = nullptr;
    for (const auto* slice : {&a, &b}) {
      for (const auto& holder : slice->holders) {
        if (!holder.fill && (!plain || holder.rank < plain->rank)) plain = &holder;
      }
    }
    const auto who = plain ? cat("rank ", plain->rank) : std::string("a rank");
    fail(Code::disagreement,
         cat(name(), "some ranks give it as a sparse tensor, and ", who, " does not"),
         cat(who, " holds ", box_text(*intersect(a.box, b.box)), ", which others take for a gap"),
         "Give it with cairn::sparse on all ranks.");
  }

  // If no two slices overlap, as many elements as the tensor has are a proof that none is missing.
  // A gap is only looked for to name it.
  void prove(const std::vector<HeldSlice>& slices) const {
    if (are_in_line(
            first_.shape, slices, [](const auto& slice) -> auto& { return slice.box; })) {
      return;
    }
    std::vector<Box> boxes;
    boxes.reserve(slices.size());
    for (const auto& slice : slices) boxes.push_back(slice.box);
    if (const auto pair = find_overlap(boxes))
      report_overlap(slices[pair->first], slices[pair->second]);
    std::int64_t held = 0;
    for (const auto& box : boxes) held += box.count();
    if (held == count_) return;
    // There is one, since fewer elements are held.
    const auto gap = find_gap(Box::whole(first_.shape), boxes);
    fail(Code::coverage, cat(name(), box_text(*gap), " ", verb("is", "are"), " held by no rank"),
         cat(count_ - held, " of its ", count_, " elements are missing"),
         "The slices of all ranks together must make up the whole tensor.");
  }

  [[noreturn]] void report_overlap(const HeldSlice& a, const HeldSlice& b) const {
    if (has_fill(a) || has_fill(b)) refuse_mixed(a, b);
    // One rank may hold both slices while others hold one of them: the error names the lowest
    // holders.
    const int left = a.holders.front().rank, right = b.holders.front().rank;
    const auto who = left == right ? cat("twice by rank ", left)
                                   : cat("by rank ", std::min(left, right), " and by rank ",
                                         std::max(left, right));
    const auto& lower = left <= right ? a : b;
    const auto& upper = left <= right ? b : a;
    fail(Code::coverage,
         cat(name(), box_text(*intersect(a.box, b.box)), " are held ", who,
             " in differing slices: ", box_text(lower.box), " and ", box_text(upper.box)),
         "an element that two slices hold would be stored twice", disjoint_advice);
  }

  // Boxes are moved out of the declarations into the slices.
  std::vector<Declaration>& declarations_;
  const Declaration& first_;
  // The elements of the tensor.
  std::int64_t count_ = 0;
};

}  // namespace

// The same proof for a region: no overlap, and as many elements as it has. Slices may reach out of
// the region, so their parts inside are compared.
std::optional<std::vector<HeldSlice>> check_region(const Box& region,
                                                   std::vector<GivenSlice> given) {
  std::optional<GivenSlice> twice;
  auto slices = join_holders(std::move(given), twice);
  if (twice) return std::nullopt;
  std::vector<Box> parts;
  parts.reserve(slices.size());
  std::int64_t held = 0;
  for (const auto& slice : slices) {
    auto part = intersect(slice.box, region);
    if (!part || (slice.holders.size() > 1 && has_fill(slice))) return std::nullopt;
    held += part->count();
    parts.push_back(std::move(*part));
  }
  if (held != region.count() || find_overlap(parts)) return std::nullopt;
  return slices;
}

std::vector<CoveredTensor> check_coverage(std::vector<Declaration> declarations) {
  PackedDeclarations all;
  std::vector<std::string> packed;
  packed.reserve(declarations.size());
  for (const auto& one : declarations) {
    packed.push_back(PackedDeclarations::pack_one(one));
    all.add(one.rank, packed.back());
  }
  return all.check();
}

std::string PackedDeclarations::pack_one(const Declaration& one) { return pack(one); }

void PackedDeclarations::add(int rank, std::string_view packed) {
  all_.push_back({WireReader(packed).get<std::string_view>(), packed, rank});
}

std::vector<CoveredTensor> PackedDeclarations::check(std::vector<std::uint32_t>* tensor_of) const {
  // Declarations are sorted by their numbers, and unpacked key by key.
  std::vector<std::uint32_t> order(all_.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::sort(order.begin(), order.end(), [&](auto i, auto j) {
    const auto &a = all_[i], &b = all_[j];
    const auto by_key = a.key.compare(b.key);
    if (by_key != 0) return by_key < 0;
    return a.rank != b.rank ? a.rank < b.rank : i < j;
  });
  // The number of its tensor, for each declaration.
  std::vector<std::uint32_t> tensors(all_.size());
  std::uint32_t keys = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    keys += i == 0 || all_[order[i]].key != all_[order[i - 1]].key;
    tensors[order[i]] = keys - 1;
  }
  std::vector<CoveredTensor> covered;
  covered.reserve(keys);
  std::vector<Declaration> of_key;
  for (std::size_t i = 0; i < order.size();) {
    of_key.clear();
    for (const auto tensor = tensors[order[i]]; i < order.size() && tensors[order[i]] == tensor;
         ++i) {
      of_key.push_back(unpack<Declaration>(all_[order[i]].packed));
    }
    covered.push_back(TensorCheck(of_key).run());
  }
  if (tensor_of) *tensor_of = std::move(tensors);
  return covered;
}

}  // namespace cairn
