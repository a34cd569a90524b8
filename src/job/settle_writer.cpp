#include "base/text.hpp"
#include "cairn/log.hpp"
#include "cairn/shared_files.hpp"
#include "group/collectives.hpp"
#include "job/job.hpp"
#include "plan/io_ranks.hpp"

namespace cairn {

std::string hints_text(const std::map<std::string, std::string>& hints) {
  if (hints.empty()) return "no hints";
  std::string text = hints.size() == 1 ? "the hint" : "the hints";
  for (const auto& [key, value] : hints) text += cat(" ", key, "=", value);
  return text;
}

namespace {

std::string text_of(const ManagerOptions& options) {
  const auto& mpi_io = options.write.mpi_io;
  if (options.write.writer == Writer::posix) return "posix";
  return cat(options.write.writer == Writer::mpi_io ? cat("mpi_io, ", mpi_io.files, " files")
                                                    : std::string("hdf5_collective"),
             ", ", hints_text(mpi_io.hints), mpi_io.read_back ? ", read back" : "");
}

void require_no_io_ranks(const ManagerOptions& options, const char* writer) {
  if (options.write.io_ranks.choice == IoRanks::Choice::everyone) return;
  throw Error(Code::invalid_argument, cat(writer, " does not go with io ranks"),
              "the MPI library chooses by itself which ranks touch a file",
              "Say how many of them with hints of the library, or use Writer::posix.");
}

void require_datasets(const Job& job) {
  const auto& options = job.options;
  constexpr const char* writer = "Writer::hdf5_collective";
  if (options.store.format != Format::hdf5) {
    throw Error(Code::invalid_argument, cat(writer, " cannot write bundles"),
                "it writes the datasets of HDF5 files",
                "Set the format to Format::hdf5, or use Writer::mpi_io.");
  }
  const auto* datasets = job.group->dataset_files();
  if (!datasets) {
    throw Error(Code::unsupported, cat(writer, " needs the ranks of an MPI communicator"),
                "this group has no HDF5 files that ranks write together",
                "Make the group with cairn::mpi(), or use Writer::posix: the files are the same.");
  }
  require_no_io_ranks(options, writer);
  datasets->check(options.write.mpi_io.hints);
}

// Files are the writer's to choose: what a policy is promised of their sizes does not hold then.
void warn_of_policy(const ManagerOptions& options) {
  const bool hdf5 = options.store.format == Format::hdf5;
  if (!hdf5 && options.write.writer != Writer::mpi_io) return;
  if (!options.store.policy || dynamic_cast<const ShardByTaskPolicy*>(options.store.policy.get()))
    return;
  log(LogLevel::warning,
      cat("the sharding policy '", options.store.policy->description(), "' ",
          hdf5 ? "is never called: a checkpoint as HDF5 is one file, which holds each tensor whole."
               : "has no say in data files but those of dense tensors: with Writer::mpi_io all "
                 "shards of a rank go to a file that ranks share, which may become larger than "
                 "they are."));
}

}  // namespace

void settle_writer(Job& job) {
  Group& group = *job.group;
  const auto& options = job.options;
  require_same(group, "the writer", text_of(options));
  if (job.root() && !options.read_only) warn_of_policy(options);
  job.file_of.clear();
  if (options.write.writer == Writer::posix || options.read_only) return;
  if (job.writes_datasets()) return together(group, [&] { require_datasets(job); });
  job.file_of = together(group, [&] {
    const auto* shared = group.shared_files();
    if (!shared) {
      throw Error(Code::unsupported, "Writer::mpi_io needs the ranks of an MPI communicator",
                  "this group has no files that ranks write together",
                  "Make the group with cairn::mpi(), or use Writer::posix.");
    }
    require_no_io_ranks(options, "Writer::mpi_io");
    shared->check(options.write.mpi_io.hints);
    return plan::deal_files(job.node_of, options.write.mpi_io.files);
  });
}

}  // namespace cairn
