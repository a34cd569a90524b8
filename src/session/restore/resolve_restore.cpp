// Finds out what a state wants of a checkpoint, under the options of a restore.
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "cairn/object_graph.hpp"
#include "cairn/ragged.hpp"
#include "exchange/by_key.hpp"
#include "group/collectives.hpp"
#include "model/follow.hpp"
#include "model/keys.hpp"
#include "model/state_maker.hpp"
#include "session/restore/indexed_wants.hpp"
#include "session/restore/left_over.hpp"
#include "session/restore/matcher.hpp"
#include "session/restore/resolve_restore.hpp"
#include "session/restore/sparse_wants.hpp"
#include "session/restore/ties.hpp"

namespace cairn {
namespace {

const char* word(Conversion how) {
  return how == Conversion::refuse ? "refuse" : how == Conversion::exact ? "exact" : "round";
}

std::vector<Setting> settings_of(const RestoreOptions& options) {
  std::vector<Setting> all{
      {"convert", word(options.convert)},
      {"verify_first", options.verify_first ? "true" : "false"},
      {"all_may_be_missing", options.all_may_be_missing ? "true" : "false"},
      {"unused", words(options.unused)[static_cast<std::size_t>(options.unused)]}};
  std::string versions = options.accept.predicate ? "a function" : "";
  for (const auto& one : options.accept.versions) versions += cat("'", one, "' ");
  all.push_back({"accept", versions});
  const auto of = [](const char* option, const std::string& key) {
    return cat(option, "['", key, "']");
  };
  for (const auto& [key, how] : options.convert_keys) {
    all.push_back({of("convert_keys", key), word(how)});
  }
  for (const auto& [key, stored] : options.rename) {
    all.push_back({of("rename", key), cat("'", stored, "'")});
  }
  for (const auto& [key, offset] : options.offset) {
    all.push_back({of("offset", key), shape_text(offset)});
  }
  for (const auto& key : options.may_be_missing) {
    all.push_back({of("may_be_missing", key), "named"});
  }
  return all;
}

// A `*` at the end of the key stands for any end, in the options that allow it.
bool has(const RefreshedState& state, std::string_view key) {
  if (state.find(key)) return true;
  if (!key.ends_with('*')) return false;
  key.remove_suffix(1);
  const auto tensors = state.tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const auto& one) { return one.first.starts_with(key); });
}

// Collective. Throws if no rank has a key in its state that the options name.
void require_known(Group& group, const TensorFinder& finder, const RefreshedState& state,
                   const RestoreOptions& options) {
  std::vector<std::pair<const char*, std::string_view>> named;
  for (const auto& [key, stored] : options.rename) named.emplace_back("rename", key);
  for (const auto& [key, offset] : options.offset) named.emplace_back("offset", key);
  for (const auto& [key, how] : options.convert_keys) named.emplace_back("convert_keys", key);
  for (const auto& key : options.may_be_missing) named.emplace_back("may_be_missing", key);
  if (named.empty()) return;
  std::vector<std::int64_t> known;
  for (const auto& [option, key] : named) known.push_back(has(state, key));
  // A rename that was written the wrong way round is recognised by this: its second name is in the
  // state, and its first one in the checkpoint. The first of `named` are the keys to rename.
  for (const auto& [key, name] : options.rename) {
    known.push_back(state.find(name) != nullptr && finder.find(key) != nullptr);
  }
  group.all_reduce(known, Group::Op::max);
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (known[i] != 0) continue;
    const bool is_turned = i < options.rename.size() && known[named.size() + i] != 0;
    throw Error(Code::invalid_argument,
                cat("RestoreOptions::", named[i].first, " names '", named[i].second,
                    "', which is in no rank's state"),
                "a misspelt key would go unnoticed",
                is_turned ? cat("Turn it round: the state's '",
                                std::next(options.rename.begin(), std::ptrdiff_t(i))->second,
                                "' comes first, then what the checkpoint calls it.")
                          : "Name keys of the state.")
        .of_tensor(std::string(named[i].second));
  }
}

// The rows of a ragged tensor that this rank gets. Where they begin depends on the other ranks.
struct RaggedWant {
  std::size_t index;  // in WantedState::tensors
  std::string key;
  const LocalTensor* given;
  std::int64_t rows;  // -1 for an even share
};
// For a ragged tensor without a distribution.
constexpr std::int64_t even_share = -1;

RaggedWant want_rows(Group& group, const std::string& key, const LocalTensor& given,
                     const Dims& shape, std::size_t index) {
  RaggedWant want{index, key, &given, even_share};
  const auto& distribution = given.unresolved->distribution;
  if (!distribution) return want;
  want.rows = distribution(shape[0], group.rank(), group.size());
  if (want.rows >= 0) return want;
  throw Error(Code::invalid_argument, cat("the distribution of ragged tensor '", key,
                                          "' gives rank ", group.rank(), " ", want.rows, " rows"))
      .of_tensor(key);
}

