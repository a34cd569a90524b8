// Each rank by itself: no message is needed to write.
#include "session/save/writers/own_files.hpp"

#include "session/save/dense_runs.hpp"
#include "session/save/shard_files.hpp"

namespace cairn {
namespace {

class OwnRuns final : public RunsFile {
 public:
  // `file` is null if this rank has no runs in it.
  OwnRuns(const DensePlan& plan, int first_file, std::unique_ptr<io::File> file)
      : plan_(plan), first_file_(first_file), file_(std::move(file)), encoded_(plan) {}

  void write(RunsInHand& hand, std::vector<StoredTensor>& entries, DeferredError& error) override {
    for (const auto& one : hand.runs) {
      if (error) return;
      error.guard([&] {
        write_run(plan_, one.first, one.second.bytes, first_file_, file_.get(), entries,
                  hand.not_finite, &encoded_);
      });
    }
  }

  void close(DeferredError& error) override {
    if (!file_) return;
    error.guard([&] { encoded_.close(*file_); });
  }

 private:
  const DensePlan& plan_;
  int first_file_;
  std::unique_ptr<io::File> file_;
  EncodedChunks encoded_;
};

}  // namespace

bool OwnFiles::serves(const Job& job) const {
  return job.options.write.writer == Writer::posix && job.places.served_by.empty();
}

std::vector<StoredTensor> OwnFiles::write_alone(const Job&, const RefreshedState& state,
                                                const LocalShards& local, const FileLayout& layout,
                                                const Draft& draft) const {
  auto out = outgoing(state, local, layout.first_file);
  write_files(draft, out);
  return std::move(out.entries);
}

void OwnFiles::make_runs(const Job& job, const DensePlan& plan, const RunsTarget& place,
                         int first_file, const Draft& draft) const {
  if (!place.makes_it || job.part_bytes > 0) return;
  // Closed at once: every rank with runs, this one too, opens it again.
  make_dense_file(draft, plan, place.file, first_file)->close();
}

std::unique_ptr<RunsFile> OwnFiles::open_runs(const Job& job, const DensePlan& plan,
                                              const RunsTarget& place, int first_file,
                                              DeferredError& error) const {
  std::unique_ptr<io::File> file;
  if (place.has_runs) {
    error.guard([&] {
      file = job.part_bytes > 0 ? open_parts(place.draft, plan, place.file, first_file)
                                : job.files->open_write(place.path);
      file->stream(job.options.write.direct_io);
    });
  }
  return std::make_unique<OwnRuns>(plan, first_file, std::move(file));
}

}  // namespace cairn
