// A save on the nodes. All ranks finish a step before the next one begins:
//
//   room     checks on every node that parts and parity will fit; nothing is removed first
//   parts    each rank writes its own part, with checksums
//   parity   of each set, in bounded memory
//   maps     on each node: what all nodes know
//   agree    if all went well, the checkpoint counts, and older ones are removed
//
// If anything fails, all that was written is removed.
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

// The state to be stored slice by slice, even if its tensors are dense in the manager's directory.
RefreshedState sliced(const RefreshedState& given) {
  State state;
  state.store(Storage::sliced);
  for (const auto& [key, tensor] : given.tensors()) {
    state.add(key, tensor.strings ? tensor : stored(Storage::sliced, tensor));
  }
  for (const auto& [key, name] : given.objects().names) state.name(key, name);
  RefreshedState::describe(state, given.descriptions());
  return RefreshedState(std::move(state));
}

// An upper bound for the size of a part.
// It allows 16 KiB for head and metadata, for each entry of the record 320 bytes, its key and 48
// bytes a dimension, and 4 bytes for the checksum of each stripe.
std::int64_t estimate(const Outgoing& out) {
  std::int64_t bytes = 16384;
  for (const auto& entry : out.entries) {
    bytes += entry.slices.front().stored_bytes + 320 + static_cast<std::int64_t>(entry.key.size()) +
             48 * static_cast<std::int64_t>(entry.shape.size());
  }
  return bytes + bytes / stripe_bytes * 4;
}

// Collective. The numbers of all ranks, in the order of the ranks.
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

protect::ReadPart reader_of(const Address& place, std::vector<int> ranks) {
  using Files = std::map<int, std::unique_ptr<io::File>>;
  return [place, ranks = std::move(ranks), open = std::make_shared<Files>()](
             int part, std::int64_t offset, std::span<std::byte> to) {
    auto& file = (*open)[part];
    if (!file) file = (place / cat("part-", ranks[nth(part)])).open_read();
    file->read_at(offset, to);
  };
}

}  // namespace

// Members are collective unless they are const.
class Tier::Saving {
 public:
  Saving(Tier& tier, const Request& request)
      : tier_(tier),
        request_(request),
        home_(tier.home_),
        group_(*home_.group),
        files_(tier.files_),
        timer_(request.figures, request.trace, Trace::Thread::caller, &StageSeconds::plan),
        seen_(request.given) {}

  std::optional<io::Path> run(const std::function<Numbers()>& numbers, std::string& why);

 private:
  bool plan(std::string& why);
  Plans::Made choose_plan();
  const RefreshedState& state() const { return made_.resolved ? *made_.resolved : *given_; }
  bool goes_home_for_room(std::string& why);
  void begin_map(std::vector<std::int64_t> part_bytes);
  void take_numbers(const std::function<Numbers()>&);
  void write_parts();
  void compare();
  void protect();
  void give_up(const Error&);
  bool withdraw();

  std::string lack_of_room() const;
  bundle::PartRecord record() const;
  void make_parity(const Sets&, protect::Room&) const;
  void write_map() const;

  Tier& tier_;
  const Request& request_;
  const Job& home_;
  Group& group_;
  const std::shared_ptr<io::FileSystem>& files_;
  StageTimer timer_;
  RefreshedState seen_;
  // given_, made_ and out_ are set by plan().
  std::optional<RefreshedState> given_;  // the state that goes to the nodes
  Plans::Made made_;
  bool again_ = false;  // the plan of the last save is used again
  Outgoing out_;
  // With estimated sizes of parts at first, which the room is checked with; write_parts() puts in
  // the real ones.
  SaveMap map_;
};

std::optional<io::Path> Tier::save(const Request& request, const std::function<Numbers()>& numbers,
                                   std::string& why) {
  return Saving(*this, request).run(numbers, why);
}

