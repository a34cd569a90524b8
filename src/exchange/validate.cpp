// Checks what a sharding policy returned (cairn/sharding.hpp). Policies are the application's code:
// whatever they drop, add or change is found here, before anything is written.
#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/sharding.hpp"
#include "exchange/box_check.hpp"
#include "exchange/coverage.hpp"
#include "model/box_index.hpp"

namespace cairn {
namespace {

/// The slices that were given for one key, and what became of them.
struct Known {
  std::vector<const ShardableTensor*> given;  // ascending by slice, disjoint
  std::vector<Box> boxes;                     // of these
  std::optional<BoxIndex> index;              // made when the first slice that was cut is found
  std::map<Box, std::size_t> seen;            // piece → shard
  std::vector<std::vector<Box>> pieces;       // of each given slice

  void build_index() {
    if (!index) index.emplace(boxes);
  }
  std::optional<std::size_t> exactly(const Box& box) const {
    const auto at = std::lower_bound(boxes.begin(), boxes.end(), box);
    if (at == boxes.end() || *at != box) return std::nullopt;
    return static_cast<std::size_t>(at - boxes.begin());
  }
};

std::string spec_text(const Dims& shape, const Box& box) {
  return lies_inside(box, shape) ? cat('"', slice_spec_text(shape, box), '"') : any_box_text(box);
}

// The complete check, which makes the errors: first of each tensor that was returned, then of each
// that was given.
class Validation {
 public:
  Validation(const std::vector<ShardableTensor>& given, const std::string& description)
      : description_(description) {
    for (const auto& tensor : given) known_[tensor.key].given.push_back(&tensor);
    for (auto& [key, known] : known_) prepare(known);
  }

  void run(const std::vector<Shard>& shards) {
    for (std::size_t number = 0; number < shards.size(); ++number) {
      const ShardableTensor* first = nullptr;
      for (const auto& [key, slices] : shards[number]) {
        for (const auto& [box, tensor] : slices) {
          check(number, key, box, tensor);
          if (!first) first = &tensor;
          if (!tensor.task.same_task(first->task)) {
            fail(tensor, "tensors of different tasks are in one shard",
                 cat("shard ", number, " begins with '", first->key, "' of ",
                     to_string(first->task), "; this one is of ", to_string(tensor.task)));
          }
        }
      }
    }
    for (const auto& [key, known] : known_) compare(known);
  }

 private:
  [[noreturn]] void fail(const ShardableTensor& tensor, const std::string& what,
                         const std::string& values) const {
    throw Error(Code::sharding,
                cat("After executing the checkpoint sharding callback '", description_, "', ", what,
                    ": key '", tensor.key, "', slice ", spec_text(tensor.shape, tensor.slice)),
                values,
                "A callback may group, order and cut the tensors that it is given, and must return "
                "each of their elements once.")
        .of_tensor(tensor.key);
  }

  // Checks what was given for one key, and sorts it: the rest relies on disjoint slices.
  void prepare(Known& known) const {
    std::stable_sort(known.given.begin(), known.given.end(),
                     [](const auto* a, const auto* b) { return a->slice < b->slice; });
    const auto& first = *known.given.front();
    for (const auto* tensor : known.given) {
      if (tensor->shape != first.shape) {
        fail(*tensor, "a tensor turns out to have been given with two shapes",
             cat(shape_text(first.shape), " and ", shape_text(tensor->shape)));
      }
      if (!lies_inside(tensor->slice, tensor->shape)) {
        fail(*tensor, "a slice turns out to have been given outside of its tensor",
             cat("the shape is ", shape_text(tensor->shape)));
      }
      if (!known.boxes.empty() && known.boxes.back() == tensor->slice) {
        fail(*tensor, "a slice turns out to have been given twice",
             cat("owners: ", owner_text(*known.given[known.boxes.size() - 1]), "; and ",
                 owner_text(*tensor)));
      }
      known.boxes.push_back(tensor->slice);
    }
    if (const auto pair = find_overlap(known.boxes)) {
      fail(*known.given[pair->second], "slices turn out to have been given that overlap",
           cat("the other one is ", spec_text(first.shape, known.boxes[pair->first])));
    }
    known.pieces.resize(known.given.size());
  }

