// Which parts of the state share memory. Equal parts in equal memory are ties, which may be filled
// twice with the same bytes; everything else that overlaps is an error.
#include "session/restore/ties.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/ragged.hpp"
#include "session/restore/matcher.hpp"

namespace cairn {
namespace {

const char* const way_out = "Give each of them memory of its own, or leave one out of the state.";

std::uint64_t mixed(std::uint64_t x) {  // SplitMix64's
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

Error same_memory(const FillSource& first, const FillSource& second, std::string reason) {
  const auto& [key, stored, box] = first;
  return Error(Code::invalid_argument,
               key == second.key
                   ? cat("tensor '", key, "': ", box_text(box), " and ", box_text(second.box),
                         " are to be restored into the same memory")
                   : cat("tensors '", key, "' and '", second.key,
                         "' are to be restored into the same memory"),
               std::move(reason), way_out)
      .of_tensor(second.key);
}

bool is_same(const Laid& a, const Laid& b) {
  return a.where.first == b.where.first && a.where.element_bytes == b.where.element_bytes &&
         a.where.strides == b.where.strides && a.extent == b.extent;
}

// Any order in which equal places are neighbours.
bool lies_before(const Laid& a, const Laid& b) {
  return std::tie(a.where.first, a.where.element_bytes, a.where.strides, a.extent) <
         std::tie(b.where.first, b.where.element_bytes, b.where.strides, b.extent);
}

}  // namespace

void TieFinder::add(Item item, Footprint where, Dims extent) {
  // Memory whose place is not known cannot be compared, and is left to the application.
  if (!where.first || where.strides.size() != extent.size() || element_count(extent) == 0) return;
  for (std::size_t d = 0; d < extent.size(); ++d) {
    // The stride of such a dimension does not matter, and must not make equal places differ.
    if (extent[d] == 1) where.strides[d] = 0;
  }
  items_.push_back(std::move(item));
  laid_.push_back({std::move(where), std::move(extent)});
}

void TieFinder::add(const std::string& key, const LocalTensor& given, const WantedTensor& wanted) {
  const auto item = [&](Item::Kind kind, const Box* box) {
    return Item{kind, &key, given.dtype, wanted.stored, box};
  };
  if (given.strings) {
    auto where = given.strings->footprint();
    auto extent = where.strides.empty() ? Dims{} : given.shape;
    return add(item(Item::Kind::strings, nullptr), std::move(where), std::move(extent));
  }
  if (wanted.make_room) {  // its number of rows becomes that of the stored tensor
    auto rows = item(Item::Kind::rows, &boxes_.emplace_back(Box::whole(wanted.tensor().shape)));
    return add_owner(std::move(rows), given);
  }
  for (const auto& slice : wanted.tensor().slices) {
    add(item(Item::Kind::slice, &slice.box), slice.memory->footprint(), slice.box.extent);
    if (laid_.empty() || items_.back().key != &key || !folds(laid_.back())) continue;
    throw Error(Code::invalid_argument,
                cat("tensor '", key, "': elements of its ", box_text(slice.box),
                    " share memory, and cannot be restored"),
                cat("its strides are ", shape_text(laid_.back().where.strides),
                    " bytes, so that one would overwrite another"),
                "Restore into memory with a place for each element. For saving such a slice is no "
                "harm.")
        .of_tensor(key);
  }
}

void TieFinder::add(const std::string& key, const LocalTensor& given, const WantedFill& fill,
                    int stored) {
  auto where = fill.memory->footprint();
  if (!where.first) return;
  for (std::size_t d = 0; d < fill.part.rank(); ++d) {
    where.first += fill.part.start[d] * where.strides[d];
  }
  add(Item{Item::Kind::fill, &key, given.dtype, stored, &boxes_.emplace_back(fill.part),
           &fills_.emplace_back(fill.element)},
      std::move(where), fill.part.extent);
}

void TieFinder::add_rows(const std::string& key, const LocalTensor& given, int stored) {
  Item rows{Item::Kind::rows, &key, given.dtype, stored};
  if (given.unresolved->rows) return add_owner(std::move(rows), given);
  rows.kind = Item::Kind::slice;
  for (const auto& slice : given.slices) {
    add(rows, slice.memory->footprint(), slice.box.extent);
  }
}

// Adds the object that is resized, and the memory where its rows lie now.
void TieFinder::add_owner(Item item, const LocalTensor& given) {
  const auto& rows = given.resizes ? *given.resizes : *given.unresolved->rows;
  auto owner = rows.footprint();
  const bool is_known = owner.first;
  add(item, std::move(owner), {});
  std::shared_ptr<SliceMemory> memory;
  auto extent = given.shape;
  try {
    memory = rows.memory();
    extent[0] = rows.count();
  } catch (const Error& error) {  // it has no whole rows now, but may have after the restore
    if (error.code() != Code::invalid_argument) throw;
    return;
  }
  if (!memory || !memory->writable()) return;
  if (is_known) item.kind = Item::Kind::memory_of_rows;
  item.box = nullptr;
  add(std::move(item), memory->footprint(), std::move(extent));
}

// Whether two items that share memory may both be filled, if the bytes for them prove to be equal.
bool TieFinder::are_harmless(std::size_t first, std::size_t second) const {
  const auto &a = items_[first], &b = items_[second];
  const auto is_held = [](const Item& item) { return item.kind == Item::Kind::memory_of_rows; };
  // The comparison of their owners decides about such memory. A short text may lie inside its
  // owner.
  if (is_held(a) || is_held(b)) return (is_held(a) && is_held(b)) || a.key == b.key;
  if (a.kind != b.kind) return false;
  const auto& stored = contents_.tensors;
  const auto &from = stored[static_cast<std::size_t>(a.stored)],
             &to = stored[static_cast<std::size_t>(b.stored)];
  if (!is_same(laid_[first], laid_[second]) || a.dtype != b.dtype || from.dtype != to.dtype) {
    return false;
  }
  if (a.kind == Item::Kind::strings) return from.shape == to.shape;
  return a.box && b.box && a.box->extent == b.box->extent && (!a.fill || *a.fill == *b.fill);
}

void TieFinder::refuse(std::size_t first, std::size_t second) const {
  const auto &a = items_[first], &b = items_[second];
  const auto part = [](const Item& item) {
    return FillSource{*item.key, item.stored, item.box ? *item.box : Box{}};
  };
  const auto text = [&](const Item& item) {
    const auto& tensor = contents_.tensors[static_cast<std::size_t>(item.stored)];
    const auto& extent = item.box ? item.box->extent : tensor.shape;
    return item.dtype == tensor.dtype ? cat(dtype_name(item.dtype), " ", shape_text(extent))
                                      : cat(dtype_name(item.dtype), " ", shape_text(extent),
                                            ", stored as ", dtype_name(tensor.dtype));
  };
  const bool alike = text(a) == text(b);
  throw same_memory(part(a), part(b),
                    !is_same(laid_[first], laid_[second])
                        ? "they share a part of it, and one would overwrite the other"
                    : !alike ? cat("one is ", text(a), ", and the other ", text(b))
                             : "one would overwrite the other");
}

// Two slices of one box are two objects; null is a box that is not known yet.
static bool is_same_box(const Box* a, const Box* b) { return a == b || (a && b && *a == *b); }

// Items in exactly the same memory are compared with the first of them. Then one item of each place
// is compared with those of other places that overlap it.
std::vector<Tie> TieFinder::ties() const {
  if (are_apart(laid_)) return {};  // this is the usual case
  std::vector<std::size_t> order(items_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return lies_before(laid_[a], laid_[b]); });
  std::vector<Tie> ties;
  std::vector<std::size_t> places;  // for each place, the first item there
  std::vector<Laid> laid;
  for (const auto next : order) {
    if (places.empty() || !is_same(laid.back(), laid_[next])) {
      places.push_back(next);
      laid.push_back(laid_[next]);
      continue;
    }
    const auto first = places.back();
    if (!are_harmless(first, next)) refuse(first, next);
    const auto &a = items_[first], &b = items_[next];
    if (a.kind == Item::Kind::fill || a.kind == Item::Kind::memory_of_rows) continue;
    if (a.stored == b.stored && is_same_box(a.box, b.box)) continue;
    ties.push_back({{*a.key, a.stored, a.box ? *a.box : Box{}},
                    {*b.key, b.stored, b.box ? *b.box : Box{}},
                    a.kind == Item::Kind::strings});
  }
  // Places that are equal were joined above. What still shares memory overlaps in part.
  each_sharing(laid, [&](std::size_t a, std::size_t b) {
    const auto first = std::min(places[a], places[b]), second = std::max(places[a], places[b]);
    if (!are_harmless(first, second)) refuse(first, second);
  });
  return ties;
}

// Sums a hash of each element and its place, so the order in which elements arrive does not matter.
class TieProbe::Fingerprint : public SliceMemory {
 public:
  Fingerprint(Dims extent, std::size_t item) : strides_(row_major_strides(extent)), item_(item) {}

