#pragma once
/// Writes shards into data files, on the rank that holds them or on an io rank.
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

/// What a rank has to write, in the order of its files.
struct Outgoing {
  /// Where an entry's bytes are: contiguous in `run`, or else in a part of `slice`.
  struct Bytes {
    std::span<const std::byte> run;
    const LocalSlice* slice = nullptr;
    std::size_t tensor = 0, slice_index = 0;  ///< of the slice, in the state
    std::uint32_t crc32c = 0;                 ///< of the bytes that were written
  };
  /// Each entry has one slice, with box, file and size. Only strings have a checksum already.
  std::vector<StoredTensor> entries;
  std::vector<Bytes> bytes;  ///< by entry
};

/// `state` and `local` must outlive the result. `one_file`: all entries are in the first file.
Outgoing outgoing(const RefreshedState& state, const LocalShards& local, int first_file,
                  bool one_file = false);

/// The same without a list: for each entry calls `make`, fills the entry that it returns, and gives
/// its bytes to `take`.
void each_outgoing(const RefreshedState& state, const LocalShards& local, int first_file,
                   bool one_file, const std::function<StoredTensor&()>& make,
                   const std::function<void(const Outgoing::Bytes&)>& take);
std::size_t count_of(const LocalShards&);

/// Local. Writes everything and completes the entries; stops half-way if `cancelled` becomes true.
/// Memory that is written without a copy must not change until the files are finished.
void write_entries(Sink&, Outgoing&, const std::atomic<bool>* cancelled = nullptr);
/// The same into files of its own, which it finishes.
void write_files(const Draft&, Outgoing&, const std::atomic<bool>* cancelled = nullptr);

}  // namespace cairn