struct WantedRows {
  std::int64_t total = 0, rows = 0;
};
struct DealtRows {
  std::int64_t start = 0, rows = 0;
};

// What all ranks want of one ragged tensor, in the order of the ranks. Answers each rank where its
// rows begin and how many they are.
std::vector<std::string> deal(const std::string& key,
                              const std::vector<std::pair<int, std::string>>& said) {
  std::int64_t total = 0, dealt = 0;
  bool even = false, own = false;
  std::vector<std::int64_t> wanted;
  for (const auto& [rank, text] : said) {
    const auto said_rows = unpack<WantedRows>(text);
    total = said_rows.total;
    const auto rows = wanted.emplace_back(said_rows.rows);
    dealt += rows;
    // Ranks that do not have the tensor say nothing, and get no rows.
    (rows == even_share ? even : own) = true;
  }
  if (even && own) {
    throw Error(Code::disagreement,
                cat("some ranks give ragged tensor '", key, "' a distribution and others none"), "",
                "Give it on all ranks.")
        .of_tensor(key);
  }
  if (own && dealt != total) {
    throw Error(
        Code::invalid_argument,
        cat("the distribution of ragged tensor '", key, "' deals ", dealt, " rows of ", total),
        "each row goes to one rank", "Make the ranks' numbers add up to the total.")
        .of_tensor(key);
  }
  const auto ranks = static_cast<std::int64_t>(wanted.size());
  std::vector<std::string> answers;
  std::int64_t start = 0;
  for (std::int64_t i = 0; i < ranks; ++i) {
    auto rows = wanted[static_cast<std::size_t>(i)];
    if (even) rows = total / ranks + (i < total % ranks);
    answers.push_back(pack(DealtRows{start, rows}));
    start += rows;
  }
  return answers;
}

// Collective. Sets where this rank's rows lie. `all` is the number of such tensors on all ranks.
void deal_rows(Group& group, const Matcher& matcher, WantedState& wanted,
               const std::vector<RaggedWant>& mine, std::int64_t all) {
  std::vector<KeyedText> asked;
  for (const auto& want : mine) {
    const auto total = wanted.tensors[want.index].tensor().shape[0];
    asked.push_back({want.key, pack(WantedRows{total, want.rows})});
  }
  auto heard = ask_by_key(group, key_planners_for(group, all), asked, deal);
  run_and_agree(group, [&] {
    // The error is found by the rank that the key has chosen, which is not at fault.
    if (heard.error && heard.error->rank() < 0) heard.error->on_rank(0);
    if (heard.error) throw Error(*heard.error);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (heard.texts[i].empty()) return;  // run_and_agree() throws another rank's error
      const auto [start, rows] = unpack<DealtRows>(heard.texts[i]);
      matcher.place_rows(mine[i].key, wanted.tensors[mine[i].index], *mine[i].given, start, rows);
    }
  });
}

// The number of ranks that saved parts under this key; 0 if there are none.
int ranks_of_parts(const CheckpointContents& contents, const std::string& base) {
  const auto front = base + "/rank-";
  const auto begin =
      std::lower_bound(contents.tensors.begin(), contents.tensors.end(), front,
                       [](const StoredTensor& a, const std::string& b) { return a.key < b; });
  for (auto at = begin; at != contents.tensors.end() && at->key.starts_with(front); ++at) {
    const auto number = [&](std::size_t from) {
      int value = -1;
      if (from < at->key.size()) {
        std::from_chars(at->key.data() + from, at->key.data() + at->key.size(), value);
      }
      return value;
    };
    const int rank = number(front.size());
    const auto of = at->key.find("-of-", front.size());
    const int ranks = of == std::string::npos ? -1 : number(of + 4);
    if (0 <= rank && rank < ranks && at->key.starts_with(private_key(base, rank, ranks))) {
      return ranks;
    }
  }
  return 0;
}

// The number of ranks that saved a rank-private item; 0 if it is not there.
// The number is a part of the stored keys: NAME/rank-R-of-N.
int stored_ranks(const CheckpointContents& contents, const std::string& name) {
  if (const int ranks = ranks_of_parts(contents, name)) return ranks;
  try {  // they may be stored as objects
    const auto object = object_key(private_key(name, 0, 1));
    return ranks_of_parts(contents, object.substr(0, object.rfind(private_key("", 0, 1))));
  } catch (const Error&) {
    return 0;  // the name is not the path of an object
  }
}

