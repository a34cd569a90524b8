// Makes the state that a save with an object graph stores. Each rank chooses its keys by itself;
// rank 0 makes the graph of what all ranks have.
#include "session/objects.hpp"

#include <cstring>
#include <map>
#include <set>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "cairn/ragged.hpp"
#include "group/collectives.hpp"
#include "layout/bundle/stored_graph.hpp"
#include "model/graph_builder.hpp"
#include "model/graph_index.hpp"
#include "model/keys.hpp"
#include "model/object_path.hpp"
#include "model/refreshed_state.hpp"
#include "session/save/resolve_save.hpp"

namespace cairn {
namespace {

constexpr std::string_view counter_path = "save_counter";
constexpr std::size_t missing_shown = 8;

// A scalar that the state owns.
class OwnCounter : public SliceMemory {
 public:
  explicit OwnCounter(std::int64_t value) : value_(value) {}
  void read(const Box&, std::byte* out) const override { std::memcpy(out, &value_, sizeof value_); }
  void write(const Box&, const std::byte*) override {
    throw Error(Code::internal, "a save counter is not restored");
  }
  const std::byte* contiguous() const override {
    return reinterpret_cast<const std::byte*>(&value_);
  }
  bool writable() const override { return false; }

 private:
  std::int64_t value_;
};

class OwnString : public StringMemory {
 public:
  explicit OwnString(std::string value) : value_(std::move(value)) {}
  std::vector<std::string> get() const override { return {value_}; }
  void set(std::vector<std::string>) override {
    throw Error(Code::internal, "an object graph is not restored");
  }

