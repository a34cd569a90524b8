#pragma once
/// The XDMF file of a directory, which shows its checkpoints to ParaView and VTK.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cairn/xdmf.hpp"
#include "foreign/xdmf/xdmf_text.hpp"
#include "store/commit/ownership.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "store/directory/catalog.hpp"

namespace cairn {

/// Those that can be restored, without what a return to an earlier step has left behind.
std::vector<const CatalogEntry*> shown_in_xdmf(const std::vector<CatalogEntry>&);

/// What the file says of one checkpoint, with names relative to `beside`, the directory of the XDMF
/// file. Reads its index, and the tensor that tells the time. Throws as xdmf::describe, and what
/// opening a checkpoint throws.
xdmf::Step describe_step(const OpenCheckpoint&, const XdmfOptions&, const io::Path& beside);

/// Writes a file as a whole: beside under the temporary name, synced, renamed; an empty name: in
/// place, where there are no renames. Throws already_exists where `path` is a file that Cairn did
/// not make.
void replace_xdmf(const Address& path, const std::string& text, const io::Path& temporary);

/// DIRECTORY/NAME.xdmf as its owner keeps it up to date. What was read of a checkpoint is kept, so
/// that an update reads those that are new. For one thread at a time.
class XdmfFile {
 public:
  XdmfFile(io::Path directory, commit::Naming naming, XdmfOptions options)
      : directory_(std::move(directory)),
        naming_(std::move(naming)),
        options_(std::move(options)) {}

  /// Shows those of the entries that shown_in_xdmf gives; a step that cannot be shown
  /// is a warning in the log, once. Throws what writing throws.
  void update(io::FileSystem&, const std::vector<CatalogEntry>&, const commit::OwnedName&);

 private:
  struct Told {
    std::string identity;  // of the save
    double time = 0;
    std::string text;
  };
  io::Path directory_;
  commit::Naming naming_;
  XdmfOptions options_;
  std::map<std::int64_t, Told> told_;  // by step
  std::string written_;                // the last text, which is not written again
};

}  // namespace cairn