// The rank whose item this rank gets, of `ranks` that saved one. Nothing if it gets none.
// On as many ranks as saved, each rank gets its own item; otherwise the application must deal them.
std::optional<int> dealt_rank(const Group& group, const std::string& key,
                              const PrivateOptions& options, int ranks) {
  if (ranks == 0 || ranks == group.size()) return group.rank();
  if (!options.deal && !options.optional) {
    throw Error(Code::invalid_argument,
                cat("rank-private '", key, "' was saved by ", ranks, " ranks and is wanted by ",
                    group.size()),
                "whose goes to which rank is not known",
                cat("Restore on ", ranks,
                    " ranks, give cairn::rank_private a deal, make it optional, or "
                    "leave it out of the state."))
        .of_tensor(key);
  }
  if (!options.deal) return std::nullopt;
  const int rank = options.deal(group.rank(), group.size(), ranks);
  if (rank == -1) return std::nullopt;
  if (rank >= 0 && rank < ranks) return rank;
  throw Error(Code::invalid_argument,
              cat("the deal of rank-private '", key, "' gives rank ", group.rank(),
                  " the item of rank ", rank),
              cat("it was saved by ranks 0..", ranks - 1))
      .of_tensor(key);
}

// The rank-private item that this rank gets. Null if it gets none and is allowed to.
const StoredTensor* find_private(const Group& group, const Matcher& matcher, const std::string& key,
                                 const PrivateOptions& options) {
  const auto& name = matcher.stored_name(key);
  const auto& contents = matcher.contents();
  const int ranks = stored_ranks(contents, name);
  const auto rank = dealt_rank(group, key, options, ranks);
  if (!rank) return nullptr;
  const auto* stored = ranks == 0 ? nullptr : matcher.look_up(private_key(name, *rank, ranks));
  if (!stored && (options.optional || matcher.may_be_missing(key))) return nullptr;
  if (!stored) {
    throw Error(Code::not_found,
                ranks == 0 ? cat("rank-private '", name, "' is not in ", name_of(contents))
                           : cat("rank-private '", name, "' of rank ", *rank, " is not in ",
                                 name_of(contents)),
                "the state wants it",
                "Leave it out of the state, make it optional, or allow it in "
                "RestoreOptions::may_be_missing.")
        .of_tensor(name);
  }
  matcher.require_sound(*stored);
  return stored;
}

// Where the ids are stored. Null if they are not stored under a key of their own.
const StoredTensor* find_ids(const Matcher& matcher, const Unresolved& indexed) {
  const auto* ids = indexed.ids.get();
  if (!ids || ids->options.ids_key.empty()) return nullptr;
  return matcher.look_up(matcher.stored_name(ids->options.ids_key));
}

// Collects what this rank wants, tensor by tensor. Not collective.
// Its errors are local; resolve() lets ranks agree on them when all of the state has been looked
// at.
class StateWants {
 public:
  StateWants(Group& group, const Matcher& matcher, std::size_t tensors)
      : group_(group), matcher_(matcher), ties_(std::in_place, matcher.contents()) {
    state.tensors.reserve(tensors);
    ties_->expect(tensors);
  }

  // A missing key is only noted, so that the error can name all of them.
  void add(const std::string& key, const LocalTensor& tensor, const std::string& object) {
    const auto* what = tensor.unresolved.get();
    const bool is_private = what && what->kind == Unresolved::Kind::rank_private;
    const bool is_indexed = what && what->kind == Unresolved::Kind::indexed;
    any_indexed |= is_indexed;
    const auto* stored = is_private ? find_private(group_, matcher_, key, what->options)
                                    : matcher_.find(key, object);
    if (!stored) {
      (is_private || matcher_.may_be_missing(key) ? state.kept : missing_).push_back(key);
    } else if (is_indexed) {
      add_indexed(key, tensor, *stored);
    } else {
      add_tensor(key, tensor, *stored, is_private);
    }
  }

  // Call it when all tensors of the state have been added.
  void finish(const RefreshedState& given) {
    if (!missing_.empty()) matcher_.refuse_missing(missing_);
    const auto& maker = given.maker();
    if (maker) state.kept.insert(state.kept.end(), maker->kept.begin(), maker->kept.end());
    state.ties = ties_->ties();
    ties_.reset();
  }

  // The stored keys that are wanted.
  std::set<std::string_view> taken() const {
    auto all = of_rows_;
    for (const auto& one : state.tensors) {
      all.insert(matcher_.contents().tensors[static_cast<std::size_t>(one.stored)].key);
    }
    return all;
  }

  WantedState state;
  std::vector<RaggedWant> ragged;
  IndexedWants::Matched indexed;
  bool any_indexed = false;

