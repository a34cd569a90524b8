#include "base/text.hpp"
#include "cairn/shared_files.hpp"
#include "checkpoint/job.hpp"
#include "checkpoint/save/shared_write.hpp"
#include "group/collectives.hpp"
#include "plan/io_ranks.hpp"

namespace cairn {

std::string hints_text(const std::map<std::string, std::string>& hints) {
  if (hints.empty()) return "no hints";
  std::string text = hints.size() == 1 ? "the hint" : "the hints";
  for (const auto& [key, value] : hints) text += cat(" ", key, "=", value);
  return text;
}

void settle_writer(Job& job) {
  Group& group = *job.group;
  const auto& options = job.options;
  require_same(
      group, "the writer",
      options.writer == Writer::posix
          ? std::string("posix")
          : cat("mpi_io, ", options.mpi_io.files, " files, ", hints_text(options.mpi_io.hints),
                options.mpi_io.read_back ? ", read back" : ""));
  job.file_of.clear();
  if (options.writer == Writer::posix || options.read_only) return;
  const auto nodes = all_gather(group, cat(group.node()));
  job.file_of = together(group, [&] {
    const auto* shared = group.shared_files();
    if (!shared) {
      throw Error(Code::unsupported, "Writer::mpi_io needs the ranks of an MPI communicator",
                  "this group has no files that ranks write together",
                  "Make the group with cairn::mpi(), or use Writer::posix.");
    }
    if (options.io_ranks.choice != IoRanks::Choice::everyone) {
      throw Error(Code::invalid_argument, "Writer::mpi_io does not go with io ranks",
                  "the MPI library chooses by itself which ranks touch a file",
                  "Say how many of them with hints of the library, or use Writer::posix.");
    }
    shared->check(options.mpi_io.hints);
    std::vector<int> node_of_rank;
    for (const auto& node : nodes) node_of_rank.push_back(std::stoi(node));
    return plan::deal_files(node_of_rank, options.mpi_io.files);
  });
}

}  // namespace cairn
