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
#include <chrono>
#include <functional>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/log.hpp"
#include "group/call_group.hpp"
#include "group/collectives.hpp"
#include "session/nodes/tier.hpp"
#include "session/save/join_descriptions.hpp"
#include "session/save/save_steps.hpp"
#include "store/nodes/place.hpp"

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
    bytes += entry.slices.front().stored_bytes + 320 + static_cast<std::int64_t>(entry.key.size()) +
             48 * static_cast<std::int64_t>(entry.shape.size());
  }
  return bytes + bytes / stripe_bytes * 4;
}

// Of each rank so many, in the order of ranks.
std::vector<std::int64_t> all_numbers(Group& group, const std::vector<std::int64_t>& mine) {
  std::vector<std::int64_t> all;
  for (const auto& text : all_gather(group, pack_each(mine))) {
    unpack_into(all, text);
  }
  return all;
}

using Clock = std::chrono::steady_clock;
std::int64_t microseconds_since(Clock::time_point then) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - then).count();
}

}  // namespace

// A plan serves again while the state's structure stays.
Plans::Made Tier::plan(const Request& request, const State& plain) {
  Group& group = *home_.group;
  const Look look(plain);
  auto sum = plans_.ask(request.step, look, request.options, plans_.kept() != nullptr);
  group.all_reduce(sum.values, Group::Op::sum);
  if (sum.agreed()) {
    return {plans_.kept(), plans_.with_fills(look.state),
            plans_.descriptions(plain, request.options)};
  }
  require_same(group, "the step", cat(request.step));
  return plans_.make_anew(look, request.options, job_.sharding);
}

// On this node, for all that its ranks will write; not where that cannot be told.
bool Tier::has_room(const SaveMap& map) const {
  const Sets sets(map);
  const auto& set = sets.set(sets.set_of(node_));
  std::int64_t bytes = std::int64_t{1} << 20;
  for (const int rank : sets.ranks_of(node_)) {
    bytes += map.part_bytes[nth(rank)] + parity_bytes(set, sets.member_of(node_), rank);
  }
  try {
    return files_->free_bytes(directory_) >= bytes;
  } catch (const Error& error) {
    log(LogLevel::warning, error.what());
    return false;
  }
}

// Whether a save of this map is to go home for want of room; throws if it must not.
bool Tier::goes_home_for_room(const SaveMap& map, std::string& why) const {
  if (all_of(*home_.group, !is_leader() || has_room(map))) return false;
  why = "a node has no room for it";
  if (home_.options.tier.when_full == WhenFull::home) return true;
  throw Error(Code::no_space, "the checkpoint does not fit on the nodes", why,
              "Give the tier more room, or let such saves go home "
              "(TierOptions::when_full).")
      .at(everywhere());
}

void Tier::take_numbers(const std::function<Numbers()>& numbers) {
  numbers_ = unpack<Numbers>(from_root(*home_.group, [&] { return pack(numbers()); }));
}

// But for the numbers, which are not there before there is room.
SaveMap Tier::map_of(const Request& request, std::vector<std::int64_t> part_bytes) const {
  const auto& options = home_.options.tier;
  const bool counts = options.protection == Protection::reed_solomon;
  SaveMap map;
  map.home = home_id_;
  map.step = request.step;
  map.since_home = request.since_home;
  map.node_of = node_of_;
  map.set_nodes = protects_ ? options.set_nodes : 1;
  map.parity = !protects_ ? 0 : counts ? options.lost_nodes : 1;
  map.part_bytes = std::move(part_bytes);
  return map;
}

bundle::PartRecord Tier::record_of(const Request& request, const Plans::Made& made,
                                   const SaveMap& map) const {
  bundle::PartRecord record;
  record.uuid = map.uuid;
  record.fingerprint = fnv1a(map.uuid);
  record.part = home_.rank();
  record.parts = home_.group->size();
  record.num_files = 1;
  auto& meta = record.meta;
  meta = meta_of_save(home_,
                      {.step = map.step,
                       .sequence = map.sequence,
                       .parent = map.parent,
                       .time = map.time,
                       .uuid = commit::parse_uuid(map.uuid)},
                      home_.sharding);
  meta.metric = request.options.metric;
  if (home_.root()) {
    meta.descriptions = *made.descriptions;
    meta.gaps = *made.plan->gaps;
  }
  return record;
}

void Tier::write_map(const SaveMap& map) const {
  const auto path = place_of(map) / map_name;
  if (home_.options.tier.sync) {
    files_->sync_directory(place_of(map));
    io::replace_file(*files_, path, encode(map));
    files_->sync_directory(directory_);
  } else {
    const auto file = files_->create(place_of(map) / "map.new");
    const auto text_of_map = encode(map);
    file->write_at(0, std::as_bytes(std::span(text_of_map)));
    file->close();
    files_->rename(place_of(map) / "map.new", path);
  }
}

// Of a save that failed, all that was written goes. Throws, unless the save is to go home.
void Tier::give_up(const SaveMap& map, const Error& error) {
  if (error.code() == Code::communication) throw error;  // others cannot take part in what follows
  const bool gone = withdraw(map);
  // Others may have taken the room meanwhile, or memory has a limit that the directory hides. Not
  // if parts of this one stay: should home fail as well, nobody would be told of them.
  const bool may_go_home = home_.options.tier.when_full == WhenFull::home;
  if (gone && error.code() == Code::no_space && may_go_home) return;
  if (gone) throw error;
  throw Error(error.code(), error.problem(),
              cat(error.reason(), error.reason().empty() ? "" : "; ",
                  "what was written could not be removed from all nodes"),
              "Save again: until another save succeeds, a restart may still take this one.")
      .at(error.path());
}

