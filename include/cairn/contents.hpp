#pragma once
/// What a checkpoint holds, according to its index: keys, dtypes, shapes, slices, files, Cairn's
/// metadata.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/application.hpp"
#include "cairn/attributes.hpp"
#include "cairn/box.hpp"
#include "cairn/dtype.hpp"
#include "cairn/object_graph.hpp"
#include "cairn/statistics.hpp"

namespace cairn {

/// The format of a checkpoint on disk.
enum class Format {
  bundle,  ///< TensorFlow's: PREFIX.index and PREFIX.data-?????-of-?????
  hdf5     ///< one PREFIX.h5, in which each tensor is a dataset (docs/format-hdf5.md)
};
constexpr std::array<const char*, 2> words(Format) { return {"bundle", "hdf5"}; }

/// How the bytes of a piece are encoded. A build may lack some of these codecs, and checkpoints of
/// other versions may use more.
enum class Codec : std::int32_t {
  none = 0,     ///< stored as in memory
  deflate = 1,  ///< HDF5's filters shuffle and deflate
  zstd = 2,     ///< shuffle and Zstandard (filter 32015)
  blosc = 3     ///< Blosc (filter 32001): bit shuffle and Zstandard
};

/// How an HDF5 checkpoint stores the elements of its tensors: in chunks of at most 1 MiB, each of
/// which goes through filters of HDF5 that others read, too (docs/format-hdf5.md). A chunk that
/// they do not make smaller is stored as it is.
enum class StoreCodec {
  none,       ///< contiguous
  automatic,  ///< zstd, or what the build has; each rank encodes where that is faster than to write
  deflate,    ///< shuffle and deflate: every HDF5 reads it
  zstd,       ///< shuffle and Zstandard: readers need a plugin, as in hdf5plugin
  blosc       ///< Blosc with bit shuffle and Zstandard: readers need a plugin, as in hdf5plugin
};
constexpr std::array<const char*, 5> words(StoreCodec) {
  return {"none", "automatic", "deflate", "zstd", "blosc"};
}

/// The stored bytes of one box of a tensor, contiguous in a data file. Decoded, they are the
/// elements of the box, row-major.
struct Piece {
  Box box;
  std::vector<bool> dash;  ///< true for dimensions that TensorFlow spells "-"; empty: none
  std::int32_t file = 0;   ///< data file (TensorFlow: shard id)
  std::int64_t offset = 0, stored_bytes = 0;
  /// After decoding; without a codec the same as stored_bytes. A chunk at the edge of an HDF5
  /// dataset decodes to a whole chunk, which begins with the elements of the box.
  std::int64_t raw_bytes = 0;
  std::uint32_t crc32c = 0;  ///< of the bytes in the file, unmasked
  Codec codec = Codec::none;
  std::uint32_t raw_crc32c = 0;  ///< with a codec: of the elements of the box, decoded

  bool operator==(const Piece&) const = default;
};

/// The parts of a sparse tensor that no rank held when it was saved (cairn/sparse.hpp).
struct StoredGaps {
  std::string fill;        ///< the stored form of the element that readers get there
  std::vector<Box> boxes;  ///< disjoint, ascending

  std::int64_t elements() const;
  bool operator==(const StoredGaps&) const = default;
};
using GapsByKey = std::map<std::string, std::shared_ptr<const StoredGaps>>;

struct StoredTensor {
  std::string key;
  DType dtype{};
  Dims shape;
  bool sliced = false;        ///< false: one plain entry
  std::vector<Piece> slices;  ///< in stored order; if plain, one that covers everything
  /// Why this tensor cannot be read although the index can: its entry is bad. Empty: it is sound.
  std::string problem;
  /// Null: there are no gaps. A tensor that is not `sliced` holds the fill value in its gaps.
  std::shared_ptr<const StoredGaps> gaps = nullptr;

