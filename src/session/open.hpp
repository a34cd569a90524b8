#pragma once
/// Opening a directory, to save in it or to read.
#include <optional>

#include "cairn/error.hpp"
#include "session/engine_parts.hpp"

namespace cairn {

/// Collective, but for what is marked.
class Opening : EngineParts {
 public:
  /// `job`: the same; nobody else changes it.
  Opening(const EngineParts& parts, Job& job) : EngineParts(parts), job_(job) {}

  /// Checks the options, agrees on them, becomes the owner of the directory and recovers it. Where
  /// there is no room for that, one that may_only_restore is a reader until its next save.
  void open(bool may_only_restore);
  void own_after_all();
  void require_writable(const char* what) const;  ///< local

 private:
  void enter_directory();
  void become_reader(const Error& why);

  Job& job_;
  std::optional<Error> reads_only_;  // why, where it is to save
};

}  // namespace cairn
