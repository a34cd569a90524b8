#pragma once
/// What tells of failing saves outside the process: .cairn/status.NAME, a file of 4 KiB with one
/// JSON object. It is written where a save fails, and when one is there again, in place, so that a
/// full disk has it too, and without a sync: it is for people and monitors, and nothing relies on
/// it. A run whose saves succeed writes nothing: its newest checkpoint tells as much.
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cairn/error.hpp"
#include "store/address.hpp"
#include "store/location.hpp"

namespace cairn {

struct SaveStatus {
  std::int64_t failures = 0;  ///< in a row; 0: a save has been committed since
  double since_seconds = 0;   ///< when the first of these failed, since 1970
  // The last failure.
  std::int64_t failed_step = -1;
  double failed_seconds = 0;
  std::string code, error;  ///< as Error has them
  std::string process;      ///< of the last failure: "process 12 on HOST"
  // The newest checkpoint, as far as that process knew; -1: none.
  std::int64_t saved_step = -1;
  double saved_seconds = 0;
  bool operator==(const SaveStatus&) const = default;

  std::string print() const;  ///< with a checksum, 4 KiB
  /// Nothing for what print() did not write.
  static std::optional<SaveStatus> parse(std::string_view);
};

/// Nothing: no save has failed there, or what tells of it cannot be read.
std::optional<SaveStatus> read_save_status(const Location&);
/// Of each name under which saves have failed in the directory.
std::map<std::string, SaveStatus> read_all_status(const Address& directory);
/// In a sentence. Of a checkpoint that is newer than the failure, it says so.
std::string text_of(const SaveStatus&, double newest_checkpoint_seconds);

/// The owner's. What it cannot write is logged, at info level: there is another error to tell.
class SaveRecorder {
 public:
  explicit SaveRecorder(const Location& place) : place_(place) {}

  /// Takes up what is there, and makes the file where it is missing: a full disk takes none.
  void begin();
  void failed(std::int64_t step, const Error&, std::int64_t saved_step, double saved_seconds);
  void saved(std::int64_t step);
  const SaveStatus& status() const { return status_; }

 private:
  void write(bool is_new) const;

  const Location& place_;
  bool writes_ = false;  // only of a numbered name, after begin()
  SaveStatus status_;
};

}  // namespace cairn