 private:
  std::string value_;
};

// What a rank sends to rank 0.
struct SentObjects {
  struct Value {
    // The tensor's key in the state and in the checkpoint, and its variable's name ("": none).
    std::string_view key, stored, name;
  };
  Packed<Value> values;
  std::vector<std::pair<std::string, std::string>> aliases;
};

struct Keys {
  std::vector<std::string> stored;  // one per tensor of the state
  std::string message;              // to rank 0
  Descriptions descriptions;        // of the state, by stored keys
};

// Rank-private items are outside the graph, since no TensorFlow program could bind them all.
std::set<std::string> private_keys(const Group& group, const RefreshedState& state) {
  std::set<std::string> keys;
  for (const auto& [key, tensor] : state.tensors()) {
    if (tensor.unresolved && tensor.unresolved->kind == Unresolved::Kind::rank_private) {
      keys.insert(private_key(key, group.rank(), group.size()));
    }
  }
  return keys;
}

// Local. Chooses the key of each of this rank's tensors. The keys in `outside` stay as they are.
Keys choose_keys(const RefreshedState& state, const std::set<std::string>& outside) {
  const auto& notes = state.objects();
  std::optional<GraphIndex> index;
  if (notes.graph) index.emplace(*notes.graph);
  std::map<std::string, std::string_view> taken;
  Keys keys;
  SentObjects sent{{}, {notes.aliases.begin(), notes.aliases.end()}};
  for (const auto& [key, tensor] : state.tensors()) {
    // Keys in `outside` are unique by their rank already, and no path of the graph.
    if (outside.count(key)) {
      keys.stored.push_back(key);
      continue;
    }
    if (key == object_graph_key) {
      throw Error(Code::invalid_argument, cat("the state has a tensor '", key, "'"),
                  "saves make it themselves when object_graph is set",
                  "Use State::carry() for a graph of your own.")
          .of_tensor(key);
    }
    const auto named = notes.names.find(key);
    const auto name = named == notes.names.end() ? "" : named->second;
    const auto stored = index ? index->key_of(key, name).value_or(key) : object_key(key);
    const auto [other, fresh] = taken.emplace(stored, key);
    if (!fresh) {
      throw Error(Code::invalid_argument,
                  cat("tensors '", other->second, "' and '", key, "' are one object"),
                  cat("both would be stored under '", stored, "'"),
                  "Leave one of them out of the state.")
          .of_tensor(key);
    }
    sent.values.add({key, stored, name});
    keys.stored.push_back(stored);
  }
  keys.message = pack(sent);
  return keys;
}

// Descriptions move to the stored keys of their tensors. Those of groups keep their paths. A key
// that this rank does not have is that of another rank's tensor.
Descriptions move_descriptions(const RefreshedState& given, const RefreshedState& state,
                               const std::vector<std::string>& stored) {
  Descriptions moved{given.descriptions().attributes, {}};
  if (given.descriptions().by_key.empty()) return moved;
  std::map<std::string_view, std::string_view> stored_key;
  for (std::size_t i = 0; i < stored.size(); ++i) stored_key[state.tensors()[i].first] = stored[i];
  std::optional<GraphIndex> index;
  if (const auto& graph = state.objects().graph) index.emplace(*graph);
  for (const auto& [key, said] : given.descriptions().by_key) {
    const auto path = key + '/';
    const auto at = stored_key.lower_bound(key);
    const auto behind = stored_key.lower_bound(path);
    if (at != stored_key.end() && at->first == key) {
      moved.by_key.emplace(at->second, said);
    } else if (behind != stored_key.end() && behind->first.starts_with(path)) {
      moved.by_key.emplace(key, said);
    } else {
      moved.by_key.emplace(index ? index->key_of(key, "").value_or(key) : object_key(key), said);
    }
  }
  return moved;
}

// What all ranks have together.
struct Everything {
  std::map<std::string, ObjectValue> values;  // by stored key
  std::vector<std::pair<std::string, std::string>> aliases;
};

// Equal messages travel as one. Others are appended, and read_messages() drops what occurs twice.
std::string join_messages(std::string low, std::string high) {
  if (low.compare(high) != 0) low += high;  // most ranks have the same keys
  return low;
}

// Rank 0. Ranks may hold the same value under one key; then the names that they give it must agree.
Everything read_messages(std::string_view messages) {
  Everything all;
  for (auto& sent : unpack_each<SentObjects>(messages)) {
    for (const auto& [key, stored, name] : sent.values.each()) {
      auto& value = all.values[std::string(stored)];
      if (value.key.empty()) value.key = key;
      if (!value.name.empty() && !name.empty() && value.name != name) {
        throw Error(Code::disagreement, cat("ranks call the variable '", value.key, "' '",
                                            value.name, "' and '", name, "'"))
            .of_tensor(value.key);
      }
      if (value.name.empty()) value.name = name;
    }
    for (auto& alias : sent.aliases) all.aliases.push_back(std::move(alias));
  }
  return all;
}

// Whether some rank has the value of an attribute. Tables and similar objects keep it in several
// tensors, whose keys differ from the attribute's only after ".ATTRIBUTES/". No other attribute has
// such keys.
bool is_there(const Everything& all, const std::set<std::string_view>& attributes,
              const std::string& key) {
  if (all.values.count(key)) return true;
  const auto at = key.find(cat(attributes_part, '/'));
  if (at == key.npos) return false;
  const auto object = key.substr(0, at + attributes_part.size() + 1);
  for (auto value = all.values.lower_bound(object);
       value != all.values.end() && value->first.starts_with(object); ++value) {
    if (!attributes.count(value->first)) return true;
  }
  return false;
}

[[noreturn]] void refuse_missing(const std::set<std::string>& missing) {
  std::string list;
  std::size_t shown = 0;
  for (const auto& key : missing) {
    if (shown++ == missing_shown) {
      list += ", …";
      break;
    }
    list += cat(list.empty() ? "'" : ", '", key, "'");
  }
  throw Error(Code::invalid_argument,
              cat("the object graph that the state carries names ", missing.size(),
                  missing.size() == 1 ? " tensor" : " tensors", " that no rank has"),
              list, "Add them to the state, or take them out with ObjectGraph::forget().");
}

struct Made {
  std::string graph;
  std::string counter_key;  // empty: no counter is added
};

// Rank 0. Encodes the carried graph, after comparing it with the values that ranks have, or makes a
// graph from the paths of all values. Decides whether rank 0 adds a counter.
Made make(const RefreshedState& state, Everything all, bool wants_counter) {
  Made made;
  if (const auto& carried = state.objects().graph) {
    std::set<std::string_view> attributes;
    for (const auto& node : carried->nodes) {
      for (const auto& attribute : node.attributes) attributes.insert(attribute.key);
    }
    std::set<std::string> missing;
    for (const auto key : attributes) {
      if (!is_there(all, attributes, std::string(key))) missing.emplace(key);
    }
    auto graph = *carried;
    const auto counter = GraphIndex(graph).key_of(counter_path);
    // A counter that no rank has is no error: the save adds it, or the graph forgets it.
    if (counter && missing.erase(*counter)) {
      if (wants_counter) {
        made.counter_key = *counter;
      } else {
        graph.forget(*counter);
      }
    }
    if (!missing.empty()) refuse_missing(missing);
    made.graph = bundle::encode_object_graph(graph);
    return made;
  }
  const auto counter = object_key(counter_path);
  if (wants_counter && !all.values.count(counter)) {
    made.counter_key = counter;
    all.values[counter] = {std::string(counter_path), std::string(counter_path)};
  }
  std::vector<ObjectValue> values;
  for (auto& [stored, value] : all.values) values.push_back(std::move(value));
  made.graph =
      bundle::encode_object_graph(build_object_graph(std::move(values), std::move(all.aliases)));
  return made;
}

}  // namespace

// Resolves the state first, so that only plain tensors get keys. After the keys are chosen, rank 0
// alone knows all values, so it alone has the graph and the counter in its state.
State with_object_graph(Group& group, const State& given, std::optional<std::int64_t> save_counter,
                        RowPlans* plans) {
  const RefreshedState seen(given);
  const auto resolved = resolve(group, seen, plans, nullptr);
  const auto& state = resolved ? *resolved : seen;
  Keys keys;
  const auto carried = run_and_agree(group, [&] {
    const auto& graph = state.objects().graph;
    const auto bytes = graph ? bundle::encode_object_graph(*graph) : "";
    keys = choose_keys(state, private_keys(group, seen));
    keys.descriptions = move_descriptions(seen, state, keys.stored);
    return bytes.empty() ? "none" : cat(bytes.size(), " bytes, checksum ", crc32c(bytes));
  });
  require_same(group, "the object graph that the state carries", carried);
  const auto all = reduce_to_root(group, std::move(keys.message), join_messages);
  return run_and_agree(group, [&] {
    State stored;
    const auto& names = state.objects().names;
    stored.store(state.storage());
    for (std::size_t i = 0; i < keys.stored.size(); ++i) {
      const auto& [key, tensor] = state.tensors()[i];
      stored.add(keys.stored[i], tensor);
      const auto named = names.find(key);
      if (named != names.end()) stored.name(keys.stored[i], named->second);
    }
    RefreshedState::describe(stored, keys.descriptions);
    if (group.rank() != 0) return stored;
    auto made = make(state, read_messages(all), save_counter.has_value());
    if (!made.counter_key.empty()) {
      LocalTensor counter = nothing(DType::int64, {});
      counter.made_by_save = true;
      counter.slices.push_back({Box::whole({}), std::make_shared<OwnCounter>(*save_counter)});
      stored.add(made.counter_key, std::move(counter));
    }
    LocalTensor graph = nothing(DType::string, {});
    graph.made_by_save = true;
    graph.strings = std::make_shared<OwnString>(std::move(made.graph));
    stored.add(std::string(object_graph_key), std::move(graph));
    return stored;
  });
}

}  // namespace cairn