// Before take_numbers() nothing has been made, so a save that does not fit simply goes to the
// directory. After that a failure has to be cleaned up.
std::optional<io::Path> Tier::Saving::run(const std::function<Numbers()>& numbers,
                                          std::string& why) {
  if (!plan(why)) return std::nullopt;
  begin_map(all_numbers(group_, {estimate(out_)}));
  if (goes_home_for_room(why)) return std::nullopt;
  take_numbers(numbers);
  try {
    timer_.next(&StageSeconds::write);
    write_parts();
    timer_.next(&StageSeconds::protect);
    protect();
    timer_.next(&StageSeconds::commit);
    run_and_agree(group_, [&] {
      if (tier_.is_leader()) write_map();
    });
  } catch (const Error& error) {
    give_up(error);
    why = error.what();
    return std::nullopt;
  }
  // All ranks have agreed that all maps are there, so the save counts.
  LocalSave saved;
  saved.map = map_;
  saved.home = tier_.home_place();
  saved.part_at = saved.parity_at = tier_.node_of_;
  tier_.saves_.insert(tier_.saves_.begin(), std::move(saved));
  tier_.committed(map_.parent, map_.sequence);
  timer_.next(&StageSeconds::tidy);
  tier_.prune(map_.uuid);
  return tier_.own_part(map_);
}

// Decides whether this save can be on the nodes. If not, `why` has the reason.
bool Tier::Saving::plan(std::string& why) {
  given_ = run_and_agree(group_, [&] {
    if (seen_.error()) throw Error(*seen_.error());
    return sliced(seen_);
  });
  // To tell afterwards whether the plan is a new one.
  const auto kept = tier_.plans_.kept();
  made_ = choose_plan();
  again_ = kept == made_.plan;
  if (made_.plan->dense.bytes > 0) {
    why = "some tensors can only be stored as one array";
    return false;
  }
  out_ = run_and_agree(group_, [&] { return outgoing(state(), made_.plan->local, 0, true); });
  return true;
}

// A plan is used again as long as the structure of the state stays the same.
Plans::Made Tier::Saving::choose_plan() {
  auto& plans = tier_.plans_;
  auto sum = plans.ask(request_.step, *given_, request_.options, plans.kept() != nullptr);
  group_.all_reduce(sum.values, Group::Op::sum);
  if (sum.agreed()) {
    return {plans.kept(), plans.with_fills(*given_), plans.descriptions(*given_, request_.options)};
  }
  require_same(group_, "the step", cat(request_.step));
  return plans.make_anew(*given_, request_.options, tier_.job_.sharding);
}

// Leaves sequence and uuid out: a save gets them when there is room for it.
void Tier::Saving::begin_map(std::vector<std::int64_t> part_bytes) {
  const auto& options = home_.options.tier;
  const bool counts = options.protection == Protection::reed_solomon;
  map_.home = tier_.home_id_;
  map_.node_names.assign(tier_.names_.begin(), tier_.names_.end() - 1);
  map_.step = request_.step;
  map_.since_home = request_.since_home;
  map_.node_of = tier_.node_of_;
  map_.set_nodes = tier_.protects_ ? options.set_nodes : 1;
  map_.parity = !tier_.protects_ ? 0 : counts ? options.lost_nodes : 1;
  map_.part_bytes = std::move(part_bytes);
}

// Says what is wrong with the room on this node, for all that its ranks will write. A free space
// that is unknown counts as wrong too. Returns an empty text if there is enough.
std::string Tier::Saving::lack_of_room() const {
  const Sets sets(map_);
  const auto& set = sets.set(sets.set_of(tier_.node_));
  // 1 MiB is for what is not counted here, such as the map.
  std::int64_t bytes = std::int64_t{1} << 20;
  for (const int rank : sets.ranks_of(tier_.node_)) {
    bytes += map_.part_bytes[nth(rank)] + parity_bytes(set, sets.member_of(tier_.node_), rank);
  }
  const auto where = cat(tier_.name_of(tier_.node_), ", where ", tier_.directory_.string());
  try {
    const auto free = files_->free_bytes(tier_.directory_);
    if (free >= bytes) return "";
    const auto text = [](std::int64_t of) { return bytes_text(static_cast<double>(of)); };
    return cat(where, " has ", text(free), " and the save takes ", text(bytes));
  } catch (const Error& error) {
    return cat(where, " does not tell what is free: ", error.what());
  }
}

