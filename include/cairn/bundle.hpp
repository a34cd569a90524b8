#pragma once
/// Single bundles, for one process and without a manager: a registered saver writes them, a tool
/// reads them, and several can be merged into one. A bundle is a checkpoint that any reader opens.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/contents.hpp"
#include "cairn/dtype.hpp"
#include "cairn/path_text.hpp"

namespace cairn {

namespace io {
class FileSystem;
}

/// Writes one bundle: PREFIX.data-00000-of-00001, then PREFIX.index. Not collective; one thread at
/// a time. Its directory must exist. Nothing is visible under PREFIX.index before finish().
class BundleWriter {
 public:
  /// Throws already_exists if the bundle is there. file_system: none is POSIX.
  explicit BundleWriter(PathText prefix, std::shared_ptr<io::FileSystem> file_system = nullptr);
  /// Without finish(): removes what was written.
  ~BundleWriter();
  BundleWriter(BundleWriter&&) noexcept;
  BundleWriter& operator=(BundleWriter&&) noexcept;

  /// Adds a whole tensor: element_count(shape) elements at `data`, row-major. The bytes are written
  /// before it returns. Throws invalid_argument for a key that State::add would refuse.
  void add(const std::string& key, DType dtype, const Dims& shape, const void* data);
  template <Element T>
  void add(const std::string& key, const T* data, const Dims& shape) {
    add(key, dtype_of<T>::value, shape, data);
  }
  /// Adds one slice of a tensor; other bundles may hold the rest. `data` has the elements of the
  /// slice, row-major.
  void add_slice(const std::string& key, DType dtype, const Dims& shape, const Box& slice,
                 const void* data);
  void add_strings(const std::string& key, const Dims& shape, std::span<const std::string> values);

  /// Makes the bundle durable and visible. Nothing can be added afterwards. If a file operation
  /// fails, what was written is removed and the writer is useless. Throws durability_unknown if the
  /// bundle is visible and only the last fsync failed.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reads a checkpoint of any origin. Not collective; one thread at a time.
class BundleReader {
 public:
  /// Throws not_found, data_loss, or unsupported for a format of another version.
  explicit BundleReader(const PathText& prefix,
                        std::shared_ptr<io::FileSystem> file_system = nullptr);

  const CheckpointContents& contents() const { return contents_; }
  /// The elements of a tensor, or of a box of it: row-major bytes, little-endian. Each stored slice
  /// that has some of them is read and checked whole. Throws not_found, data_loss,
  /// invalid_argument, unsupported.
  std::string read(const std::string& key) const;
  std::string read(const std::string& key, const Box& box) const;
  std::vector<std::string> read_strings(const std::string& key) const;

 private:
  const StoredTensor& tensor(const std::string& key) const;
  std::shared_ptr<io::FileSystem> files_;
  CheckpointContents contents_;
};

struct MergeOptions {
  bool remove_inputs = false;  ///< remove also directories that become empty
  bool allow_missing = false;  ///< skip prefixes without an index; at least one must have one
  bool overwrite = false;      ///< replace a checkpoint at the destination
  std::shared_ptr<io::FileSystem> file_system = nullptr;  ///< none: POSIX
};

/// Makes one checkpoint out of several. Entries are joined; data files are linked (or copied, if
/// the file system has no links) under the destination's names; the result is committed as a save
/// is, so a crash at any instant leaves the inputs or the whole result. One process calls it, which
/// must be alone in the destination's directory and, with remove_inputs, in those of the inputs:
/// else it throws busy, with the owner's name. A pinned checkpoint is neither replaced nor removed:
/// it throws already_exists. In both cases nothing is written. An input that is pinned after this
/// check stays, with a warning. The data's bytes are not read. Data files that no index refers to
/// stay behind. Throws, naming key and prefixes: invalid_argument for a key that comes twice,
/// slices of one tensor that overlap or disagree on dtype or shape, inputs of different byte order;
/// data_loss for a damaged input; not_found, also for a tensor that remains incomplete;
/// already_exists.
void merge_checkpoints(const std::vector<PathText>& prefixes, const PathText& destination,
                       const MergeOptions& options = {});

}  // namespace cairn