  std::uint64_t value() const { return sum_; }

  void read(const Box&, std::byte*) const override {
    throw Error(Code::internal, "a fingerprint is for restoring only");
  }
  void write(const Box& part, const std::byte* in) override {
    switch (item_) {
      case 1:
        return add<1>(part, in);
      case 2:
        return add<2>(part, in);
      case 4:
        return add<4>(part, in);
      case 8:
        return add<8>(part, in);
      case 16:
        return add<16>(part, in);
    }
    throw Error(Code::internal, cat("elements of ", item_, " bytes are to be compared"));
  }
  bool writable() const override { return true; }

 private:
  template <std::size_t Item>
  void add(const Box& part, const std::byte* in) {
    if (part.empty()) return;
    const auto rank = part.rank();
    const auto line = rank > 0 ? part.extent.back() : 1;
    Dims at(rank);
    for (auto lines = part.count() / line; lines > 0; --lines) {
      std::int64_t index = 0;
      for (std::size_t d = 0; d < rank; ++d) index += (part.start[d] + at[d]) * strides_[d];
      for (std::int64_t i = 0; i < line; ++i, in += Item) {
        std::uint64_t value[2] = {0, 0};
        std::memcpy(value, in, Item);
        // The place in the part is a part of the hash: the same elements in another order differ.
        auto hash = mixed(static_cast<std::uint64_t>(index + i) + 0x9e3779b97f4a7c15) ^ value[0];
        if constexpr (Item > 8) hash = mixed(hash) ^ value[1];
        sum_ += mixed(hash);
      }
      for (auto d = rank; d-- > 1;) {
        if (++at[d - 1] < part.extent[d - 1]) break;
        at[d - 1] = 0;
      }
    }
  }

