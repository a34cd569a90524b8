#pragma once
/// What a checkpoint holds, as its index says: keys, dtypes, shapes, slices, files, own metadata.
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

/// How a checkpoint lies on disk.
enum class Format {
  bundle,  ///< TensorFlow's: PREFIX.index and PREFIX.data-?????-of-?????
  hdf5     ///< one PREFIX.h5, in which each tensor is a dataset (docs/format-hdf5.md)
};
constexpr std::array<const char*, 2> words(Format) { return {"bundle", "hdf5"}; }

/// How the bytes of a piece are encoded. This version knows no codec; checkpoints may have others.
enum class Codec : std::int32_t {
  none = 0  ///< as they are in memory
};

/// What is stored of one box of a tensor: one contiguous run of bytes in a data file. Decoded, they
/// are the elements of the box, row-major.
struct Piece {
  Box box;
  std::vector<bool> dash;  ///< dimensions that TensorFlow's spelling calls "-"; empty: none
  std::int32_t file = 0;   ///< data file (TensorFlow: shard id)
  std::int64_t offset = 0, stored_bytes = 0;
  std::int64_t raw_bytes = 0;  ///< decoded; without a codec as many as are stored
  std::uint32_t crc32c = 0;    ///< of the bytes as in the file, unmasked
  Codec codec = Codec::none;

  bool operator==(const Piece&) const = default;
};

/// What no rank held of a sparse tensor when it was saved (cairn/sparse.hpp).
struct StoredGaps {
  std::string fill;        ///< one element, as it would be stored: what readers get there
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
  std::vector<Piece> slices;  ///< in stored order; one covering everything if plain
  /// Why this tensor cannot be read although the index as a whole can: a bad entry. Empty: sound.
  std::string problem;
  /// Null: there are none. A tensor that is not `sliced` holds the fill value there.
  std::shared_ptr<const StoredGaps> gaps = nullptr;

  /// Of gaps: whether they are the same object.
  bool operator==(const StoredTensor&) const = default;
};

/// A save that was committed before, as later checkpoints tell of it when it is gone itself.
struct PastSave {
  std::int64_t sequence = 0, parent = -1, step = 0;  ///< as in CheckpointMeta
  double wall_time_seconds = 0;
  int ranks = 0;
  std::int64_t bytes = 0;
  double total_seconds = 0, blocked_seconds = 0, write_seconds = 0;
  bool asynchronous = false;
};

/// Tensors that a checkpoint has no more, or that its save left out (cairn/retention.hpp,
/// `cairn thin`).
struct Thinned {
  std::string keys;          ///< a pattern; `*` stands for any characters, `?` for one
  std::int64_t tensors = 0;  ///< so many; 0 where the save left them out
  std::int64_t bytes = 0;    ///< as they were stored
  std::int64_t after = -1;   ///< the step after whose save a rule let them go; -1: the tool did
  std::int64_t every = 0;    ///< one save in so many has them, by a rule, and this one has not
  bool operator==(const Thinned&) const = default;
};

/// Floating-point tensors that have a NaN or an infinity, where the save looked for them
/// (RestartOptions::finite); keys, ascending.
struct NotFinite {
  std::vector<std::string> keys = {};
  /// Of these the ones that had none in the checkpoint that this one follows, or had turned there.
  std::vector<std::string> turned = {};
};

/// What a checkpoint tells of the run that made it, for reports (cairn report).
struct RunNotes {
  /// The saves that this one follows, oldest first: its run's, and those that the run went on from;
  /// at most 128.
  std::vector<PastSave> before = {};
  std::string keep = {};  ///< the rules of retention, as text
};

/// What Cairn says of its own checkpoints; other programs' have none.
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
  std::map<std::string, std::set<std::string>> savers = {};  ///< registered ones: their keys
  std::optional<double> metric = std::nullopt;  ///< how good it is, if the save was told
  /// As far as it was known when the index was sealed: total_seconds until then, and neither commit
  /// nor tidying. None where a recovery completed the save.
  std::optional<SaveStatistics> statistics = std::nullopt;
  RunNotes run = {};  ///< empty where there are no statistics
  /// NAME, where it was saved as NAME-STEP; empty: without a number, or by an earlier version.
  std::string name = {};
  Descriptions descriptions = {};     ///< what the application says of tensors and checkpoint
  GapsByKey gaps = {};                ///< of sparse tensors
  Application application = {};       ///< that saved it
  std::vector<Thinned> thinned = {};  ///< what it has not, in the order in which it went
  std::optional<NotFinite> not_finite = std::nullopt;  ///< nothing: nobody looked
};

struct CheckpointContents {
  std::string prefix;
  Format format = Format::bundle;
  int num_files = 0;
  bool big_endian = false;            ///< the data's byte order; only others write this
  std::vector<StoredTensor> tensors;  ///< ascending by key, own metadata left out
  std::vector<StoredTensor> own;      ///< Cairn's own entries: where the metadata is stored
  std::optional<CheckpointMeta> meta;
  std::shared_ptr<const ObjectGraph> graph;  ///< null: none, or graph_problem says why not
  std::string graph_problem;

  const StoredTensor* find(std::string_view key) const;
  /// What is said of this tensor, or group of tensors; of a rank-private item what is said of all
  /// ranks' items. Empty: nothing.
  const Description& description(std::string_view key) const;
  std::int64_t total_bytes() const;  ///< of all stored slices
};

}  // namespace cairn
