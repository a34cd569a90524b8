// The save of shards into shared files: rounds in which all ranks of a file write a frame each.
#include "save/shared_write.hpp"

#include <algorithm>
#include <optional>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "group/collectives.hpp"
#include "save/shared_range.hpp"

namespace cairn {
namespace {

// A rank's place in its file, from what all ranks have.
struct Place {
  int number = -1;  // -1: no rank of the file has anything
  bool makes_it = false;
  std::int64_t begin = 0, end = 0;  // of this rank's range; of the file
  std::size_t rounds = 0;
};

Place find_place(const Job& job, const SharedRange& range, bool has_entries) {
  const auto all = all_gather(*job.group, WireWriter()
                                              .put(has_entries)
                                              .put(range.bytes())
                                              .put(static_cast<std::int64_t>(range.frames()))
                                              .take());
  const auto me = static_cast<std::size_t>(job.rank());
  const auto mine = job.file_of[me];
  Place place;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (job.file_of[rank] != mine) continue;
    WireReader reader(all[rank]);
    const bool has_some = reader.get<bool>();
    const auto bytes = reader.get<std::int64_t>();
    if (has_some && place.number < 0) {
      place.number = mine;
      place.makes_it = rank == me;
    }
    if (bytes > 0) {
      if (rank == me) place.begin = next_page(place.end);
      place.end = next_page(place.end) + bytes;
    }
    place.rounds = std::max(place.rounds, static_cast<std::size_t>(reader.get<std::int64_t>()));
  }
  return place;
}

std::uint32_t stored_checksum(const io::File& file, const StoredSlice& slice,
                              std::span<std::byte> buffer) {
  std::uint32_t crc = 0;
  for (std::int64_t at = 0; at < slice.size;) {
    const auto rest = static_cast<std::size_t>(slice.size - at);
    const auto piece = buffer.first(std::min(buffer.size(), rest));
    file.read_at(slice.offset + at, piece);
    crc = crc32c(piece, crc);
    at += static_cast<std::int64_t>(piece.size());
  }
  return crc;
}

}  // namespace

std::unique_ptr<SharedFile> open_shared(const Job& job, const io::Path& path, int number,
                                        bool makes_it, std::int64_t bytes) {
  Group& group = *job.group;
  together(group, [&] {
    if (!makes_it) return;
    const auto file = job.files->create(path);
    file->reserve(bytes);
    file->close();
  });
  return together(group, [&] {
    return group.shared_files()->open(path, number, job.options.write.mpi_io.hints);
  });
}

void read_back(const Job& job, const io::Path& path, const std::vector<StoredTensor>& entries,
               const std::vector<std::uint32_t>& checksums) {
  const auto& options = job.options.write.mpi_io;
  const auto& shared = *job.group->shared_files();
  const auto doubt = shared.doubt(options.hints);
  if (entries.empty()) return;
  // Opened anew, so that a network file system asks its server.
  const auto file = job.files->open_read(path);
  const auto size = file->size();
  const bool read_all = options.read_back || !doubt.empty();
  std::vector<std::byte> buffer(static_cast<std::size_t>(cached_bytes));
  std::size_t number = 0;
  for (const auto& entry : entries) {
    for (const auto& slice : entry.slices) {
      const auto written = checksums[number++];
      const auto end = slice.offset + slice.size;
      // A write that failed unnoticed leaves a hole, since the file is new. Zeros may look the
      // same.
      if (slice.size == 0 || (!read_all && file->next_hole(slice.offset) >= end)) continue;
      if (end <= size && stored_checksum(*file, slice, buffer) == written) continue;
      const auto what =
          cat("bytes ", slice.offset, " to ", end, " of data file ", path.filename().string(),
              " are not what rank ", job.rank(), " wrote there");
      const auto free = job.files->free_bytes(job.directory);
      const bool full = free < slice.size;
      throw Error(full ? Code::no_space : Code::data_loss, what,
                  cat("tensor '", entry.key, "' was written by ", shared.library(), " with ",
                      hints_text(options.hints), ", which reported no error; ",
                      end > size ? cat("the file ends at ", size)
                                 : std::string("read back, the checksum is another one"),
                      doubt.empty() ? "" : cat("; ", doubt), "; ",
                      bytes_text(static_cast<double>(free)), " are free"),
                  full ? "Free space, or keep fewer checkpoints (Retention::last)."
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

std::vector<StoredTensor> share_files(const Job& job, const State& state, const LocalShards& local,
                                      const FileLayout& layout, const commit::Transaction& save) {
  Group& group = *job.group;
  auto range = together(group, [&] {
    return SharedRange(outgoing(state, local, layout.first_file, true),
                       job.options.write.chunk_bytes);
  });
  const auto place = find_place(job, range, !local.shards.empty());
  together(group, [&] { range.settle(place.begin); });
  const auto path = save.part(layout.first_file);
  auto file = open_shared(job, path, place.number, place.makes_it, place.end);
  // Once rounds have begun, a rank that threw would leave the others waiting: errors are kept.
  KeptError error;
  if (file) {
    for (std::size_t round = 0; round < place.rounds; ++round) {
      SharedRange::Bytes frame;
      error.guard([&] {
        if (!error && round < range.frames()) frame = range.fill(round);
      });
      error.guard([&] { file->write_at_all(frame.offset, frame.bytes); });
    }
    error.guard([&] { file->sync(); });
    error.guard([&] { file->close(); });
  }
  // Also because the bytes of one rank may have been another's to sync.
  agree(group, error.first());
  return together(group, [&] {
    auto entries = range.take_entries();
    read_back(job, path, entries, range.checksums());
    return entries;
  });
}

}  // namespace cairn