  // Checks one returned tensor, and notes it with the given slice that it is, or was cut from.
  void check(std::size_t number, const std::string& key, const Box& box,
             const ShardableTensor& tensor) {
    if (tensor.key != key) {
      fail(tensor, "a tensor is filed under another key than its own",
           cat("shard ", number, " has it under '", key, "'; its own key is '", tensor.key, "'"));
    }
    if (tensor.slice != box) {
      fail(tensor, "a tensor is filed under another slice than its own",
           cat("shard ", number, " has it under ", spec_text(tensor.shape, box),
               "; its own slice is ", spec_text(tensor.shape, tensor.slice)));
    }
    const auto at = known_.find(key);
    if (at == known_.end()) {
      fail(
          tensor, "a tensor was found that is not among those given",
          cat("shard ", number, " has this key; none of the ", known_.size(), " keys given is it"));
    }
    auto& known = at->second;
    const auto [seen, is_new] = known.seen.emplace(box, number);
    if (!is_new) {
      fail(tensor, "a key and slice was found twice",
           cat("first in shard ", seen->second, ", again in shard ", number));
    }
    const auto& shape = known.given.front()->shape;
    if (tensor.shape != shape) {
      fail(tensor, "a tensor was found with an altered shape",
           cat("given: ", shape_text(shape), "; returned: ", shape_text(tensor.shape)));
    }
    const auto number_given = parent(known, tensor);
    const auto& given = *known.given[number_given];
    if (tensor.dtype != given.dtype) {
      fail(tensor, "a tensor was found with an altered dtype",
           cat("given: ", dtype_name(given.dtype), "; returned: ", dtype_name(tensor.dtype)));
    }
    if (given.dtype == DType::string && tensor.slice != given.slice) {
      fail(tensor, "a string tensor was found cut",
           cat("given: ", spec_text(shape, given.slice),
               "; returned: ", spec_text(shape, tensor.slice), "; strings are stored whole"));
    }
    if (!tensor.task.same_task(given.task)) {
      fail(tensor, "a tensor was found with an altered task",
           cat("given: ", to_string(given.task), "; returned: ", to_string(tensor.task)));
    }
    if (tensor.owner != given.owner || tensor.owner_slice != given.owner_slice) {
      fail(tensor, "a tensor was found with an altered owner",
           cat("given: ", owner_text(given), "; returned: ", owner_text(tensor)));
    }
    known.pieces[number_given].push_back(tensor.slice);
  }

  /// The one given slice that this piece is, or was cut from.
  std::size_t parent(Known& known, const ShardableTensor& piece) const {
    if (const auto same = known.exactly(piece.slice)) return *same;
    const auto& shape = piece.shape;
    if (!lies_inside(piece.slice, shape)) {
      fail(piece, "a slice was found that reaches out of its tensor",
           cat("the shape is ", shape_text(shape), "; returned: ", any_box_text(piece.slice)));
    }
    if (piece.slice.empty()) {
      fail(piece, "a slice without elements was found that is not among those given",
           cat("given: ", given_text(known), "; returned: ", spec_text(shape, piece.slice)));
    }
    known.build_index();
    // The given slices are disjoint, so a piece is inside one of them if it touches no other and
    // that one contains it.
    const auto touched = known.index->query(piece.slice);
    if (touched.size() == 1 && known.boxes[touched[0]].contains(piece.slice)) return touched[0];
    std::vector<Box> boxes;
    for (const auto i : touched) boxes.push_back(known.boxes[i]);
    if (const auto outside = find_gap(piece.slice, boxes)) {
      fail(piece, "a slice was found that leaves the slices given",
           cat("given: ", given_text(known), "; returned also: ", box_text(*outside)));
    }
    fail(piece, "a slice was found that joins slices given apart",
         cat("given: ", spec_text(shape, boxes[0]), " and ", spec_text(shape, boxes[1]),
             "; returned: ", spec_text(shape, piece.slice)));
  }