 private:
  void add_indexed(const std::string& key, const LocalTensor& tensor, const StoredTensor& stored) {
    if (stored.gaps) refuse_gaps(key, stored, stored.gaps->boxes.front());
    of_rows_.insert(stored.key);
    if (const auto* ids = find_ids(matcher_, *tensor.unresolved)) of_rows_.insert(ids->key);
    const auto& rows = indexed.emplace(key, matcher_.match_rows(key, stored, tensor));
    ties_->add_rows(key, tensor, rows.first->second.stored);
  }

  void add_tensor(const std::string& key, const LocalTensor& tensor, const StoredTensor& stored,
                  bool is_private) {
    const bool has_rows = tensor.unresolved && tensor.unresolved->rows;
    state.tensors.push_back(has_rows ? matcher_.match_rows(key, stored, tensor)
                                     : matcher_.match(key, stored, tensor));
    auto& last = state.tensors.back();
    const auto fills = state.fills.size();
    if (stored.gaps) leave_gaps_out(key, stored, tensor, state);
    for (auto i = fills; i < state.fills.size(); ++i) {
      ties_->add(key, tensor, state.fills[i], last.stored);
    }
    if (has_rows && is_private) matcher_.place_rows(key, last, tensor, 0, stored.shape[0]);
    if (!has_rows || is_private) {
      ties_->add(key, tensor, last);
    } else {
      ties_->add_rows(key, tensor, last.stored);
      ragged.push_back(want_rows(group_, key, tensor, stored.shape, state.tensors.size() - 1));
    }
  }

  Group& group_;
  const Matcher& matcher_;
  std::optional<TieFinder> ties_;  // reset once the ties are found
  std::vector<std::string> missing_;
  std::set<std::string_view> of_rows_;  // stored keys of rows by id
};

Rows* rows_to_tell(const LocalTensor& tensor) {
  return tensor.resizes      ? tensor.resizes.get()
         : tensor.unresolved ? tensor.unresolved->rows.get()
                             : nullptr;
}

}  // namespace

bool has_rows(const RefreshedState& state) {
  for (const auto& [key, tensor] : state.tensors()) {
    if (rows_to_tell(tensor)) return true;
  }
  return false;
}

void tell_filled(const RefreshedState& state, const WantedState& wanted) {
  const std::set<std::string_view> kept(wanted.kept.begin(), wanted.kept.end());
  for (const auto& [key, tensor] : state.tensors()) {
    auto* rows = rows_to_tell(tensor);
    if (!rows || kept.count(key) != 0) continue;
    try {
      rows->filled();
    } catch (const Error& error) {
      throw named(error, key);
    }
  }
}

void require_same_options(Group& group, const RestoreOptions& options) {
  require_same(group, "RestoreOptions", settings_of(options));
}

// First each rank looks at its own state; then the ranks deal rows and exchange ids, if any rank
// has such tensors.
WantedState resolve(Group& group, const CheckpointContents& contents, const TensorFinder& finder,
                    const RefreshedState& state, const RestoreOptions& options, RowPlans* plans) {
  require_same_options(group, options);
  require_known(group, finder, state, options);
  const Matcher matcher(contents, finder, options, state);
  auto mine = run_and_agree(group, [&] {
    if (state.error()) throw Error(*state.error());
    StateWants wants(group, matcher, state.tensors().size());
    const auto& names = state.objects().names;
    for (const auto& [key, tensor] : state.tensors()) {
      const auto name = names.find(key);
      wants.add(key, tensor, name == names.end() ? "" : name->second);
    }
    wants.finish(state);
    return wants;
  });
  auto& wanted = mine.state;
  // All ranks take part in what any rank needs, since these steps send messages.
  std::array<std::int64_t, 4> counts{std::ssize(mine.ragged), mine.any_indexed,
                                     std::ssize(wanted.ties), state.maker() != nullptr};
  group.all_reduce(counts, Group::Op::sum);
  wanted.any_ties = counts[2] > 0;
  // A redistribution has only the keys that were asked for, so none can be left over.
  if (counts[3] > 0 && !contents.prefix.empty() && options.unused == Unused::automatic) {
    refuse_left_over(group, contents, finder, state.maker().get(),
                     run_and_agree(group, [&] { return mine.taken(); }));
  }
  if (counts[0] > 0) deal_rows(group, matcher, wanted, mine.ragged, counts[0]);
  if (counts[1] > 0) {
    wanted.indexed = std::make_shared<IndexedWants>(group, matcher, state, std::move(mine.indexed),
                                                    plans, wanted);
  }
  return std::move(wanted);
}

}  // namespace cairn