std::optional<io::Path> Tier::save(const Request& request, const std::function<Numbers()>& numbers,
                                   std::string& why) {
  Group& group = *home_.group;
  Laps laps(request.figures, request.trace, Trace::Thread::caller, &StageSeconds::plan);
  const Look look(request.given);
  const auto given = together(group, [&] {
    if (look.error()) throw Error(*look.error());
    return sliced(look.state);
  });
  const auto kept = plans_.kept();
  const auto made = this->plan(request, given);
  const auto& plan = made.plan;
  const State& state = made.resolved ? *made.resolved : given;
  if (plan->dense.bytes > 0) {
    why = "some tensors can only be stored as one array";
    return std::nullopt;
  }
  auto out = together(group, [&] { return outgoing(state, plan->local, 0, true); });
  auto map = map_of(request, all_numbers(group, {estimate(out)}));
  if (goes_home_for_room(map, why)) return std::nullopt;
  take_numbers(numbers);
  map.uuid = numbers_.uuid;
  map.sequence = numbers_.sequence;
  map.parent = numbers_.parent;
  map.time = numbers_.time;

  const bool again = kept == plan;
  request.figures.plan_reused = again;
  try {
    laps.next(&StageSeconds::write);
    const auto began = Clock::now();
    together(group, [&] {
      if (is_leader()) files_->create_directory(place_of(map));
    });
    const auto bytes = together(group, [&] {
      return write_part({files_, own_part(map)}, record_of(request, made, map), out,
                        home_.options.tier.sync);
    });
    if (plan->replicas.any && !again) {
      const auto checksums = together(
          group, [&] { return replica_checksums(state, plan->replicas, plan->local.strings, {}); });
      plans_.compare(state, plan->replicas, checksums, place_of(map).string());
    }
    plans_.end_turn();
    const auto written = all_numbers(group, {bytes, microseconds_since(began)});
    for (std::size_t i = 0; i < written.size(); i += 2) {
      map.part_bytes[i / 2] = written[i];
      map.write_seconds = std::max(map.write_seconds, 1e-6 * static_cast<double>(written[i + 1]));
      request.figures.bytes += written[i];
    }
    laps.next(&StageSeconds::protect);
    const auto unprotected = Clock::now();
    protect(map);
    map.protect_seconds = 1e-6 * static_cast<double>(microseconds_since(unprotected));
    laps.next(&StageSeconds::commit);
    together(group, [&] {
      if (is_leader()) write_map(map);
    });
  } catch (const Error& error) {
    give_up(map, error);
    why = error.what();
    return std::nullopt;
  }
  LocalSave saved;
  saved.map = map;
  saved.home = home_place();
  saved.part_at = saved.parity_at = node_of_;
  saves_.insert(saves_.begin(), std::move(saved));
  committed(map.parent, map.sequence);
  laps.next(&StageSeconds::tidy);
  prune(map.uuid);
  return own_part(map);
}

// All ranks have failed alike. Whether the save is gone from all nodes: else it might count.
bool Tier::withdraw(const SaveMap& map) {
  const bool sync = home_.options.tier.sync;
  bool gone = true;
  if (is_leader()) try {
      if (io::exists(*files_, place_of(map))) gone = remove_save(*files_, place_of(map), sync);
      if (sync) files_->sync_directory(directory_);
    } catch (const Error& error) {
      log(LogLevel::warning, error.what());
      gone = false;
    }
  return all_of(*home_.group, gone);
}

protect::ReadPart Tier::reader_at(const Address& place, std::vector<int> ranks) const {
  using Files = std::map<int, std::unique_ptr<io::File>>;
  return [place, ranks = std::move(ranks), open = std::make_shared<Files>()](
             int part, std::int64_t offset, std::span<std::byte> to) {
    auto& file = (*open)[part];
    if (!file) file = (place / cat("part-", ranks[nth(part)])).open_read();
    file->read_at(offset, to);
  };
}

// Collective. This rank's share of the parity, into a file of its own.
void Tier::protect(const SaveMap& map) const {
  Group& group = *home_.group;
  const Sets sets(map);
  const auto& set = sets.set(sets.set_of(node_));
  const int member = sets.member_of(node_);
  const bool works = set.code.parity > 0 && set.cycles() > 0;
  // Memory first: a rank that had none would leave others waiting for its blocks.
  auto room =
      together(group, [&] { return works ? protect::Room::to_make(set) : protect::Room(); });
  together(group, [&] {
    if (!works) return;
    std::unique_ptr<io::File> file;
    const auto blocks = parity_blocks(set, member, home_.rank());
    std::vector<std::uint32_t> checksums(nth(blocks));
    protect::make_parity(
        group, set, member, reader_at(place_at(node_, map), sets.ranks_of(node_)),
        [&](std::int64_t number, std::span<const std::byte> bytes) {
          if (!file) file = files_->create(place_of(map) / cat("parity-", home_.rank()));
          const auto block = find_parity(set, member, number).block;
          checksums[nth(block)] = crc32c(bytes);
          file->write_at(block * set.block_bytes, bytes);
        },
        room);
    if (!file) return;
    file->write_at(blocks * set.block_bytes, std::as_bytes(std::span(checksums)));
    if (home_.options.tier.sync) file->sync();
    file->close();
  });
}

}  // namespace cairn::tier
