#include "lab/campaigns/programs/crash_plan.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include "base/text.hpp"
#include "lab/campaigns/programs/codecs.hpp"

namespace cairn::campaign {
namespace {

using Kind = Action::Kind;

template <class Choices>
auto pick(Random& random, const Choices& choices) {
  return choices[static_cast<std::size_t>(random.below(static_cast<int>(choices.size())))];
}

Kind choose_kind(Random& random) {
  // A kind is chosen in proportion to how often it is listed here.
  static constexpr std::array kinds{Kind::save,       Kind::save,       Kind::save,
                                    Kind::save_again, Kind::save_async, Kind::save_async,
                                    Kind::save_async, Kind::save_async, Kind::save_async_again,
                                    Kind::poll,       Kind::wait,       Kind::go_back,
                                    Kind::look};
  return pick(random, kinds);
}

test::Mishap choose_mishap(Random& random, const Without& without) {
  static const std::vector<std::string> kinds{"",
                                              "",
                                              "create",
                                              "write",
                                              "write",
                                              "sync",
                                              "sync",
                                              "rename",
                                              "rename",
                                              "rename",
                                              "remove",
                                              "create_directory",
                                              "remove_directory",
                                              "sync_directory",
                                              "sync_directory",
                                              "resize",
                                              "open",
                                              "read",
                                              "list",
                                              "status"};
  test::Mishap mishap;
  mishap.kind = pick(random, kinds);
  mishap.code = random.one_in(4) ? Code::no_space : Code::io;
  mishap.skip = static_cast<std::size_t>(mishap.kind.empty() ? random.below(60) : random.below(9));
  mishap.carried_out = random.one_in(3);
  const int where = random.below(4);
  if (where == 0) {  // at the commit, or beside it
    static const std::vector<std::string> parts{".index", ".index", ".h5", ".data-", "checkpoint"};
    mishap.kind = "rename";
    mishap.path_part = pick(random, parts);
    mishap.skip = static_cast<std::size_t>(random.below(2));
    mishap.carried_out = random.one_in(2);
  } else if (where == 1) {
    static const std::vector<std::string> parts{".index",    "/index",   ".h5",   "record-",
                                                "part",      "recycled", "owner", "checkpoint",
                                                "old-index", "_temp_"};
    mishap.path_part = pick(random, parts);
    mishap.skip = static_cast<std::size_t>(random.below(3));
  }
  if (without.double_faults || random.one_in(2)) return mishap;
  mishap.times = static_cast<std::size_t>(random.between(1, 3));
  mishap.then_any = static_cast<std::size_t>(random.below(3));
  return mishap;
}

bool only_reads(const test::Mishap& mishap) {
  const auto& kind = mishap.kind;
  return kind == "open" || kind == "read" || kind == "list" || kind == "status";
}

Process choose_process(Random& random, const Plan& plan, const Without& without) {
  Process process;
  process.ranks = random.between(1, 3);
  if (has_hdf5 && !without.hdf5 && !plan.direct && random.one_in(3)) process.format = Format::hdf5;
  process.max_to_keep = random.below(3);
  process.recycle = !random.one_in(4);
  process.overwrite = !random.one_in(6);
  process.records = random.one_in(2);
  if (random.one_in(6)) process.io_ranks = random.between(1, process.ranks);
  process.when_busy =
      pick(random, std::array{WhenBusy::wait, WhenBusy::wait, WhenBusy::skip, WhenBusy::replace});
  process.begins_anew = random.one_in(8);
  for (int left = random.between(1, 7); left > 0; --left) {
    process.actions.push_back({choose_kind(random), random.below(1000)});
  }
  if (random.one_in(2)) process.actions.push_back({Kind::wait});
  if (without.faults || random.below(5) > 1) return process;
  auto& unlucky = process.actions[static_cast<std::size_t>(
      random.below(static_cast<int>(process.actions.size())))];
  unlucky.mishap = choose_mishap(random, without);
  return process;
}

Errand choose_errand(Random& random, const Plan& plan, const Without& without) {
  Errand errand;
  const bool formats = has_hdf5 && !without.hdf5 && !plan.direct;
  errand.kind = static_cast<Errand::Kind>(random.below(formats ? 7 : 5));
  // Only the metadata tell what fills a gap.
  if (errand.kind == Errand::Kind::lose_metadata && plan.shape.sparse) {
    errand.kind = Errand::Kind::copy_index;
  }
  errand.choice = random.below(1000);
  if (random.one_in(2)) errand.stop = {static_cast<std::size_t>(random.below(30))};
  return errand;
}

void stop_somewhere(Random& random, Process& process) {
  process.stop_action = random.between(0, static_cast<int>(process.actions.size()));
  if (random.one_in(3)) {  // names have just changed there, and may not be durable yet
    process.stop = {static_cast<std::size_t>(random.between(1, 5)),
                    random.one_in(3) ? "remove" : "rename"};
  } else {
    process.stop = {static_cast<std::size_t>(random.below(random.one_in(3) ? 12 : 70))};
  }
}

}  // namespace

Without parse_without(const std::string& names) {
  Without without;
  std::istringstream all(names);
  for (std::string name; std::getline(all, name, ',');) {
    const auto is = [&](const char* known, bool& flag) { return name == known && (flag = true); };
    if (is("two-owners", without.two_owners) || is("read-errors", without.read_errors) ||
        is("double-faults", without.double_faults) || is("faults", without.faults) ||
        is("threads", without.threads) || is("hdf5", without.hdf5) ||
        is("direct", without.direct) || is("pins", without.pins) ||
        is("errands", without.errands)) {
      continue;
    }
    throw Error(Code::invalid_argument, cat("--without ", name, " is not known"), "",
                "Use two-owners, read-errors, double-faults, faults, threads, hdf5, direct, pins "
                "or errands.");
  }
  return without;
}

namespace {

// Choices that came later do not use the seed's first numbers, so that earlier choices stay the
// same.
void add_pins_and_errands(Random& random, const Without& without, Plan& plan) {
  for (auto& process : plan.processes) {
    for (int left = random.below(3); left > 0 && !without.pins; --left) {
      const auto at = random.below(static_cast<int>(process.actions.size()) + 1);
      const auto kind = random.one_in(3) ? Kind::unpin : Kind::pin;
      process.actions.insert(process.actions.begin() + at, {kind, random.below(1000)});
    }
    if (!without.errands && random.one_in(2)) process.errand = choose_errand(random, plan, without);
  }
}

// A file is written over once its checkpoint has gone, which takes some saves.
void save_more(Random& random, Process& process) {
  for (int i = 0; i < 3; ++i) {
    const auto kind = random.one_in(2) ? Kind::save : Kind::save_async;
    process.actions.insert(process.actions.begin(), {kind, random.below(1000)});
  }
  if (process.stop_action > 0) process.stop_action += random.below(4);
}

// Likewise.
void add_base_and_codecs(Random& random, Plan& plan) {
  auto& shape = plan.shape;
  shape.kept = random.one_in(3);
  plan.clones = shape.kept && !plan.direct && random.one_in(3);
  const bool encodes = !random.one_in(4);
  bool encoded = false;
  const auto change = [&](Process& process) {
    if (shape.kept && random.one_in(2)) save_more(random, process);
    if (shape.kept && !plan.clones) process.max_to_keep = std::max(process.max_to_keep, 1);
    if (encodes && process.format == Format::hdf5) process.codec = choose_codec(random);
    if (encodes && process.errand) process.errand->codec = choose_codec(random);
    encoded = encoded || process.codec != StoreCodec::none;
  };
  for (auto& process : plan.processes) change(process);
  if (plan.successor) change(*plan.successor);
  if (!encoded || shape.kept) return;
  shape.rows = std::max<std::int64_t>(shape.rows, 2);  // smaller tensors are not encoded
  shape.columns = 1500;
}

Plan choose_plan(std::uint64_t seed, const Without& without) {
  Random random(seed);
  Plan plan;
  plan.seed = seed;
  plan.direct = random.one_in(5) && !without.direct;
  plan.threads = random.one_in(6) && !without.threads;
  plan.shape.rows = random.between(1, 5);
  plan.shape.columns = pick(random, std::array{2, 90, 700, 1500});
  plan.shape.sliced = random.one_in(2);
  plan.shape.dense = random.one_in(2);
  plan.shape.ragged = random.one_in(3);
  plan.shape.text = random.one_in(2);
  Random kinds(~seed);  // a generator of its own: the seed's other choices stay
  plan.shape.by_id = kinds.one_in(3);
  plan.shape.lengths = kinds.one_in(3);
  plan.shape.sparse = kinds.one_in(3);
  for (int left = random.between(1, 3); left > 0; --left) {
    auto process = choose_process(random, plan, without);
    if (random.one_in(2)) stop_somewhere(random, process);
    process.power_fails = left > 1 && random.one_in(2);
    if (!without.faults && random.one_in(10)) process.at_opening = choose_mishap(random, without);
    if (process.at_opening && without.read_errors && only_reads(*process.at_opening)) {
      process.at_opening->kind = "sync_directory";
    }
    plan.processes.push_back(std::move(process));
  }
  plan.read_errors = random.one_in(3) && !without.read_errors;
  // Without renames two owners are not kept apart.
  if (!random.one_in(3) || without.two_owners || plan.direct) {
    if (plan.processes.back().stop_action < 0 || random.one_in(3)) return plan;
    // The last process only recovers, on a disk that has kept its power.
    auto last = choose_process(random, plan, without);
    last.actions.resize(static_cast<std::size_t>(random.below(2)));
    plan.processes.push_back(std::move(last));
    return plan;
  }
  auto& first = plan.processes.back();
  stop_somewhere(random, first);
  first.at_opening.reset();
  plan.successor = choose_process(random, plan, without);
  auto& second = *plan.successor;
  if (random.one_in(2)) stop_somewhere(random, second);
  if (random.one_in(2)) second.actions.insert(second.actions.begin(), {Kind::save_again});
  const bool none = random.one_in(3);
  first.locks = second.locks = none ? test::Locks::none : test::Locks::granted;
  return plan;
}

}  // namespace

Plan make_plan(std::uint64_t seed, const Without& without) {
  auto plan = choose_plan(seed, without);
  Random random(seed * 3 + 1);
  add_pins_and_errands(random, without, plan);
  add_base_and_codecs(random, plan);
  return plan;
}

std::string text_of(const Process& process) {
  static const char* const kinds[] = {"save", "save_again", "save_async", "save_async_again",
                                      "poll", "wait",       "go_back",    "look",
                                      "pin",  "unpin"};
  static const char* const errands[] = {"an index is copied",       "indexes are exchanged",
                                        "an index is lost",         "an index is damaged",
                                        "metadata are lost",        "a conversion is put beside",
                                        "a conversion in its place"};
  static const char* const busy[] = {"wait", "skip", "replace"};
  static const char* const locks[] = {"of the disk", "always granted", "none"};
  const auto mishap = [](const std::optional<test::Mishap>& one) {
    if (!one) return std::string();
    return cat(" {", one->kind.empty() ? "any change" : one->kind,
               one->path_part.empty() ? "" : cat(" of ", one->path_part), " fails with ",
               code_name(one->code), " after ", one->skip, one->carried_out ? ", carried out" : "",
               one->times > 1 ? cat(", ", one->times, " times") : "",
               one->then_any > 0 ? cat(", then any ", one->then_any) : "", "}");
  };
  auto text = cat(process.ranks, " ranks, ", process.format == Format::hdf5 ? "hdf5" : "bundle",
                  process.codec == StoreCodec::none ? "" : cat(" by ", name_of(process.codec)),
                  ", max_to_keep ", process.max_to_keep, process.recycle ? "" : ", no recycling",
                  process.records ? ", records" : "", process.overwrite ? "" : ", no overwriting",
                  process.io_ranks ? cat(", ", process.io_ranks, " io ranks") : "",
                  ", busy: ", busy[static_cast<int>(process.when_busy)],
                  ", locks: ", locks[static_cast<int>(process.locks)],
                  process.begins_anew ? ", restores nothing" : "", mishap(process.at_opening), ":");
  for (const auto& action : process.actions) {
    text += cat(" ", kinds[static_cast<int>(action.kind)], mishap(action.mishap));
  }
  if (process.stop_action >= 0) {
    text += cat("; stopped ", process.stop.operations, " ", process.stop.kind,
                " operations after number ", process.stop_action, " began");
  }
  if (process.power_fails) text += "; then the power fails";
  if (!process.errand) return text;
  text += cat(
      "; then ", errands[static_cast<int>(process.errand->kind)], " (", process.errand->choice,
      process.errand->codec == StoreCodec::none ? "" : cat(", by ", name_of(process.errand->codec)),
      ")");
  if (process.errand->stop) text += cat(", killed after ", process.errand->stop->operations);
  return text;
}

std::string text_of(const Plan& plan) {
  const auto& shape = plan.shape;
  auto text = cat(
      "seed ", plan.seed, ": ", shape.rows, " x ", shape.columns, shape.sliced ? ", sliced" : "",
      shape.dense ? ", dense" : "", shape.ragged ? ", ragged" : "", shape.text ? ", text" : "",
      shape.by_id ? ", by id" : "", shape.lengths ? ", lengths" : "",
      shape.sparse ? ", sparse" : "", shape.kept ? ", a base" : "",
      plan.clones ? "; shares space" : "", plan.direct ? "; no renames" : "",
      plan.threads ? "; real threads" : "", plan.read_errors ? "; read errors" : "", "\n");
  for (const auto& process : plan.processes) text += cat("  ", text_of(process), "\n");
  if (plan.successor) text += cat("  taken over by ", text_of(*plan.successor), "\n");
  return text;
}

}  // namespace cairn::campaign
