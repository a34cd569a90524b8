#include "exchange/id_sets.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "exchange/messages.hpp"
#include "group/collectives.hpp"
#include "model/element_types.hpp"
#include "model/follow.hpp"

namespace cairn {
namespace {

// What a rank says of one tensor.
struct Said {
  std::string set;  // the least key of the tensors that share its ids
  DType dtype{};
  Dims row_shape;
  Storage storage{};
  IdOptions options;
  int rank = 0;  // the rank that says so
  // Storage and rank are left out: storage may be given on some ranks only.
  bool operator==(const Said& other) const {
    return set == other.set && dtype == other.dtype && row_shape == other.row_shape &&
           options.first == other.options.first && options.rows == other.options.rows &&
           options.ids_key == other.options.ids_key;
  }
};
using AllSaid = std::map<std::string, Said>;

std::string text_of(const IdOptions& options) {
  return cat("first = ", options.first, ", rows = ", options.rows, ", ids_key = '", options.ids_key,
             "'");
}

[[noreturn]] void disagree(const std::string& key, const std::string& how, const Said& a,
                           const std::string& what_a, const Said& b, const std::string& what_b,
                           const char* reason) {
  throw Error(Code::disagreement,
              cat("indexed tensor '", key, "' ", how, " ", what_a, " on rank ", a.rank, " and ",
                  what_b, " on rank ", b.rank),
              reason)
      .of_tensor(key);
}

// Adds to `a` what a higher rank says of the same tensor. Throws if the two contradict each other.
void join(const std::string& key, Said& a, const Said& b) {
  const auto rows = [](const Said& one) {
    return cat(dtype_name(one.dtype), " ", shape_text(one.row_shape));
  };
  const auto ids = [&](const Said& one) {
    return one.set == key ? std::string("ids of its own") : cat("the ids of '", one.set, "'");
  };
  if (a.dtype != b.dtype || a.row_shape != b.row_shape) {
    disagree(key, "has rows of", a, rows(a), b, rows(b), "rows are alike on all ranks");
  }
  if (a.set != b.set) {
    disagree(key, "has", a, ids(a), b, ids(b),
             "a rank gives all tensors that share ids, or none of them");
  }
  if (!(a == b)) {
    disagree(key, "has IdOptions", a, text_of(a.options), b, text_of(b.options),
             "they are the same on all ranks");
  }
  if (a.storage == Storage::automatic) a.storage = b.storage;
  if (b.storage != Storage::automatic && b.storage != a.storage) {
    throw Error(Code::disagreement, cat("indexed tensor '", key, "' is to be stored in two ways"),
                cat("ranks ", a.rank, " and ", b.rank, " differ"))
        .of_tensor(key);
  }
}

// Whether the tensor's rows have ids.
bool is_indexed(const LocalTensor& tensor) {
  return tensor.unresolved && tensor.unresolved->kind == Unresolved::Kind::indexed;
}

// Tensors that share ids point to the same RowIds. A set is named by its least key, since pointers
// mean nothing to other ranks.
AllSaid said_here(const RefreshedState& state, int rank) {
  std::map<const RowIds*, std::string> least;
  for (const auto& [key, tensor] : state.tensors()) {
    if (!is_indexed(tensor)) continue;
    const auto [set, fresh] = least.emplace(tensor.unresolved->ids.get(), key);
    if (!fresh) set->second = std::min(set->second, key);
  }
  AllSaid all;
  for (const auto& [key, tensor] : state.tensors()) {
    if (!is_indexed(tensor)) continue;
    const auto& ids = *tensor.unresolved->ids;
    all[key] = {least.at(&ids), tensor.dtype, {tensor.shape.begin() + 1, tensor.shape.end()},
                tensor.storage, ids.options,  rank};
  }
  return all;
}

// Converts ids of any integer dtype to 64 bits.
template <class T>
void widen(const LocalTensor& list, const std::string& name, int rank,
           std::vector<std::int64_t>& ids) {
  // Read in pieces, so that the copy in the list's own dtype stays small.
  constexpr std::int64_t piece = std::int64_t{1} << 16;
  const auto count = list.shape[0];
  std::vector<T> some(static_cast<std::size_t>(std::min(piece, count)));
  ids.reserve(static_cast<std::size_t>(count));
  for (std::int64_t at = 0; at < count; at += piece) {
    const auto now = std::min(piece, count - at);
    list.slices[0].memory->read({{at}, {now}}, reinterpret_cast<std::byte*>(some.data()));
    for (std::int64_t i = 0; i < now; ++i) {
      const auto id = some[static_cast<std::size_t>(i)];
      if constexpr (std::is_same_v<T, std::uint64_t>) {
        if (id >> 63) {
          throw Error(Code::invalid_argument,
                      cat("ids of '", name, "': ", id, " on rank ", rank, " is 2^63 or more"),
                      "ids are int64")
              .of_tensor(name);
        }
      }
      ids.push_back(static_cast<std::int64_t>(id));
    }
  }
}

// Reads this rank's ids, without a copy if they are one run of int64.
void read_ids(const RowIds& given, int rank, IdSet& set) {
  try {
    set.list = looked_at(given.list);
  } catch (const Error& error) {
    throw named(error, set.name());
  }
  const auto& list = set.list;
  if (list.shape.size() != 1 || list.dtype != given.list.dtype) {
    throw Error(Code::invalid_argument, cat("ids of '", set.name(), "' are no list any more"),
                cat("they are ", dtype_name(list.dtype), " ", shape_text(list.shape), " now"))
        .of_tensor(set.name());
  }
  if (list.shape[0] > 0) {
    const auto* run = std::as_const(*list.slices.at(0).memory).contiguous();
    if (run && list.dtype == DType::int64) {
      set.ids = {reinterpret_cast<const std::int64_t*>(run),
                 static_cast<std::size_t>(list.shape[0])};
    } else {
      with_integer(list.dtype, [&](auto type) {
        widen<decltype(type)>(list, set.name(), rank, set.converted);
      });
      set.ids = set.converted;
    }
  }
  const auto negative =
      std::find_if(set.ids.begin(), set.ids.end(), [](std::int64_t id) { return id < 0; });
  if (negative == set.ids.end()) return;
  throw Error(Code::invalid_argument,
              cat("ids of '", set.name(), "': ", *negative, " on rank ", rank, " is negative"),
              "ids are numbers from 0 on")
      .of_tensor(set.name());
}

void require_rows(const IdSet& set, int rank, bool sizes) {
  for (const auto& field : set.fields) {
    if (!field.given) continue;
    const auto* rows = field.given->unresolved->rows.get();
    // A restore resizes this tensor, so its present size does not matter.
    if (rows && !sizes) continue;
    std::int64_t count = 0;
    try {
      count = rows ? rows->count() : field.given->shape[0];
    } catch (const Error& error) {
      throw named(error, field.key);
    }
    if (count == static_cast<std::int64_t>(set.ids.size())) continue;
    throw Error(Code::invalid_argument,
                cat("'", field.key, "' has ", count, " rows on rank ", rank, ", and its ids are ",
                    set.ids.size()),
                "each row has an id")
        .of_tensor(field.key);
  }
}

}  // namespace

std::int64_t IdSet::Field::row_bytes() const {
  return element_count(row_shape) * static_cast<std::int64_t>(dtype_size(dtype));
}

void RowPlans::keep(const IdSet& set, std::shared_ptr<const RowPlan> plan) {
  known_[set.name()] = {set.print, set.options, std::move(plan)};
}

std::shared_ptr<const RowPlan> RowPlans::find(const IdSet& set) const {
  const auto known = known_.find(set.name());
  if (known == known_.end()) return nullptr;
  const auto& [print, options, plan] = known->second;
  const bool same = print == set.print && options.first == set.options.first &&
                    options.rows == set.options.rows && options.ids_key == set.options.ids_key;
  return same ? plan : nullptr;
}

void RowPlans::keep_only(const std::vector<IdSet>& sets) {
  std::erase_if(known_, [&](const auto& one) {
    return std::none_of(sets.begin(), sets.end(),
                        [&](const IdSet& set) { return set.name() == one.first; });
  });
}

std::vector<IdSet> gather_id_sets(Group& group, const RefreshedState& state, bool sizes,
                                  RowPlans* plans) {
  const int rank = group.rank();
  auto message = run_and_agree(group, [&] { return pack(said_here(state, rank)); });
  message = reduce_to_root(group, std::move(message),
                           [](const std::string& low, const std::string& high) {
                             auto all = unpack<AllSaid>(low);
                             for (const auto& [key, one] : unpack<AllSaid>(high)) {
                               const auto [there, fresh] = all.emplace(key, one);
                               if (!fresh) join(key, there->second, one);
                             }
                             return pack(all);
                           });
  group.broadcast(message, 0);
  auto sets = run_and_agree(group, [&] {
    std::map<std::string, IdSet> by_name;
    // The message is in the order of keys, so the fields of a set ascend and its first one is its
    // name.
    for (const auto& [key, said] : unpack<AllSaid>(message)) {
      auto& set = by_name[said.set];
      set.options = said.options;
      const auto* given = state.find(key);
      if (given && !is_indexed(*given)) {
        throw Error(
            Code::disagreement,
            cat("tensor '", key, "' has rows by id on rank ", said.rank, ", and not on rank ",
                rank),
            "a tensor is of one kind on all ranks",
            "Give it with cairn::indexed() on each rank, with no rows where there are none.")
            .of_tensor(key);
      }
      set.fields.push_back({key, said.dtype, said.row_shape, said.storage, given});
    }
    std::vector<IdSet> all;
    for (auto& [name, set] : by_name) {
      const auto without = std::find_if(set.fields.begin(), set.fields.end(),
                                        [](const auto& field) { return !field.given; });
      const auto with = std::find_if(set.fields.begin(), set.fields.end(),
                                     [](const auto& field) { return field.given; });
      if (with != set.fields.end() && without != set.fields.end()) {
        throw Error(Code::disagreement,
                    cat("rank ", rank, " has '", with->key, "' and not '", without->key,
                        "', which has the same ids on other ranks"),
                    "a rank gives all tensors that share ids, or none of them")
            .of_tensor(without->key);
      }
      if (with != set.fields.end()) read_ids(*with->given->unresolved->ids, rank, set);
      require_rows(set, rank, sizes);
      set.print = plan::print_of(set.ids);
      all.push_back(std::move(set));
    }
    return all;
  });
  // A plan is used only if it fits on all ranks: where one rank's ids have changed, all must plan
  // anew, as planning is collective.
  std::vector<std::int64_t> misses;
  for (auto& set : sets) {
    if (plans) set.kept = plans->find(set);
    misses.push_back(set.kept == nullptr);
  }
  group.all_reduce(misses, Group::Op::max);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (misses[i] != 0) sets[i].kept = nullptr;
  }
  return sets;
}

std::size_t batch_of(const std::vector<IdSet::Field>& fields, std::size_t first) {
  constexpr std::int64_t short_row_bytes = 64;
  auto bytes = fields[first].row_bytes();
  auto end = first + 1;
  while (end < fields.size() && bytes + fields[end].row_bytes() <= short_row_bytes) {
    bytes += fields[end++].row_bytes();
  }
  return end - first;
}

}  // namespace cairn
