// MPI-IO: ranks that share a file compute their ranges from one exchange, then write in rounds
// together.
#include "session/save/writers/shared.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "cairn/shared_files.hpp"
#include "exchange/io_ranks.hpp"
#include "layout/offsets.hpp"
#include "session/save/dense_runs.hpp"
#include "session/save/writers/read_back.hpp"
#include "session/save/writers/shared_range.hpp"

namespace cairn {
namespace {

// Where a rank writes in its file, computed from what all ranks have.
struct Place {
  int number = -1;  // -1: no rank of the file has entries
  bool makes_it = false;
  std::int64_t begin = 0, end = 0;  // of this rank's range; of the whole file
  std::size_t rounds = 0;
};

struct OfRank {
  bool has_entries = false;
  std::int64_t bytes = 0;
  std::size_t rounds = 0;
};

Place find_place(const Job& job, const SharedRange& range, bool has_entries) {
  const auto all = all_gather(*job.group, pack(OfRank{has_entries, range.bytes(),
                                                      static_cast<std::size_t>(range.frames())}));
  const auto me = static_cast<std::size_t>(job.rank());
  const auto mine = job.places.file_of[me];
  Place place;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (job.places.file_of[rank] != mine) continue;
    const auto [has_some, bytes, rounds] = unpack<OfRank>(all[rank]);
    // The lowest rank with entries makes the file.
    if (has_some && place.number < 0) {
      place.number = mine;
      place.makes_it = rank == me;
    }
    if (bytes > 0) {
      if (rank == me) place.begin = next_page(place.end);
      place.end = next_page(place.end) + bytes;
    }
    place.rounds = std::max(place.rounds, rounds);
  }
  return place;
}

// Makes the file and reserves its space. This call reports a full disk, while an MPI library may
// report nothing, or hang.
void make_shared(const Job& job, const io::Path& path, std::int64_t bytes) {
  const auto file = job.files->create(path);
  file->reserve(bytes);
  file->close();
}

// Collective. Ranks that give the same number open a file together. Returns null for -1.
std::unique_ptr<SharedFile> open_shared(const Job& job, const io::Path& path, int number) {
  return run_and_agree(*job.group, [&] {
    return job.group->shared_files()->open(path, number, job.options.write.mpi_io.hints);
  });
}

class SharedRuns final : public RunsFile {
 public:
  SharedRuns(const Job& job, const DensePlan& plan, const RunsTarget& place, int first_file)
      : plan_(plan), first_file_(first_file), file_(open_shared(job, place.path, 0)) {}

  // All ranks take part in as many writes as the rank with most runs.
  void write(RunsInHand& hand, std::vector<StoredTensor>& entries, DeferredError& error) override {
    for (const auto& one : hand.runs) {
      const auto& run = plan_.run(one.first);
      const auto offset = plan_.offset_of(run);
      const std::span all(one.second.bytes, static_cast<std::size_t>(run.bytes));
      error.guard([&] { file_->write_at_all(offset, error ? all.first(0) : all); });
      if (error) continue;
      error.guard([&] {
        write_run(plan_, one.first, one.second.bytes, first_file_, nullptr, entries,
                  hand.not_finite);
      });
    }
    for (auto times = hand.round->most_runs - static_cast<int>(hand.runs.size()); times > 0;
         --times) {
      error.guard([&] { file_->write_at_all(0, {}); });
    }
  }

  void close(DeferredError& error) override {
    error.guard([&] { file_->sync(); });
    error.guard([&] { file_->close(); });
  }

 private:
  const DensePlan& plan_;
  int first_file_;
  std::unique_ptr<SharedFile> file_;
};

}  // namespace

bool SharedByRanks::serves(const Job& job) const {
  return job.options.write.writer == Writer::mpi_io;
}

std::string SharedByRanks::description(const ManagerOptions& options) const {
  const auto& mpi_io = options.write.mpi_io;
  return cat("mpi_io, ", mpi_io.files, " files, ", mpi_io_text(mpi_io));
}

void SharedByRanks::validate(Job& job) const {
  Group& group = *job.group;
  job.places.file_of = run_and_agree(group, [&] {
    const auto& options = job.options;
    const auto* shared = group.shared_files();
    if (!shared) {
      throw Error(Code::unsupported, cat(name(), " needs the ranks of an MPI communicator"),
                  "this group has no files that ranks write together",
                  "Make the group with cairn::mpi(), or use Writer::posix.");
    }
    shared->check(options.write.mpi_io.hints);
    return plan::deal_files(job.places.node_of, options.write.mpi_io.files);
  });
}

// Numbers the files for which some rank has a shard, in the order in which files were dealt.
DataWriter::Files SharedByRanks::number(const Job& job, const std::vector<int>& shards,
                                        bool /*one_file*/) const {
  std::map<int, int> numbers;
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    if (shards[rank] > 0) numbers.emplace(job.places.file_of[rank], 0);
  }
  Files files;
  for (auto& one : numbers) one.second = files.all++;
  const auto mine = numbers.find(job.places.file_of[static_cast<std::size_t>(job.rank())]);
  if (mine != numbers.end()) files.first = mine->second;
  return files;
}

std::vector<StoredTensor> SharedByRanks::write_with_others(const Job& job,
                                                           const RefreshedState& state,
                                                           const LocalShards& local,
                                                           const FileLayout& layout,
                                                           const Draft& draft) const {
  Group& group = *job.group;
  auto range = run_and_agree(group, [&] {
    return SharedRange(outgoing(state, local, layout.first_file, layout.one_file),
                       job.options.write.chunk_bytes, draft.not_finite());
  });
  const auto place = find_place(job, range, !local.shards.empty());
  const auto path = draft.path(layout.first_file);
  run_and_agree(group, [&] {
    range.set_begin(place.begin);
    if (place.makes_it) make_shared(job, path, place.end);
  });
  auto file = open_shared(job, path, place.number);
  // Once rounds have begun, a rank that threw would leave the others waiting, so errors are kept.
  DeferredError error;
  if (file) {
    for (std::size_t round = 0; round < place.rounds; ++round) {
      // Empty after an error and after this rank's last frame: it still takes part in the
      // collective write.
      SharedRange::Bytes frame;
      error.guard([&] {
        if (!error && round < range.frames()) frame = range.fill(round);
      });
      error.guard([&] { file->write_at_all(frame.offset, frame.bytes); });
    }
    error.guard([&] { file->sync(); });
    error.guard([&] { file->close(); });
  }
  // Ranks also agree because one rank's sync may have had to write another rank's bytes.
  agree(group, error.first());
  return run_and_agree(group, [&] {
    auto entries = range.take_entries();
    read_back(job, path, entries, range.checksums());
    return entries;
  });
}

void SharedByRanks::make_runs(const Job& job, const DensePlan&, const RunsTarget& place, int,
                              const Draft&) const {
  if (place.makes_it) make_shared(job, place.path, place.bytes);
}

std::unique_ptr<RunsFile> SharedByRanks::open_runs(const Job& job, const DensePlan& plan,
                                                   const RunsTarget& place, int first_file,
                                                   DeferredError&) const {
  return std::make_unique<SharedRuns>(job, plan, place, first_file);
}

void SharedByRanks::check_runs(const Job& job, const RunsTarget& place,
                               const std::vector<StoredTensor>& entries) const {
  read_runs_back(job, place.path, entries);
}

}  // namespace cairn
