#pragma once
/// A second process that does to a directory what another rank or job would do there, so that the
/// first one can see what the file system makes of it.
#include <future>
#include <map>
#include <memory>
#include <string>

#include "cairn/error.hpp"
#include "store/address.hpp"

namespace cairn {

/// What the first process has of the second one. For one thread.
class SecondProcess {
 public:
  /// Thrown if the process is gone: no error of the file system.
  struct Gone {
    Error error;
  };
  virtual ~SecondProcess() = default;
  /// Does an errand, and returns its answer. Throws Gone.
  virtual std::string run(const std::string& errand) = 0;
  /// Ends the process, which does not release what it has locked.
  virtual void end() = 0;
};

/// The second process itself: does errands in one directory. For one thread.
class Errands {
 public:
  /// Who does them: a kernel and its host's name.
  static std::string who();

  explicit Errands(Address directory) : directory_(std::move(directory)) {}
  /// An errand is a verb, the name of a file and a text, with a blank between each. Never throws:
  /// "failed: ..." is the answer after an error that the verb does not expect.
  ///
  /// create: "made" or "there". read: the text, or "missing". sum: length and CRC-32C of the bytes.
  /// put: writes a new file. overwrite: writes over an existing one. lock: "taken", "busy" or
  /// "unsupported". names: the number of its hard links. hold: opens the file; held: what is read
  /// from it then; drop: closes it. watch: reads the file over and over until it has the text;
  /// watched: waits for that, and tells how often it was "missing", "torn" or "whole". share: opens
  /// an existing file; stripes: writes every second stripe of it, syncs and closes it.
  std::string run(const std::string& errand);

 private:
  std::string run_verb(const std::string& verb, const std::string& name, const std::string& text);

  Address directory_;
  std::unique_ptr<io::File> held_, shared_;
  std::map<std::string, std::unique_ptr<io::Lock>> locks_;
  std::future<std::string> watch_;
};

/// A text of many equal lines, of which a part or a mixture can be told from a whole one.
std::string watched_text(const std::string& line);

/// Bytes of some pages, of which two processes write a stripe each in turns: every page has
/// several.
std::string striped_bytes();
/// The second process writes the odd stripes.
void write_stripes(io::File&, bool odd);

}  // namespace cairn
