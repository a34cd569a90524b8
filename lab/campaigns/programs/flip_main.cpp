// The flip campaign: damage to any file of checkpoint directories on a disk in memory. Verify must
// name it, or it must be harmless; no restore may give wrong values.
//
//   campaign_flip --seeds A-B [--part K/N] [--flips COUNT] [--without hdf5] [--seconds S] [--blind]
//   campaign_flip --seed N [--flip K] [--verbose] ...
//
//   --part K/N     of these seeds each Nth, from the Kth on (1 ... N)
//   --flips COUNT  damages a seed (default 20), each to the same directory as it was; --flip K:
//                  the Kth alone
//   --without hdf5 bundles only
//   --seconds S    begin no seed later than that
//   --blind        as if verify found nothing, to see that this is found
//
// The last line is "seeds N flips N named N harmless N restores N refused N unchanged N there N
// encoded N there N findings N": of unchanged bytes that saves have left out, and of seeds with
// encoded chunks, it says how many flips hit them. Exit status 1: there are findings. It is one if
// many seeds have left nothing out, or encoded nothing.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "lab/campaigns/programs/codecs.hpp"
#include "lab/campaigns/programs/command_line.hpp"
#include "lab/campaigns/programs/flip_case.hpp"
#include "store/commit/ownership.hpp"
#include "store/contents/hdf5_reader.hpp"

namespace cairn::campaign {
namespace {

struct Options {
  std::uint64_t first = 1, last = 1, part = 1, parts = 1;
  int flips = 20, flip = 0;
  double seconds = 0;
  bool hdf5 = has_hdf5, verbose = false, blind = false;
  std::string without;
};

Options parse(int count, char** arguments) {
  Options options;
  CommandLine line("flip_main.cpp");
  line.flag("--verbose", options.verbose);
  line.flag("--blind", options.blind);
  line.range("--seeds", '-', options.first, options.last);
  line.range("--seed", '-', options.first, options.last);
  line.range("--part", '/', options.part, options.parts);
  line.number("--flips", options.flips);
  line.number("--flip", options.flip);
  line.number("--seconds", options.seconds);
  line.text("--without", options.without);
  line.read(count, arguments);
  if (options.part < 1 || options.part > options.parts) line.refuse("--part K/N wants 1 <= K <= N");
  if (options.first > options.last) line.refuse("--seeds A-B wants A <= B");
  const auto& without = options.without;
  if (!without.empty() && without != "hdf5") line.refuse("--without knows hdf5 alone");
  options.hdf5 = has_hdf5 && without.empty();
  if (options.flip > 0) options.flips = options.flip;
  return options;
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Totals {
  std::int64_t seeds = 0, flips = 0, named = 0, harmless = 0, restores = 0, refused = 0,
               findings = 0;
  std::int64_t left_out = 0, left_out_flips = 0;  ///< bytes that saves have left out; flips there
  std::int64_t encoded = 0, encoded_flips = 0;    ///< seeds with encoded chunks; flips of them
};

// Returns whether these are bytes of a tensor, so that verify must name the damage.
bool count(const Home& home, const Damage& damage, Totals& totals) {
  const auto hits = [&](const auto& one) {
    return one.file == damage.file && one.begin <= damage.begin && damage.begin < one.end;
  };
  if (damage.kind == Damage::Kind::exchange) return false;
  const bool left_out = std::any_of(home.left_out.begin(), home.left_out.end(), hits);
  const bool encoded = std::any_of(home.encoded.begin(), home.encoded.end(), hits);
  totals.left_out_flips += left_out;
  totals.encoded_flips += encoded;
  return left_out || encoded;
}

// What many seeds must have seen. Few may lack it by chance.
void require_all_kinds(const Options& options, Totals& totals) {
  if (totals.seeds < 20) return;
  const auto require = [&](std::int64_t count, const char* what) {
    if (count > 0) return;
    ++totals.findings;
    std::cout << cat("seeds ", options.first, "-", options.last, ": ", what, "\n");
  };
  require(totals.left_out, "no save has left out bytes that were unchanged");
  if (options.flips >= 10) require(totals.left_out_flips, "no flip has hit bytes left out");
  if (!options.hdf5 || !any_codec()) return;
  require(totals.encoded, "no checkpoint has encoded chunks");
  if (options.flips >= 10) require(totals.encoded_flips, "no flip has hit an encoded chunk");
}

void flip(const Home& home, const Options& options, int number, Totals& totals) {
  Random random(home.seed * 100003 + static_cast<std::uint64_t>(number));
  const auto disk = home.disk->crash(home.disk->operation_count(), {.keep = true});
  const auto damage = do_damage(home, *disk, random);
  auto found = look_at_damage(home, disk, damage, random, options.hdf5, options.blind);
  ++totals.flips;
  if (count(home, damage, totals) && !found.named) {
    found.wrong += "\n    verify does not name damage to bytes of a tensor";
  }
  ++(found.named ? totals.named : totals.harmless);
  totals.restores += found.restores;
  totals.refused += found.refused;
  if (options.verbose) {
    std::cout << cat("  ", number, ": ", damage.text, found.named ? ": named" : ": harmless", ", ",
                     found.restores, " restores, ", found.refused, " errors\n");
  }
  if (found.wrong.empty()) return;
  ++totals.findings;
  if (!found.named) --totals.harmless;
  std::cout << cat(home.text, "\nseed ", home.seed, " flip ", number, ": ", damage.text,
                   found.wrong, "\nagain: campaign_flip --seed ", home.seed, " --flip ", number,
                   options.without.empty() ? "" : cat(" --without ", options.without), "\n")
            << std::flush;
}

int run(const Options& options) {
  set_log_sink({});
  const auto start = now_seconds();
  Totals totals;
  for (auto seed = options.first + options.part - 1; seed <= options.last; seed += options.parts) {
    if (options.seconds > 0 && now_seconds() - start > options.seconds) break;
    const auto home = make_home(seed, options.hdf5);
    if (options.verbose) std::cout << cat(home.text, "\n");
    ++totals.seeds;
    totals.left_out += home.unchanged_bytes;
    totals.encoded += !home.encoded.empty();
    for (int i = options.flip > 0 ? options.flip : 1; i <= options.flips; ++i) {
      flip(home, options, i, totals);
    }
  }
  require_all_kinds(options, totals);
  std::cout << cat("seeds ", totals.seeds, " flips ", totals.flips, " named ", totals.named,
                   " harmless ", totals.harmless, " restores ", totals.restores, " refused ",
                   totals.refused, " unchanged ", totals.left_out, " there ", totals.left_out_flips,
                   " encoded ", totals.encoded, " there ", totals.encoded_flips, " findings ",
                   totals.findings, "\n");
  return totals.findings > 0;
}

}  // namespace
}  // namespace cairn::campaign

int main(int count, char** arguments) {
  // A damaged record of an owner may seem to be another host's, which is waited for.
  cairn::commit::default_ownership().lock_stale_seconds = 0;
  cairn::commit::default_ownership().overlap_seconds = 0;
  try {
    return cairn::campaign::run(cairn::campaign::parse(count, arguments));
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
