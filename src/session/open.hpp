#pragma once
/// Opens a directory to save in it or to read.
#include <optional>

#include "cairn/error.hpp"
#include "session/engine_parts.hpp"

namespace cairn {

/// Members are collective unless marked.
class Opening : EngineParts {
 public:
  /// `job`: the engine's job, which only this class changes.
  Opening(const EngineParts& parts, Job& job) : EngineParts(parts), job_(job) {}

  /// Checks the options, agrees on them, becomes the owner of the directory and recovers it. If
  /// there is no room for that and `may_only_restore`, the job is a reader until its next save.
  void open(bool may_only_restore);
  void own_after_all();
  void require_writable(const char* what) const;  ///< local

 private:
  // Takes the directory, recovers it, and reads what is there.
  void enter_directory();
  void become_reader(const Error& why);

  Job& job_;
  std::optional<Error> reads_only_;  // why it only reads, though it was opened to save
};

}  // namespace cairn
