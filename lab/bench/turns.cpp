#include "turns.hpp"

#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace cairn::bench {
namespace {

void print(const nlohmann::json& line) {
  std::printf("@ %s\n", line.dump().c_str());
  std::fflush(stdout);
}

nlohmann::json description(const std::vector<Contestant>& contestants, double bytes, int ranks,
                           const std::string& note) {
  auto all = nlohmann::json::array();
  for (const auto& one : contestants) {
    all.push_back({{"measure", one.measure},
                   {"what", one.what},
                   {"yardstick", one.yardstick},
                   {"against", one.against.empty() ? one.measure : one.against},
                   {"bytes", one.bytes > 0 ? one.bytes : bytes}});
  }
  return {{"contestants", all}, {"np", ranks}, {"note", note}};
}

constexpr std::int64_t the_end = -1;

std::int64_t next_turn(const Ranks& ranks, std::size_t contestants) {
  std::int64_t turn = the_end;
  if (ranks.rank() == 0) {
    std::string line;
    if (std::getline(std::cin, line) && line.starts_with("run ")) turn = std::stoll(line.substr(4));
    if (turn >= static_cast<std::int64_t>(contestants)) {
      throw std::runtime_error("there is no contestant " + line);
    }
  }
  ranks.broadcast_quietly(std::as_writable_bytes(std::span(&turn, 1)));
  return turn;
}

}  // namespace

Time now() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {MPI_Wtime(), seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

Time operator-(const Time& a, const Time& b) {
  return {a.seconds - b.seconds, a.cpu_seconds - b.cpu_seconds};
}

void serve(const Ranks& ranks, std::vector<Contestant> contestants, double bytes,
           const std::string& note) {
  if (ranks.rank() == 0) print(description(contestants, bytes, ranks.size(), note));
  for (;;) {
    const auto turn = next_turn(ranks, contestants.size());
    if (turn < 0) return;
    auto& one = contestants[static_cast<std::size_t>(turn)];
    one.before();
    ranks.barrier();
    const auto start = now();
    one.timed();
    const auto mine = now() - start;
    ranks.barrier();
    const double seconds = ranks.max((now() - start).seconds);
    one.after();
    if (ranks.rank() != 0) continue;
    auto also = nlohmann::json::array();
    for (const auto& part : one.also ? one.also() : std::vector<Part>()) {
      also.push_back({{"measure", part.measure},
                      {"what", part.what},
                      {"seconds", part.time.seconds},
                      {"cpu_seconds", part.time.cpu_seconds}});
    }
    const auto time = one.time ? one.time() : Time{seconds, mine.cpu_seconds};
    print({{"seconds", time.seconds},
           {"rank_0_seconds", mine.seconds},
           {"cpu_seconds", time.cpu_seconds},
           {"also", also}});
  }
}

}  // namespace cairn::bench