  static std::string owner_text(const ShardableTensor& tensor) {
    if (!tensor.owner) return "none, as of what a save adds of its own";
    return cat("tensor ", *tensor.owner, ", slice ", tensor.owner_slice, " of the state");
  }

  static std::string given_text(const Known& known) {
    const auto more = known.given.size() - 1;
    return cat(spec_text(known.given[0]->shape, known.boxes[0]),
               more ? cat(" and ", more, " more") : "");
  }

  // Pieces lie inside their given slices, so it is enough that no two overlap and that none of the
  // given slices has a gap.
  void compare(const Known& known) const {
    std::vector<Box> pieces;
    for (const auto& [box, shard] : known.seen) pieces.push_back(box);
    if (const auto pair = find_overlap(pieces)) {
      const auto &a = pieces[pair->first], &b = pieces[pair->second];
      // A copy with the wrong piece's slice, to name it in the error.
      auto tensor = *known.given.front();
      tensor.slice = b;
      fail(tensor, "elements were found twice",
           cat(box_text(*intersect(a, b)), " are in slice ", spec_text(tensor.shape, a),
               " of shard ", known.seen.at(a), " and in slice ", spec_text(tensor.shape, b),
               " of shard ", known.seen.at(b)));
    }
    for (std::size_t i = 0; i < known.given.size(); ++i) {
      const auto& given = *known.given[i];
      if (known.pieces[i].empty()) {
        fail(given, "a tensor given is missing from the shards",
             cat("given: ", any_box_text(given.slice), "; returned: nothing"));
      }
      if (const auto gap = find_gap(given.slice, known.pieces[i])) {
        fail(given, "part of a slice given is missing from the shards",
             cat("given: ", box_text(given.slice), "; not returned: ", box_text(*gap)));
      }
    }
  }

  const std::string& description_;
  std::map<std::string, Known> known_;
};

using Tensors = std::vector<const ShardableTensor*>;

void sort_by_key(Tensors& tensors) {
  const auto by_key = [](const auto* a, const auto* b) { return a->key < b->key; };
  if (std::is_sorted(tensors.begin(), tensors.end(), by_key)) return;
  std::sort(tensors.begin(), tensors.end(), by_key);
}

// All tensors of the shards; nothing if one is filed under another key or slice than its own.
std::optional<Tensors> tensors_of(const std::vector<Shard>& shards, std::size_t about) {
  Tensors found;
  found.reserve(about);
  for (const auto& shard : shards) {
    for (const auto& [key, slices] : shard) {
      for (const auto& [box, tensor] : slices) {
        if (tensor.key != key || tensor.slice != box) return std::nullopt;
        found.push_back(&tensor);
      }
    }
  }
  return found;
}

// Whether a tensor came back unchanged. Its name and bytes are for the policy only, and are not
// compared.
bool is_same(const ShardableTensor& a, const ShardableTensor& b) {
  return a.key == b.key && a.slice == b.slice && a.shape == b.shape && a.dtype == b.dtype &&
         a.task.same_task(b.task) && a.owner == b.owner && a.owner_slice == b.owner_slice;
}

// Finds the usual case quickly: each tensor has one slice, and all come back as they were given,
// grouped and ordered in whatever way. False says nothing.
bool are_as_given(const std::vector<Shard>& shards, const std::vector<ShardableTensor>& given) {
  Tensors expected;
  expected.reserve(given.size());
  for (const auto& tensor : given) {
    if (!tensor.task.same_task(given.front().task) || !lies_inside(tensor.slice, tensor.shape)) {
      return false;
    }
    expected.push_back(&tensor);
  }
  auto found = tensors_of(shards, given.size());
  if (!found || found->size() != expected.size()) return false;
  sort_by_key(expected);
  sort_by_key(*found);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (i > 0 && expected[i]->key == expected[i - 1]->key) return false;
    if (!is_same(*expected[i], *(*found)[i])) return false;
  }
  return true;
}

}  // namespace

void validate_shards(const std::vector<Shard>& shards, const std::vector<ShardableTensor>& given,
                     const std::string& callback_description) {
  if (are_as_given(shards, given)) return;
  Validation(given, callback_description).run(shards);
}

}  // namespace cairn
