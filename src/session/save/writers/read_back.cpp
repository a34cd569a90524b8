// Reads what an MPI library says it has written.
#include "session/save/writers/read_back.hpp"

#include <algorithm>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/shared_files.hpp"
#include "group/collectives.hpp"
#include "layout/offsets.hpp"

namespace cairn {
namespace {

std::string hints_text(const std::map<std::string, std::string>& hints) {
  if (hints.empty()) return "no hints";
  std::string text = hints.size() == 1 ? "the hint" : "the hints";
  for (const auto& [key, value] : hints) text += cat(" ", key, "=", value);
  return text;
}

std::uint32_t stored_checksum(const io::File& file, const Piece& slice,
                              std::span<std::byte> buffer) {
  std::uint32_t crc = 0;
  for (std::int64_t at = 0; at < slice.stored_bytes;) {
    const auto rest = static_cast<std::size_t>(slice.stored_bytes - at);
    const auto piece = buffer.first(std::min(buffer.size(), rest));
    file.read_at(place_of(slice, at), piece);
    crc = crc32c(piece, crc);
    at += static_cast<std::int64_t>(piece.size());
  }
  return crc;
}

}  // namespace

std::string mpi_io_text(const MpiIoOptions& options) {
  return cat(hints_text(options.hints), options.read_back ? ", read back" : "");
}

void read_back(const Job& job, const io::Path& path, const std::vector<StoredTensor>& entries,
               const std::vector<std::uint32_t>& checksums) {
  const auto& options = job.options.write.mpi_io;
  const auto& shared = *job.group->shared_files();
  const auto doubt = shared.doubt(options.hints);
  if (entries.empty()) return;
  // Opened again, so that a network file system asks its server.
  const auto file = job.files->open_read(path);
  const auto size = file->size();
  const bool read_all = options.read_back || !doubt.empty();
  std::vector<std::byte> buffer(static_cast<std::size_t>(cached_bytes));
  std::size_t number = 0;
  for (const auto& entry : entries) {
    for (const auto& slice : entry.slices) {
      const auto written = checksums[number++];
      const auto end = end_of(slice);
      // The file is new, so a write that failed unnoticed leaves a hole. Zeros may look like a
      // hole, too.
      if (slice.stored_bytes == 0 || (!read_all && file->next_hole(slice.offset) >= end)) continue;
      if (end <= size && stored_checksum(*file, slice, buffer) == written) continue;
      const auto what =
          cat("bytes ", slice.offset, " to ", end, " of data file ", path.filename().string(),
              " are not what rank ", job.rank(), " wrote there");
      // A full disk is the likely cause if not even this slice has room now.
      const auto free = job.files->free_bytes(job.directory);
      const bool full = free < slice.stored_bytes;
      throw Error(full ? Code::no_space : Code::data_loss, what,
                  cat("tensor '", entry.key, "' was written by ", shared.library(), " with ",
                      hints_text(options.hints), ", which reported no error; ",
                      end > size ? cat("the file ends at ", size)
                                 : std::string("read back, the checksum is another one"),
                      doubt.empty() ? "" : cat("; ", doubt), "; ",
                      bytes_text(static_cast<double>(free)), " are free"),
                  full                     ? "Free space."
                  : !options.hints.empty() ? "Do without the hints, or use Writer::posix."
                  : !doubt.empty()
                      ? "Use Writer::posix, or an MPI library that is not known for it."
                      : "Look for limits and failures of the disk, or use Writer::posix.")
          .at(path.string())
          .of_tensor(entry.key)
          .on_rank(job.rank());
    }
  }
}

void read_runs_back(const Job& job, const io::Path& path,
                    const std::vector<StoredTensor>& entries) {
  run_and_agree(*job.group, [&] {
    std::vector<std::uint32_t> checksums;
    for (const auto& entry : entries) {
      for (const auto& slice : entry.slices) checksums.push_back(slice.crc32c);
    }
    read_back(job, path, entries, checksums);
  });
}

}  // namespace cairn