  /// Gaps are equal only if they are the same object.
  bool operator==(const StoredTensor&) const = default;
};

/// An earlier committed save. Later checkpoints record it, so that it is known when its own
/// checkpoint is removed.
struct PastSave {
  std::int64_t sequence = 0, parent = -1, step = 0;  ///< as in CheckpointMeta
  double wall_time_seconds = 0;
  int ranks = 0;
  std::int64_t bytes = 0;
  double total_seconds = 0, blocked_seconds = 0, write_seconds = 0;
  bool asynchronous = false;
};

/// Tensors that were removed from a checkpoint, or that its save left out (cairn/retention.hpp,
/// `cairn thin`).
struct Thinned {
  std::string keys;          ///< a pattern; `*` stands for any characters, `?` for one
  std::int64_t tensors = 0;  ///< how many; 0 if the save left them out
  std::int64_t bytes = 0;    ///< the bytes that they took
  std::int64_t after = -1;   ///< a rule removed them after the save of this step; -1: the tool did
  std::int64_t every = 0;    ///< by a rule one save in so many has them, and this one does not
  bool operator==(const Thinned&) const = default;
};

/// Floating-point tensors with a NaN or an infinity, if the save looked for them
/// (RestartOptions::finite); keys, ascending.
struct NotFinite {
  std::vector<std::string> keys = {};
  /// Of these, the tensors that had none in the checkpoint that this one follows, or that are in
  /// its `turned`.
  std::vector<std::string> turned = {};
};

/// What a checkpoint says about the run that made it, for reports (cairn report).
struct RunNotes {
  /// The saves that this one follows, oldest first: those of its run, and those from which the run
  /// went on; at most 128.
  std::vector<PastSave> before = {};
  std::string keep = {};  ///< the rules of retention, as text
};

/// Cairn's metadata of its own checkpoints; those of other programs have none.
struct CheckpointMeta {
  std::int64_t step = 0;
  std::int64_t sequence = 0;     ///< commit sequence in its directory: newest is highest
  double wall_time_seconds = 0;  ///< since 1970, when the save began
  std::string version;           ///< of Cairn
  int ranks = 0;
  std::string policy;  ///< description of the sharding callback
  std::string uuid;    ///< of the save
  /// Sequence of the checkpoint that this run went on from; -1: unknown.
  std::int64_t parent = -1;
  std::map<std::string, std::set<std::string>> savers = {};  ///< registered savers, and their keys
  std::optional<double> metric = std::nullopt;  ///< how good it is, if the save was given a metric
  /// The statistics that were known when the index was sealed: total_seconds up to then, without
  /// commit and tidying. None if a recovery completed the save.
  std::optional<SaveStatistics> statistics = std::nullopt;
  RunNotes run = {};  ///< empty where there are no statistics
  /// NAME, if it was saved as NAME-STEP; empty: it has no number, or an earlier version saved it.
  std::string name = {};
  Descriptions descriptions = {};     ///< the application's, of tensors and checkpoint
  GapsByKey gaps = {};                ///< those of sparse tensors
  Application application = {};       ///< the program that saved it
  std::vector<Thinned> thinned = {};  ///< missing tensors, in the order of their removal
  std::optional<NotFinite> not_finite = std::nullopt;  ///< nothing: not looked for
};

struct CheckpointContents {
  std::string prefix;
  Format format = Format::bundle;
  int num_files = 0;
  bool big_endian = false;            ///< the data's byte order; Cairn never writes this
  std::vector<StoredTensor> tensors;  ///< ascending by key, without Cairn's metadata
  std::vector<StoredTensor> own;      ///< the entries of Cairn's metadata
  std::optional<CheckpointMeta> meta;
  std::shared_ptr<const ObjectGraph>
      graph;  ///< null: none, or graph_problem says why it is unusable
  std::string graph_problem;

  const StoredTensor* find(std::string_view key) const;
  /// The description of this tensor, or group of tensors; for a rank-private item, that of all
  /// ranks' items. Empty if there is none.
  const Description& description(std::string_view key) const;
  std::int64_t total_bytes() const;  ///< the stored bytes of all slices
};

}  // namespace cairn