// Returns whether the save should go to the directory for lack of room. Throws if it must not.
bool Tier::Saving::goes_home_for_room(std::string& why) {
  tier_.full_.clear();
  const auto mine = tier_.is_leader() ? lack_of_room() : "";
  if (!any_of(group_, !mine.empty())) return false;
  std::vector<std::string> lacks, full;
  const auto all = all_gather(group_, mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    lacks.push_back(all[rank]);
    full.push_back(tier_.name_of(tier_.node_of_[rank]));
  }
  tier_.full_ = some_of(full);
  why = cat("there is no room on ", lacks.front(),
            lacks.size() == 1 ? "" : cat("; nor on ", some_of({full.begin() + 1, full.end()})));
  if (home_.options.tier.when_full == WhenFull::home) return true;
  throw Error(Code::no_space, "the checkpoint does not fit on the nodes", why,
              "Give the tier more room, or let such saves go home "
              "(TierOptions::when_full).")
      .at(tier_.everywhere());
}

// As late as possible, so that a save which goes to the directory instead has used up no sequence.
void Tier::Saving::take_numbers(const std::function<Numbers()>& numbers) {
  const auto& made = tier_.numbers_ =
      unpack<Numbers>(from_root(group_, [&] { return pack(numbers()); }));
  map_.uuid = made.uuid;
  map_.sequence = made.sequence;
  map_.parent = made.parent;
  map_.time = made.time;
}

// Each rank writes alone. Real sizes and the longest time are known only afterwards, and go into
// the map.
void Tier::Saving::write_parts() {
  request_.figures.plan_reused = again_;
  const auto began = Clock::now();
  run_and_agree(group_, [&] {
    if (tier_.is_leader()) files_->create_directory(tier_.place_of(map_));
  });
  const auto bytes = run_and_agree(group_, [&] {
    return write_part({files_, tier_.own_part(map_)}, record(), out_, home_.options.tier.sync);
  });
  if (made_.plan->replicas.any && !again_) compare();
  tier_.plans_.end_round();
  const auto written = all_numbers(group_, {bytes, microseconds_since(began)});
  for (std::size_t i = 0; i < written.size(); i += 2) {
    map_.part_bytes[i / 2] = written[i];
    map_.write_seconds = std::max(map_.write_seconds, 1e-6 * static_cast<double>(written[i + 1]));
    request_.figures.bytes += written[i];
  }
}

void Tier::Saving::compare() {
  const auto& plan = *made_.plan;
  const auto checksums = run_and_agree(
      group_, [&] { return replica_checksums(state(), plan.replicas, plan.local.strings, {}); });
  tier_.plans_.compare(state(), plan.replicas, checksums, tier_.place_of(map_).string());
}

// Descriptions and gaps are the same on all ranks and may be long, so only rank 0's part has them
// (Gathered::said_by_first).
bundle::PartRecord Tier::Saving::record() const {
  bundle::PartRecord record;
  record.uuid = map_.uuid;
  record.fingerprint = fnv1a(map_.uuid);
  record.part = home_.rank();
  record.parts = home_.group->size();
  record.num_files = 1;
  auto& meta = record.meta;
  meta = meta_of_save(home_,
                      {.step = map_.step,
                       .sequence = map_.sequence,
                       .parent = map_.parent,
                       .time = map_.time,
                       .uuid = commit::parse_uuid(map_.uuid)},
                      home_.sharding);
  meta.metric = request_.options.metric;
  if (home_.root()) {
    meta.descriptions = *made_.descriptions;
    meta.gaps = *made_.plan->gaps;
  }
  return record;
}

