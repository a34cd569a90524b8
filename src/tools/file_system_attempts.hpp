#pragma once
/// How each requirement of try_file_system() is tried. An attempt throws the error of a call that
/// fails. Names of files differ, so that none depends on another.
#include <functional>
#include <memory>
#include <string>

#include "tools/file_system_trial.hpp"

namespace cairn::attempts {

struct Place {
  Address directory;
  SecondProcess& other;
  TrialOptions options;

  const auto& files() const { return directory.files(); }
  io::Path at(const std::string& name) const { return directory.path() / name; }
};

struct Result {
  Fitness fitness = Fitness::good;
  std::string found;
  std::string way_out = {};  ///< empty: the requirement's own fitness and way out count
};

Result long_name(const Place&);
Result exclusive(const Place&);
Result sync(const Place&);
Result close_to_open(const Place&);
Result rename(const Place&);
Result rename_new(const Place&);
Result directories(const Place&);
Result open_file(const Place&);
Result links(const Place&);
Result locks(const Place&);
Result end_of_lock(const Place&);  ///< ends the second process
Result pages(const Place&);
Result direct(const Place&);
Result sparse(const Place&);
Result space(const Place&);
Result clones(const Place&);
Result identity(const Place&);
Result changes(const Place&);
Result clock(const Place&);
Result heartbeat(const Place&);

// Shared by the attempts of names and of bytes.
Result good(std::string found);
Result bad(std::string found);
Result without(std::string found, std::string way_out);
/// Asks until the answer is true. Returns when the last wrong answer came, in seconds; a negative
/// number if patience ended. A right answer may come late: CephFS first asks another host for its
/// rights.
double wait_until(const Place&, const std::function<bool()>&);
/// "at once", or "0.3 s later".
std::string delay_text(double seconds);
/// Writes a new file, without fsync.
void put(const Place&, const std::string& name, const std::string& text);
/// Writes over a file from its beginning.
void overwrite(const Place&, const std::string& name, const std::string& text);
std::string read(const Place&, const std::string& name);
io::Status status(const Place&, const std::string& name);
/// Length and CRC-32C, as the errand `sum` tells them.
std::string sum(const std::string& bytes);
/// Bytes that do not repeat.
std::string some_bytes(std::size_t count);

}  // namespace cairn::attempts
