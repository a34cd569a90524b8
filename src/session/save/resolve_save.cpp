// Turns ragged, rank-private, sparse and indexed tensors of a save into plain ones.
#include <array>
#include <map>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "cairn/ragged.hpp"
#include "exchange/by_key.hpp"
#include "exchange/messages.hpp"
#include "group/collectives.hpp"
#include "model/follow.hpp"
#include "model/keys.hpp"
#include "session/save/resolve_indexed.hpp"
#include "session/save/resolve_save.hpp"
#include "session/save/resolve_sparse.hpp"

namespace cairn {
namespace {

// One rank's message on a ragged tensor, whose rows are spread over all ranks.
struct SaidRows {
  DType dtype{};
  Dims shape;  // [0]: this rank's rows
};
struct CountedRows {
  Dims shape;              // of the whole tensor
  std::int64_t start = 0;  // where this rank's rows begin
};

std::int64_t rows_of(const std::string& key, const Rows& rows) {
  try {
    const auto count = rows.count();
    if (count >= 0) return count;
    throw Error(Code::invalid_argument, cat("'", key, "' has ", count, " rows"),
                "Rows::count() says so", "There may be none.");
  } catch (const Error& error) {
    throw named(error, key);
  }
}

// From what ranks say of their rows, computes for each rank where its rows begin, and the shape of
// the whole tensor.
std::vector<std::string> count_rows(const std::string& key,
                                    const std::vector<std::pair<int, std::string>>& said) {
  DType dtype{};
  Dims whole;  // [0]: the rows so far
  std::vector<std::int64_t> starts;
  for (const auto& [rank, text] : said) {
    auto [its_dtype, shape] = unpack<SaidRows>(text);
    const auto rows = shape[0];
    if (starts.empty()) {
      dtype = its_dtype;
      whole = shape;
      whole[0] = 0;
    }
    shape[0] = whole[0];
    if (its_dtype != dtype || shape != whole) {
      const auto rows_text = [](DType of, const Dims& dims) {
        return cat(dtype_name(of), " ", shape_text(Dims(dims.begin() + 1, dims.end())));
      };
      throw Error(
          Code::disagreement,
          cat("ragged tensor '", key, "' has rows of ", rows_text(dtype, whole), " on rank ",
              said.front().first, " and of ", rows_text(its_dtype, shape), " on rank ", rank),
          "only their number may differ between ranks")
          .of_tensor(key);
    }
    starts.push_back(whole[0]);
    if (!__builtin_add_overflow(whole[0], rows, &whole[0])) continue;
    throw Error(Code::invalid_argument,
                cat("ragged tensor '", key, "' has 2^63 rows or more on all ranks together"))
        .of_tensor(key);
  }
  std::vector<std::string> answers;
  for (const auto start : starts) answers.push_back(pack(CountedRows{whole, start}));
  return answers;
}

// Collective. The key of each ragged tensor chooses a rank that counts its rows. If ranks disagree
// on a tensor, the result lacks it, and `error` on the counting rank says so.
std::map<std::string, CountedRows> gather_rows(Group& group, const RefreshedState& state,
                                               std::int64_t ragged, std::optional<Error>& error) {
  std::vector<KeyedText> mine;
  run_and_agree(group, [&] {
    for (const auto& [key, tensor] : state.tensors()) {
      if (!tensor.unresolved || tensor.unresolved->kind != Unresolved::Kind::ragged) continue;
      SaidRows said{tensor.dtype, tensor.shape};
      said.shape[0] = rows_of(key, *tensor.unresolved->rows);
      mine.push_back({key, pack(said)});
    }
  });
  const auto heard = ask_by_key(group, key_planners_for(group, ragged), mine, count_rows);
  error = heard.error;
  if (error) error->on_rank(0);  // not the rank that compared them
  std::map<std::string, CountedRows> tensors;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (heard.texts[i].empty()) continue;
    tensors[mine[i].key] = unpack<CountedRows>(heard.texts[i]);
  }
  return tensors;
}

// All of these rows, as one slice that begins at row `start` of the tensor.
LocalTensor with_rows(LocalTensor tensor, const Rows& rows, Dims shape, std::int64_t start) {
  tensor.shape = std::move(shape);
  Box box = Box::whole(tensor.shape);
  box.start[0] = start;
  box.extent[0] = rows.count();
  if (!box.empty()) tensor.slices = {{std::move(box), rows.memory()}};
  return tensor;
}

// Adds fills after this rank's own slices, as a plan for a state without fills expects. `sliced`:
// no program has asked for one array, so that fills are not written.
LocalTensor with_fills(LocalTensor tensor, const std::vector<LocalSlice>& fills, bool sliced) {
  tensor.sparse = nullptr;
  tensor.slices.insert(tensor.slices.end(), fills.begin(), fills.end());
  if (sliced && tensor.storage == Storage::automatic) tensor.storage = Storage::sliced;
  return tensor;
}

// Descriptions and notes on objects, without the tensors.
State notes_of(const Group& group, const RefreshedState& state) {
  State plain;
  plain.store(state.storage());
  const auto& notes = state.objects();
  if (notes.graph) plain.carry(notes.graph);
  for (const auto& [path, target] : notes.aliases) plain.alias(path, target);
  for (const auto& [key, variable] : notes.names) {
    const auto* tensor = state.find(key);
    const bool is_private =
        tensor && tensor->unresolved && tensor->unresolved->kind == Unresolved::Kind::rank_private;
    plain.name(is_private ? private_key(key, group.rank(), group.size()) : key, variable);
  }
  return plain;
}

// Counts: whether the refresh has failed; tensors that are unresolved, ragged, indexed, sparse.
std::array<std::int64_t, 5> count_kinds(const RefreshedState& state, bool with_gaps) {
  std::array<std::int64_t, 5> counts{state.error().has_value(), 0, 0, 0, 0};
  auto& [failed, unresolved, ragged, indexed, sparse] = counts;
  for (const auto& [key, tensor] : state.tensors()) {
    sparse += with_gaps && tensor.sparse;
    if (!tensor.unresolved) continue;
    ++unresolved;
    ragged += tensor.unresolved->kind == Unresolved::Kind::ragged;
    indexed += tensor.unresolved->kind == Unresolved::Kind::indexed;
  }
  return counts;
}

}  // namespace

