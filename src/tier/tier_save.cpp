// A save on the nodes, in this order, each step done on all ranks before the next begins:
//
//   room     what parts and parity will take, on every node; nothing is removed first
//   parts    each rank writes its own, with checksums
//   parity   of each set; bounded memory
//   maps     on each node, what all nodes know
//   verdict  then the checkpoint counts, and older ones go
//
// If anything fails, all that was written goes.
#include <algorithm>
#include <functional>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/log.hpp"
#include "cairn/version.hpp"
#include "group/call_group.hpp"
#include "group/collectives.hpp"
#include "save/descriptions.hpp"
#include "save/resolve.hpp"
#include "tier/place.hpp"
#include "tier/tier.hpp"

namespace cairn::tier {
namespace {

// Slice by slice, whatever the tensors ask for of the manager's directory.
State sliced(const State& given) {
  State state;
  state.store(Storage::sliced);
  for (auto [key, tensor] : given.tensors()) {
    tensor.source = nullptr;
    if (!tensor.strings) tensor.storage = Storage::sliced;
    state.add(std::move(key), std::move(tensor));
  }
  for (const auto& [key, name] : given.objects().names) state.name(key, name);
  for (const auto& [key, said] : given.descriptions().by_key) state.describe(key, said);
  state.describe(given.descriptions().attributes);
  return state;
}

// About what a part takes, from above.
std::int64_t estimate(const Outgoing& out) {
  std::int64_t bytes = 16384;
  for (const auto& entry : out.entries) {
    bytes += entry.slices.front().size + 320 + static_cast<std::int64_t>(entry.key.size()) +
             48 * static_cast<std::int64_t>(entry.shape.size());
  }
  return bytes + bytes / stripe_bytes * 4;
}

std::vector<std::int64_t> all_numbers(Group& group, std::int64_t mine) {
  std::vector<std::int64_t> all;
  for (const auto& text : all_gather(group, WireWriter().put(mine).take())) {
    all.push_back(WireReader(text).get<std::int64_t>());
  }
  return all;
}

}  // namespace

// As Engine::plan does for the manager's directory: a plan serves again while the state's structure
// stays.
std::shared_ptr<SavePlan> Tier::plan(const Request& request, const State& plain,
                                     std::optional<State>& resolved,
                                     std::shared_ptr<const Descriptions>& said) {
  Group& group = *home_.group;
  const Look look(plain);
  auto kept = plans_.kept();
  auto sum = plans_.ask(request.step, look, request.options, kept != nullptr);
  group.all_reduce(sum.values, Group::Op::sum);
  if (sum.agreed()) {
    said = plans_.descriptions(plain, request.options);
    return kept;
  }
  require_same(group, "the step", cat(request.step));
  GapsByKey gaps;
  resolved = resolve(group, look, home_.row_plans.get(), &gaps);
  const auto agreed = agree_on_descriptions(group, plain, request.options.attributes);
  said = with_attributes(agreed, request.options.attributes);
  auto made = plans_.make(plain, resolved ? *resolved : plain);
  made->descriptions = agreed;
  made->gaps = std::make_shared<const GapsByKey>(std::move(gaps));
  return made;
}

// On this node, of all that its ranks will write.
bool Tier::has_room(const SaveMap& map) const {
  const Sets sets(map);
  const auto& set = sets.set(sets.set_of(node_));
  std::int64_t bytes = std::int64_t{1} << 20;
  for (const int rank : sets.ranks_of(node_)) {
    bytes += map.part_bytes[nth(rank)] + parity_bytes(set, sets.member_of(node_), rank);
  }
  return files_->free_bytes(directory_) >= bytes;
}

std::optional<io::Path> Tier::save(const Request& request, const std::function<Numbers()>& numbers,
                                   std::string& why) {
  Group& group = *home_.group;
  const auto& options = home_.options.tier;
  const Look look(request.given);
  agree(group, look.error());
  const auto given = together(group, [&] { return sliced(look.state); });
  std::optional<State> resolved;
  std::shared_ptr<const Descriptions> said;
  const auto kept = plans_.kept();
  const auto plan = this->plan(request, given, resolved, said);
  const State& state = resolved ? *resolved : given;
  if (plan->dense.bytes > 0) {
    why = "some tensors can only be stored as one array";
    return std::nullopt;
  }
  auto out = together(group, [&] { return outgoing(state, plan->local, 0, true); });

  SaveMap map;
  map.node_of = node_of_;
  map.set_nodes = protects_ ? options.set_nodes : 1;
  map.parity = !protects_                                       ? 0
               : options.protection == Protection::reed_solomon ? options.lost_nodes
                                                                : 1;
  map.part_bytes = all_numbers(group, estimate(out));
  const bool room = all_of(group, together(group, [&] { return !is_leader() || has_room(map); }));
  if (!room) {
    why = "a node has no room for it";
    if (options.when_full == WhenFull::home) return std::nullopt;
    throw Error(Code::no_space, "the checkpoint does not fit on the nodes", why,
                "Give the tier more room, keep fewer checkpoints there, or let such saves go home "
                "(TierOptions::when_full).")
        .at(directory_.string());
  }
  const auto text = from_root(group, [&] {
    const auto made = numbers();
    return WireWriter().put(made.sequence).put(made.parent).put(made.time).put(made.uuid).take();
  });
  WireReader reader(text);
  numbers_.sequence = reader.get<std::int64_t>();
  numbers_.parent = reader.get<std::int64_t>();
  numbers_.time = reader.get<double>();
  numbers_.uuid = reader.get<std::string>();
  map.uuid = numbers_.uuid;
  map.step = request.step;
  map.sequence = numbers_.sequence;
  map.parent = numbers_.parent;

  const bool again = kept == plan;
  try {
    together(group, [&] {
      if (is_leader()) files_->create_directory(place_of(map));
    });
    const auto bytes = together(group, [&] {
      bundle::PartRecord record;
      record.uuid = map.uuid;
      record.fingerprint = fnv1a(map.uuid);
      record.part = home_.rank();
      record.parts = group.size();
      record.num_files = 1;
      auto& meta = record.meta;
      meta.step = map.step;
      meta.name = home_.naming.numbered ? home_.naming.name : "";
      meta.sequence = map.sequence;
      meta.parent = map.parent;
      meta.wall_time_seconds = numbers_.time;
      meta.version = version();
      meta.ranks = group.size();
      meta.policy = home_.policy;
      meta.uuid = map.uuid;
      meta.metric = request.options.metric;
      if (home_.root()) {
        meta.descriptions = *said;
        meta.gaps = *plan->gaps;
      }
      return write_part(*files_, place_of(map) / cat("part-", home_.rank()), std::move(record), out,
                        options.sync);
    });
    if (plan->replicas.any && !again) {
      const auto checksums = together(
          group, [&] { return replica_checksums(state, plan->replicas, plan->local.strings, {}); });
      plans_.compare(state, plan->replicas, checksums, place_of(map).string());
    }
    plans_.end_turn();
    map.part_bytes = all_numbers(group, bytes);
    together(group, [&] { protect(map); });
    together(group, [&] {
      if (!is_leader()) return;
      const auto path = place_of(map) / map_name;
      if (options.sync) {
        files_->sync_directory(place_of(map));
        io::replace_file(*files_, path, encode(map));
        files_->sync_directory(directory_);
      } else {
        const auto file = files_->create(place_of(map) / "map.new");
        const auto bytes_of_map = encode(map);
        file->write_at(0, std::as_bytes(std::span(bytes_of_map)));
        file->close();
        files_->rename(place_of(map) / "map.new", path);
      }
    });
  } catch (const Error& error) {
    withdraw(map);
    // Others may have taken the room meanwhile, or memory has a limit that the directory hides.
    if (error.code() == Code::no_space && options.when_full == WhenFull::home) {
      why = error.what();
      return std::nullopt;
    }
    throw;
  }
  LocalSave saved;
  saved.map = map;
  saved.home = home_place();
  saved.part_at = saved.parity_at = node_of_;
  saves_.insert(saves_.begin(), std::move(saved));
  prune(map.uuid);
  return place_of(map) / cat("part-", home_.rank());
}

// All ranks have failed alike. What one of them cannot remove might count.
void Tier::withdraw(const SaveMap& map) {
  Group& group = *home_.group;
  if (is_leader()) remove_save(*files_, place_of(map));
  const bool stays = any_of(
      group, is_leader() && [&] {
        try {
          return io::exists(*files_, place_of(map) / map_name);
        } catch (const Error&) {
          return true;
        }
      }());
  if (!stays || !home_.root()) return;
  log(LogLevel::warning, cat("step ", map.step,
                             " failed on the nodes, but could not be removed from all of them: a "
                             "restart may still take it"));
}

protect::ReadPart Tier::reader_at(const Place& place, std::vector<int> ranks) const {
  using Files = std::map<int, std::unique_ptr<io::File>>;
  return [place, ranks = std::move(ranks), open = std::make_shared<Files>()](
             int part, std::int64_t offset, std::span<std::byte> to) {
    auto& file = (*open)[part];
    if (!file) file = place.files.open_read(place.path / cat("part-", ranks[nth(part)]));
    file->read_at(offset, to);
  };
}

// This rank's share of the parity, into a file of its own.
void Tier::protect(const SaveMap& map) const {
  const Sets sets(map);
  const auto& set = sets.set(sets.set_of(node_));
  const int member = sets.member_of(node_);
  if (set.code.parity == 0 || set.cycles() == 0) return;
  std::unique_ptr<io::File> file;
  protect::make_parity(*home_.group, set, member,
                       reader_at(place_at(node_, map), sets.ranks_of(node_)),
                       [&](std::int64_t number, std::span<const std::byte> bytes) {
                         if (!file)
                           file = files_->create(place_of(map) / cat("parity-", home_.rank()));
                         const auto at = find_parity(set, member, number);
                         file->write_at(at.block * set.block_bytes, bytes);
                       });
  if (!file) return;
  if (home_.options.tier.sync) file->sync();
  file->close();
}

}  // namespace cairn::tier
