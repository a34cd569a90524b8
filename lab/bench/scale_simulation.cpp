// What saves and restores of a job of many ranks cost besides their bytes: the library's own code,
// one rank at a time, over a disk and messages in memory whose costs are a model's
// (src/testing/machine.hpp). docs/performance.md says what is assumed.
//
// usage: scale_simulation [--states grid,amr,train,particles] [--ranks 64,1024] [--json FILE]
//          [--everyone] [--async] [--restores] [--stages] [--ranks-per-node 16]
//          [--operation 0.0005] [--repetitions 2] [--storage automatic|sliced|dense]
#include <malloc.h>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "cairn/error.hpp"
#include "lab/bench/count_memory.hpp"
#include "lab/bench/scale_job.hpp"
#include "lab/bench/scale_states.hpp"

namespace {

using namespace cairn;
using namespace cairn::bench;

struct Settings {
  std::vector<std::string> states = scale_states();
  std::vector<int> ranks{64, 1024};
  std::string json;
  bool everyone = false, async = false, restores = false, stages = false;
  int repetitions = 2;
  Storage storage = Storage::automatic;
  MachineOptions machine;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

Storage storage_of(const std::string& word) {
  const std::map<std::string, Storage> known{
      {"automatic", Storage::automatic}, {"sliced", Storage::sliced}, {"dense", Storage::dense}};
  const auto found = known.find(word);
  if (found == known.end()) throw Error(Code::invalid_argument, word + " is no kind of storage");
  return found->second;
}

Settings settings_of(int count, char** words) {
  Settings settings;
  const std::map<std::string, bool*> flags{{"--everyone", &settings.everyone},
                                           {"--async", &settings.async},
                                           {"--restores", &settings.restores},
                                           {"--stages", &settings.stages}};
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (const auto flag = flags.find(word); flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    if (i + 1 == count) throw Error(Code::invalid_argument, word + " needs a value, or is unknown");
    const std::string value = words[++i];
    if (word == "--states") {
      settings.states = split(value);
    } else if (word == "--ranks") {
      settings.ranks.clear();
      for (const auto& part : split(value)) settings.ranks.push_back(std::stoi(part));
    } else if (word == "--json") {
      settings.json = value;
    } else if (word == "--ranks-per-node") {
      settings.machine.ranks_per_node = std::stoi(value);
    } else if (word == "--operation") {
      settings.machine.files.operation = settings.machine.files.sync = std::stod(value);
    } else if (word == "--repetitions") {
      settings.repetitions = std::stoi(value);
    } else if (word == "--storage") {
      settings.storage = storage_of(value);
    } else {
      throw Error(Code::invalid_argument, word + " is no option");
    }
  }
  return settings;
}

void print(const std::string& state, const ScaleCall& call, const ScaleRow& row) {
  std::printf("%-9s %6d %-16s %-8s %9.4f |", state.c_str(), call.ranks, call.what.c_str(),
              row.stage.c_str(), row.seconds);
  for (const double seconds : row.way) std::printf(" %8.4f", seconds);
  std::printf(" | %8.4f %8.4f | %6lld %6lld %9lld | %5lld %5lld %7lld | %8.3f\n", row.work_most,
              row.work_root, static_cast<long long>(row.messages_root),
              static_cast<long long>(row.messages_most), static_cast<long long>(row.bytes_most),
              static_cast<long long>(row.paths_root.total()),
              static_cast<long long>(row.paths_most), static_cast<long long>(row.paths_sum),
              static_cast<double>(row.memory_most) / (1 << 20));
  std::fflush(stdout);
}

std::string json_of(const std::string& state, const ScaleCall& call, const ScaleRow& row) {
  std::ostringstream out;
  out << "{\"state\": \"" << state << "\", \"ranks\": " << call.ranks << ", \"what\": \""
      << call.what << "\", \"stage\": \"" << row.stage << "\", \"seconds\": " << row.seconds;
  for (std::size_t part = 0; part < row.way.size(); ++part) {
    out << ", \"" << Machine::Time::names[part] << "\": " << row.way[part];
  }
  out << ", \"work_most\": " << row.work_most << ", \"work_root\": " << row.work_root
      << ", \"messages_most\": " << row.messages_most
      << ", \"messages_root\": " << row.messages_root << ", \"bytes_most\": " << row.bytes_most
      << ", \"bytes_root\": " << row.bytes_root << ", \"paths_root\": " << row.paths_root.total()
      << ", \"syncs_root\": " << row.paths_root.syncs() << ", \"paths_most\": " << row.paths_most
      << ", \"paths_sum\": " << row.paths_sum << ", \"memory_most\": " << row.memory_most
      << ", \"memory_root\": " << row.memory_root << "}";
  return out.str();
}

void write(const std::string& path, const std::vector<std::string>& lines) {
  if (path.empty()) return;
  std::ofstream out(path);
  for (std::size_t i = 0; i < lines.size(); ++i) out << (i ? ",\n " : "[") << lines[i];
  out << "]\n";
}

void simulate_all(const Settings& settings) {
  std::printf("%-9s %6s %-16s %-8s %9s |", "state", "ranks", "call", "stage", "seconds");
  for (const char* part : Machine::Time::names) std::printf(" %8s", part);
  std::printf(" | %8s %8s | %6s %6s %9s | %5s %5s %7s | %8s\n", "cpu most", "cpu root", "in root",
              "in most", "bytes in", "op r0", "most", "sum", "MiB most");
  std::vector<std::string> lines;
  const auto run = [&](const ScaleJob& job, const std::string& after) {
    const auto begin = std::chrono::steady_clock::now();
    count_memory(job.ranks);
    simulate(job, [&](ScaleCall call) {
      call.what += after;
      for (const auto& row : call.rows) {
        if (settings.stages || row.stage == "all") print(job.state, call, row);
        lines.push_back(json_of(job.state, call, row));
      }
      write(settings.json, lines);  // a larger job may find no memory
    });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("# %s on %d ranks%s: simulated in %.1f s\n", job.state.c_str(), job.ranks,
                after.c_str(), took.count());
    std::fflush(stdout);
  };
  for (const auto& state : settings.states) {
    for (const int ranks : settings.ranks) {
      ScaleJob job;
      job.state = state;
      job.ranks = ranks;
      job.machine = settings.machine;
      job.repetitions = settings.repetitions;
      job.storage = settings.storage;
      job.async = settings.async;
      job.restores = settings.restores;
      job.take_most_memory = take_most_memory;
      run(job, "");
      if (!settings.everyone) continue;
      job.io_ranks = IoRanks::everyone();
      job.async = job.restores = false;
      run(job, ", everyone");
    }
  }
}

}  // namespace

int main(int count, char** words) try {
  // If memory were returned to the system and taken again, each rank would have page faults.
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  simulate_all(settings_of(count, words));
  return 0;
} catch (const std::exception& error) {
  std::cerr << "scale_simulation: " << error.what() << "\n";
  return 1;
}