// Ragged rows are counted and gaps found by the ranks that keys choose; then each rank makes its
// plain state by itself; rows by id move last.
std::optional<RefreshedState> resolve(Group& group, const RefreshedState& state, RowPlans* plans,
                                      GapsByKey* gaps) {
  auto counts = count_kinds(state, gaps != nullptr);
  group.all_reduce(counts, Group::Op::sum);
  const auto& [failed, unresolved, ragged, indexed, sparse] = counts;
  // The same sum tells of a failed refresh and of all kinds, so that a plain state needs no other
  // message.
  if (failed > 0) agree(group, state.error());
  if (unresolved + sparse == 0) return std::nullopt;
  std::optional<Error> disagreement;
  std::map<std::string, CountedRows> gathered;
  if (ragged > 0) gathered = gather_rows(group, state, ragged, disagreement);
  FillsByKey fills;
  if (sparse > 0) fills = fill_gaps(group, state, sparse, *gaps);
  auto plain = run_and_agree(group, [&] {
    if (disagreement) throw Error(*disagreement);
    State plain = notes_of(group, state);
    for (const auto& [key, given] : state.tensors()) {
      // Kept, since the tensor in the result is no longer unresolved.
      const auto what = given.unresolved;
      auto tensor = given;
      tensor.unresolved = nullptr;
      if (gaps && tensor.sparse) {
        const bool sliced = state.storage() == Storage::automatic && gaps->count(key) != 0;
        tensor = with_fills(std::move(tensor), fills[key], sliced);
      }
      if (!what) {
        plain.add(key, std::move(tensor));
      } else if (what->kind == Unresolved::Kind::ragged) {
        const auto found = gathered.find(key);
        if (found == gathered.end()) continue;  // another rank has the error
        const auto& all = found->second;
        plain.add(key, with_rows(std::move(tensor), *what->rows, all.shape, all.start));
      } else if (what->kind == Unresolved::Kind::rank_private) {
        if (what->rows) {
          auto shape = tensor.shape;
          shape[0] = rows_of(key, *what->rows);
          tensor = with_rows(std::move(tensor), *what->rows, std::move(shape), 0);
        }
        plain.add(private_key(key, group.rank(), group.size()), std::move(tensor));
      }
    }
    return plain;
  });
  if (indexed > 0) add_indexed(group, state, plans, plain);
  return RefreshedState(std::move(plain));
}

}  // namespace cairn
