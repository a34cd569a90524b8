#pragma once
/// Shards on their way into data files, on the rank that has them or on an io rank.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/refreshed_state.hpp"
#include "session/save/save_steps.hpp"
#include "store/sink.hpp"

namespace cairn {

/// What a rank has to write, in the order of the files.
struct Outgoing {
  /// Where an entry's bytes are: in one run, or in the part of a slice.
  struct Bytes {
    std::span<const std::byte> run;
    const LocalSlice* slice = nullptr;
    std::size_t tensor = 0, slice_index = 0;  ///< where in the state that is
    std::uint32_t crc32c = 0;                 ///< of what was written
  };
  /// One slice each, with box, file and size; the checksum is set for strings only.
  std::vector<StoredTensor> entries;
  std::vector<Bytes> bytes;  ///< of each entry
};

/// `state` and `local` outlive the result. All entries are of the first file if ranks share it.
Outgoing outgoing(const RefreshedState& state, const LocalShards& local, int first_file,
                  bool one_file = false);

/// The same one by one, without a list: asks for an entry to fill, and then takes its bytes.
void each_outgoing(const RefreshedState& state, const LocalShards& local, int first_file,
                   bool one_file, const std::function<StoredTensor&()>& make,
                   const std::function<void(const Outgoing::Bytes&)>& take);
std::size_t count_of(const LocalShards&);

/// Local. Writes all of it, and completes the entries; or stops half-way when `cancelled` is set.
/// Memory that is written from where it lies is to stay as it is until the files are finished.
void write_entries(Sink&, Outgoing&, const std::atomic<bool>* cancelled = nullptr);
/// The same into files of its own, which it finishes.
void write_files(const Draft&, Outgoing&, const std::atomic<bool>* cancelled = nullptr);

}  // namespace cairn