// Writes this rank's share of the parity into a file of its own.
void Tier::Saving::protect() {
  const auto began = Clock::now();
  const Sets sets(map_);
  const auto& set = sets.set(sets.set_of(tier_.node_));
  const bool works = set.code.parity > 0 && set.cycles() > 0;
  // Memory is allocated before any message: a rank without it would leave others waiting for its
  // blocks.
  auto room =
      run_and_agree(group_, [&] { return works ? protect::Room::to_make(set) : protect::Room(); });
  run_and_agree(group_, [&] {
    if (works) make_parity(sets, room);
  });
  map_.protect_seconds = 1e-6 * static_cast<double>(microseconds_since(began));
}

// Each parity block is checksummed when it is complete; the checksums follow the blocks in the
// file.
void Tier::Saving::make_parity(const Sets& sets, protect::Room& room) const {
  const auto& set = sets.set(sets.set_of(tier_.node_));
  const int member = sets.member_of(tier_.node_);
  std::unique_ptr<io::File> file;
  const auto blocks = parity_blocks(set, member, home_.rank());
  std::vector<std::uint32_t> checksums(nth(blocks));
  protect::make_parity(
      group_, set, member, reader_of(tier_.place_at(tier_.node_, map_), sets.ranks_of(tier_.node_)),
      [&](std::int64_t number, std::span<const std::byte> bytes) {
        if (!file) file = files_->create(tier_.place_of(map_) / cat("parity-", home_.rank()));
        const auto block = find_parity(set, member, number).block;
        checksums[nth(block)] = crc32c(bytes);
        file->write_at(block * set.block_bytes, bytes);
      },
      room);
  if (!file) return;
  file->write_at(blocks * set.block_bytes, std::as_bytes(std::span(checksums)));
  if (home_.options.tier.sync) file->sync();
  file->close();
}

// With `sync`, parts and parity are durable before the map, which makes them count. Without it, the
// rename still keeps a reader from seeing half a map.
void Tier::Saving::write_map() const {
  const auto path = tier_.place_of(map_) / map_name;
  if (home_.options.tier.sync) {
    files_->sync_directory(tier_.place_of(map_));
    io::replace_file(*files_, path, encode(map_));
    files_->sync_directory(tier_.directory_);
  } else {
    const auto file = files_->create(tier_.place_of(map_) / "map.new");
    const auto text_of_map = encode(map_);
    file->write_at(0, std::as_bytes(std::span(text_of_map)));
    file->close();
    files_->rename(tier_.place_of(map_) / "map.new", path);
  }
}

// Removes all that a failed save has written. Throws, unless the save should go to the directory.
void Tier::Saving::give_up(const Error& error) {
  // The other ranks cannot take part in the removal.
  if (error.code() == Code::communication) throw error;
  const bool gone = withdraw();
  // If room was lacking although it was checked, the save goes to the directory: others may have
  // taken the room meanwhile, or memory has a limit that the directory does not show. But if parts
  // of it stay on the nodes, this throws: the error names them, and a save to the directory that
  // failed too would not.
  const bool may_go_home = home_.options.tier.when_full == WhenFull::home;
  if (gone && error.code() == Code::no_space && may_go_home) return;
  if (gone) throw error;
  throw Error(error.code(), error.problem(),
              cat(error.reason(), error.reason().empty() ? "" : "; ",
                  "what was written could not be removed from all nodes"),
              "Save again: until another save succeeds, a restart may still take this one.")
      .at(error.path());
}

// Call it when all ranks have agreed on a failure. Returns whether the save is gone from all nodes;
// parts that stay may still count at a restart.
bool Tier::Saving::withdraw() {
  const bool sync = home_.options.tier.sync;
  bool gone = true;
  if (tier_.is_leader()) try {
      if (io::exists(*files_, tier_.place_of(map_)))
        gone = remove_save(*files_, tier_.place_of(map_), sync);
      if (sync) files_->sync_directory(tier_.directory_);
    } catch (const Error& error) {
      log(LogLevel::warning, error.what());
      gone = false;
    }
  return all_of(group_, gone);
}

}  // namespace cairn::tier