  const Dims strides_;
  const std::size_t item_;
  std::uint64_t sum_ = 0;
};

TieProbe::TieProbe(const CheckpointContents& contents, const std::vector<Tie>& ties)
    : contents_(contents), ties_(ties) {
  // A part that several ties name is read once.
  std::map<std::tuple<int, Dims, Dims>, std::shared_ptr<const Fingerprint>> known;
  for (const auto& tie : ties) {
    auto& [first, second] = prints_.emplace_back();
    if (tie.strings) continue;
    for (const auto& [part, print] :
         {std::pair(&tie.first, &first), std::pair(&tie.second, &second)}) {
      auto& one = known[{part->stored, part->box.start, part->box.extent}];
      if (!one) one = add(*part);
      *print = one;
    }
  }
}

std::shared_ptr<const TieProbe::Fingerprint> TieProbe::add(const FillSource& part) {
  const auto& stored = contents_.tensors[static_cast<std::size_t>(part.stored)];
  const auto print = std::make_shared<Fingerprint>(part.box.extent, dtype_size(stored.dtype));
  auto& wanted = wanted_.tensors.emplace_back(part.stored, nothing(stored.dtype, stored.shape));
  if (!part.box.empty()) wanted.change().slices.push_back({part.box, print});
  return print;
}

void TieProbe::require_equal(
    const std::function<bool(int stored, int other)>& are_equal_strings) const {
  for (std::size_t i = 0; i < ties_.size(); ++i) {
    const auto& [first, second, strings] = ties_[i];
    const auto& [a, b] = prints_[i];
    if (strings ? are_equal_strings(first.stored, second.stored) : a->value() == b->value()) {
      continue;
    }
    throw same_memory(first, second, cat("their values in ", name_of(contents_), " differ"));
  }
}

}  // namespace cairn
