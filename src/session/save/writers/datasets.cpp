// Writes dense tensors as datasets through parallel HDF5. Transfers are collective, so a rank that
// has failed takes part without data.
#include "session/save/writers/datasets.hpp"

#include <cstring>
#include <span>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/shared_files.hpp"
#include "session/save/dense_runs.hpp"
#include "session/save/writers/read_back.hpp"

namespace cairn {
namespace {

// Joins a box to the last one if it begins where that one ends, in one dimension, and is equal in
// the others. HDF5 is faster with few boxes.
void add_joined(std::vector<Box>& boxes, const Box& box) {
  if (!boxes.empty() && !box.start.empty()) {
    auto& last = boxes.back();
    std::size_t differs = 0, where = 0;
    for (std::size_t d = 0; d < box.start.size(); ++d) {
      if (box.start[d] == last.start[d] && box.extent[d] == last.extent[d]) continue;
      ++differs;
      where = d;
    }
    if (differs == 1 && box.start[where] == last.start[where] + last.extent[where]) {
      last.extent[where] += box.extent[where];
      return;
    }
  }
  boxes.push_back(box);
}

class DatasetRuns final : public RunsFile {
 public:
  DatasetRuns(const Job& job, const DensePlan& plan, const io::Path& path, int first_file)
      : plan_(plan), first_file_(first_file) {
    Group& group = *job.group;
    // Each rank also opens the file by itself, to sync it at the end, and because HDF5 may leave
    // the other ranks waiting if its open fails on one rank.
    run_and_agree(group, [&] { file_ = job.files->open_write(path); });
    datasets_ = run_and_agree(
        group, [&] { return group.dataset_files()->open(path, job.options.write.mpi_io.hints); });
  }

  // Writes all ranks' runs of a tensor in one transfer, tensor by tensor.
  void write(RunsInHand& hand, std::vector<StoredTensor>& entries, DeferredError& error) override {
    std::map<int, std::vector<int>> tensors;  // of all ranks → this rank's runs
    for (auto t = hand.round->first_tensor; t <= hand.round->last_tensor; ++t) tensors[t];
    for (const auto& one : hand.runs) {
      tensors[plan_.run(one.first).source].push_back(one.first);
    }
    for (const auto& one : tensors) {
      const auto& mine = one.second;
      std::vector<Box> boxes;
      const std::byte* bytes = nullptr;
      std::vector<DatasetFile::Block> blocks;
      error.guard([&] {
        if (error || mine.empty()) return;
        bytes = in_a_row(hand, mine);
        for (const auto number : mine) {
          add_joined(boxes, plan_.run(number).box);
        }
        blocks.reserve(boxes.size());
        for (const auto& box : boxes) blocks.push_back({box.start, box.extent});
      });
      // The transfer is collective, so this rank goes into it with nothing.
      if (error) blocks.clear();
      const auto& key = plan_.tensors[static_cast<std::size_t>(one.first)].key;
      // Checksums are computed after the transfer, from the same memory.
      error.guard([&] { datasets_->write_all(key, blocks, bytes); });
      for (const auto number : mine) {
        if (error) break;
        error.guard([&] {
          write_run(plan_, number, hand.runs.at(number).bytes, first_file_, nullptr, entries,
                    hand.not_finite);
        });
      }
    }
  }

  void close(DeferredError& error) override {
    error.guard([&] { datasets_->flush(); });
    error.guard([&] { datasets_->close(); });
    error.guard([&] {
      file_->sync();
      file_->close();
    });
  }

 private:
  // Returns the runs of a tensor as contiguous memory. They are contiguous in the buffer. If they
  // lie in the application's memory and are not contiguous there, they are copied to the buffer.
  const std::byte* in_a_row(RunsInHand& hand, std::span<const int> runs) const {
    const auto size = [&](int number) { return plan_.run(number).bytes; };
    const auto* first = hand.runs.at(runs.front()).bytes;
    const auto* next = first;
    bool row = true;
    for (const auto number : runs) {
      row = row && hand.runs.at(number).bytes == next;
      next += size(number);
    }
    if (row) return first;
    for (const auto number : runs) {
      auto& run = hand.runs.at(number);
      if (run.bytes != run.buffer) {
        std::memcpy(run.buffer, run.bytes, static_cast<std::size_t>(size(number)));
      }
      run.bytes = run.buffer;
    }
    return hand.runs.at(runs.front()).buffer;
  }

  const DensePlan& plan_;
  int first_file_;
  std::unique_ptr<io::File> file_;
  std::unique_ptr<DatasetFile> datasets_;
};

// Rank 0. HDF5 cuts off the seal of the unfinished save. Without that seal no recovery could
// complete the save.
void put_back(io::FileSystem& files, const RunsTarget& place) {
  const auto file = files.open_write(place.path);
  for (const auto& [offset, bytes] : *place.made) {
    file->write_at(offset, std::as_bytes(std::span(bytes)));
  }
  file->sync();
  file->close();
}

}  // namespace

bool CollectiveDatasets::serves(const Job& job) const {
  return job.options.write.writer == Writer::hdf5_collective;
}

std::string CollectiveDatasets::description(const ManagerOptions& options) const {
  return cat("hdf5_collective, ", mpi_io_text(options.write.mpi_io));
}

void CollectiveDatasets::validate(Job& job) const {
  run_and_agree(*job.group, [&] {
    const auto& options = job.options;
    if (options.store.format != Format::hdf5) {
      throw Error(Code::invalid_argument, cat(name(), " cannot write bundles"),
                  "it writes the datasets of HDF5 files",
                  "Set the format to Format::hdf5, or use Writer::mpi_io.");
    }
    const auto* datasets = job.group->dataset_files();
    if (!datasets) {
      throw Error(
          Code::unsupported, cat(name(), " needs the ranks of an MPI communicator"),
          "this group has no HDF5 files that ranks write together",
          "Make the group with cairn::mpi(), or use Writer::posix: the files are the same.");
    }
    datasets->check(options.write.mpi_io.hints);
  });
}

std::unique_ptr<RunsFile> CollectiveDatasets::open_runs(const Job& job, const DensePlan& plan,
                                                        const RunsTarget& place, int first_file,
                                                        DeferredError&) const {
  return std::make_unique<DatasetRuns>(job, plan, place.path, first_file);
}

void CollectiveDatasets::check_runs(const Job& job, const RunsTarget& place,
                                    const std::vector<StoredTensor>& entries) const {
  read_runs_back(job, place.path, entries);
  run_and_agree(*job.group, [&] {
    if (job.root()) put_back(*job.files, place);
  });
}

}  // namespace cairn
