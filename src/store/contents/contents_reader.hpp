#pragma once
/// Opening a checkpoint: its index, the lengths of its data files, its own metadata.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/wire.hpp"
#include "cairn/contents.hpp"
#include "cairn/error.hpp"
#include "store/address.hpp"

namespace cairn {

struct Encoding;

/// Keys of Cairn's own entries; other readers ignore them.
inline constexpr std::string_view own_key_prefix = "_cairn/";
std::string filler_key(int file);

/// What one rank reads and sends to the others, which parse it for themselves.
struct IndexFile {
  Format format = Format::bundle;
  std::string bytes;
  std::int64_t table_offset = 0, table_room = 0;    ///< of an HDF5 file: where the bytes lie in it
  std::map<std::int32_t, std::int64_t> data_sizes;  ///< of the data files that are there
  std::string meta;  ///< JSON; empty: not a checkpoint of ours, or meta_problem says why not
  std::string meta_problem;
  /// Why this is another checkpoint's index: the metadata beside it are this one's, sound, and do
  /// not fit it. Empty: nothing says so.
  std::string foreign;
  std::string graph;  ///< bytes of the object graph; empty: none, not asked for, or graph_problem
  std::string graph_problem;
  /// The tensors, on the rank that read the bytes, which had to parse them: not sent.
  std::optional<CheckpointContents> parsed;
};
template <>
inline constexpr auto travels<IndexFile> =
    std::tuple{&IndexFile::format,       &IndexFile::bytes,      &IndexFile::table_offset,
               &IndexFile::table_room,   &IndexFile::data_sizes, &IndexFile::meta,
               &IndexFile::meta_problem, &IndexFile::foreign,    &IndexFile::graph,
               &IndexFile::graph_problem};

/// The object graph is larger than all else together: it is read for those who look into it.
enum class Graph { skip, read };

/// Whether there is a PREFIX.index, or a PREFIX.h5 that Cairn wrote.
bool has_checkpoint(const Address& prefix);

/// Sizes of data files as somebody has found them; -1: missing, or nobody has looked.
using FoundSizes = std::vector<std::int64_t>;

/// Throws not_found if there is no checkpoint, data_loss if it is lost or its index is damaged as a
/// whole. Where the prefix has both formats, because a save is replacing one by the other, it is
/// the newer one of those that can be read. Looks itself at each data file that is smaller than the
/// tensors say, or was not found: others may have seen an older state of the directory.
IndexFile load_index(io::FileSystem&, const io::Path& prefix, Graph = Graph::skip,
                     const FoundSizes* = nullptr);
/// Of one format, whatever else is there.
IndexFile load_index_as(Format, io::FileSystem&, const io::Path& prefix, Graph = Graph::skip);
/// The same of an index that is read already.
IndexFile look_into(io::FileSystem&, const io::Path& prefix, std::string index, Graph);

/// In steps, so that several ranks can do a part.
///
/// The index of the only checkpoint under this prefix, not looked into. Nothing where there is
/// none, or one in each format.
std::optional<IndexFile> read_only_index(io::FileSystem&, const io::Path& prefix);
/// The size of a data file; nothing if it is missing.
std::optional<std::int64_t> data_file_size(io::FileSystem&, Format, const io::Path& prefix,
                                           int file, int num_files);
/// The rest of load_index().
IndexFile look_into(io::FileSystem&, const io::Path& prefix, IndexFile, Graph, const FoundSizes&);
/// What else is told of a checkpoint whose tensors are known (`parsed`): its metadata and graph.
/// Throws data_loss for contents that no save makes, and what reading throws.
void read_metadata(io::FileSystem&, const io::Path& prefix, IndexFile&, Graph);
/// Uses what is parsed already.
CheckpointContents parse_contents(IndexFile&, const io::Path& prefix);

/// Both.
CheckpointContents read_contents(io::FileSystem&, const io::Path& prefix, Graph = Graph::skip);

/// The same, of one format.
CheckpointContents read_contents_as(Format, io::FileSystem&, const io::Path& prefix);

/// What a checkpoint says of itself, and no tensors. Looks only at the data files that hold it, and
/// not at all of them, of which there may be very many.
CheckpointContents read_summary(io::FileSystem&, const io::Path& prefix,
                                std::optional<Format> = std::nullopt);

/// PREFIX.h5, or PREFIX.data-?????-of-?????.
io::Path data_path(const CheckpointContents&, int file);

/// Reads one slice whole and checks it: numbers against the checksum, strings decoded. Numeric
/// bytes come as in the file, or decoded. Throws unsupported for a codec that is not known.
std::string read_slice(io::FileSystem&, const CheckpointContents&, const StoredTensor&,
                       const Piece&);
std::vector<std::string> read_string_slice(io::FileSystem&, const CheckpointContents&,
                                           const StoredTensor&, const Piece&);

/// What decodes a piece; null: it is as it is. Throws unsupported for a codec that is not known,
/// and data_loss where its bytes never become as many as they say: before memory is taken for
/// these.
const Encoding* decoder_of(const CheckpointContents&, const StoredTensor&, const Piece&);
/// The raw bytes of a piece that is encoded. Throws as that does.
std::string decode_slice(const CheckpointContents&, const StoredTensor&, const Piece&,
                         std::string_view stored);

/// A string tensor whole, put together from its slices.
std::vector<std::string> read_strings(io::FileSystem&, const CheckpointContents&,
                                      const StoredTensor&);

/// A stored slice that has elements of a box; both by number.
struct SliceMatch {
  std::size_t slice, box;
};

/// Throws not_found if the stored slices do not cover each of these boxes. Gives those that do,
/// ascending by slice.
std::vector<SliceMatch> stored_parts(const StoredTensor&, const std::vector<Box>& wanted);
void require_stored(const StoredTensor&, const std::vector<Box>& wanted);

/// The error for bytes of a slice that do not have the stored checksum.
Error checksum_error(const CheckpointContents&, const StoredTensor&, const Piece&,
                     std::uint32_t found);

}  // namespace cairn
