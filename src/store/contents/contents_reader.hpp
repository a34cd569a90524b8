#pragma once
/// Opens a checkpoint: reads its index, the lengths of its data files and its metadata.
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

/// What one rank reads and sends to the others; each of them parses it.
struct IndexFile {
  Format format = Format::bundle;
  std::string bytes;
  std::int64_t table_offset = 0, table_room = 0;    ///< of an HDF5 file: where the bytes lie in it
  std::map<std::int32_t, std::int64_t> data_sizes;  ///< of the data files that are there
  std::string meta;  ///< JSON; empty: not a checkpoint of ours, or meta_problem says why not
  std::string meta_problem;
  /// Why this is another checkpoint's index: the metadata beside it are sound and this
  /// checkpoint's, and do not fit it. Empty: no evidence of that.
  std::string foreign;
  std::string graph;  ///< bytes of the object graph; empty: none, not asked for, or graph_problem
  std::string graph_problem;
  /// The tensors, on the rank that read the bytes, which had to parse them. Not sent.
  std::optional<CheckpointContents> parsed;
};
template <>
inline constexpr auto travels<IndexFile> =
    std::tuple{&IndexFile::format,       &IndexFile::bytes,      &IndexFile::table_offset,
               &IndexFile::table_room,   &IndexFile::data_sizes, &IndexFile::meta,
               &IndexFile::meta_problem, &IndexFile::foreign,    &IndexFile::graph,
               &IndexFile::graph_problem};

/// Whether to read the object graph. It is larger than everything else together, so only callers
/// that use it read it.
enum class Graph { skip, read };

/// Whether there is a PREFIX.index, or a PREFIX.h5 that Cairn wrote.
bool has_checkpoint(const Address& prefix);

/// Sizes of data files that somebody has already found; -1: missing, or not looked at.
using FoundSizes = std::vector<std::int64_t>;

/// Throws not_found if there is no checkpoint, data_loss if it is lost or its index is damaged as a
/// whole. If the prefix has both formats, because a save is replacing one by the other, it reads
/// the newer of those that can be read. It looks itself at each data file that is smaller than the
/// tensors need, or was not found, since others may have seen an older state of the directory.
IndexFile load_index(io::FileSystem&, const io::Path& prefix, Graph = Graph::skip,
                     const FoundSizes* = nullptr);
/// The same of one format, whatever else is there.
IndexFile load_index_as(Format, io::FileSystem&, const io::Path& prefix, Graph = Graph::skip);
/// The same of an index that was read already.
IndexFile look_into(io::FileSystem&, const io::Path& prefix, std::string index, Graph);

/// The following functions are parts of load_index(), for several ranks that share the work.
///
/// Reads the index of the only checkpoint under this prefix, and nothing else. Nothing if there is
/// no checkpoint, or one in each format. `known`: it is in this format, and others are not looked
/// for; throws what reading throws.
std::optional<IndexFile> read_only_index(io::FileSystem&, const io::Path& prefix,
                                         std::optional<Format> known = std::nullopt);
/// The size of a data file; nothing if it is missing.
std::optional<std::int64_t> data_file_size(io::FileSystem&, Format, const io::Path& prefix,
                                           int file, int num_files);
/// The rest of load_index().
IndexFile look_into(io::FileSystem&, const io::Path& prefix, IndexFile, Graph, const FoundSizes&);
/// Reads the metadata and the graph of a checkpoint whose tensors are known (`parsed`). Throws
/// data_loss for contents that no save makes, and what reading throws.
void read_metadata(io::FileSystem&, const io::Path& prefix, IndexFile&, Graph);
/// Parses the tensors, or takes `parsed`.
CheckpointContents parse_contents(IndexFile&, const io::Path& prefix);

/// load_index(), then parse_contents().
CheckpointContents read_contents(io::FileSystem&, const io::Path& prefix, Graph = Graph::skip);

/// The same of one format.
CheckpointContents read_contents_as(Format, io::FileSystem&, const io::Path& prefix);

/// A checkpoint's metadata, without its tensors. Looks only at the data files that hold the
/// metadata, since there may be very many others.
CheckpointContents read_summary(io::FileSystem&, const io::Path& prefix,
                                std::optional<Format> = std::nullopt);

/// PREFIX.h5, or PREFIX.data-?????-of-?????.
io::Path data_path(const CheckpointContents&, int file);

/// Reads one slice whole and checks it: numbers against the checksum; strings are decoded. Numbers
/// are returned as they are in the file, or decoded if they are encoded. Throws unsupported for an
/// unknown codec.
std::string read_slice(io::FileSystem&, const CheckpointContents&, const StoredTensor&,
                       const Piece&);
std::vector<std::string> read_string_slice(io::FileSystem&, const CheckpointContents&,
                                           const StoredTensor&, const Piece&);

/// The codec that decodes a piece; null if the piece is not encoded. Throws unsupported for an
/// unknown codec. Throws data_loss if the stored bytes can never decode to the stated length; that
/// is checked before memory of that length is allocated.
const Encoding* decoder_of(const CheckpointContents&, const StoredTensor&, const Piece&);
/// The decoded bytes of an encoded piece. Throws as decoder_of() does.
std::string decode_slice(const CheckpointContents&, const StoredTensor&, const Piece&,
                         std::string_view stored);

/// A whole string tensor, put together from its slices.
std::vector<std::string> read_strings(io::FileSystem&, const CheckpointContents&,
                                      const StoredTensor&);

/// A stored slice and a wanted box that overlap, each by its index.
struct SliceMatch {
  std::size_t slice, box;
};

/// The stored slices that overlap each of these boxes, ascending by slice. Throws not_found if they
/// do not cover the boxes.
std::vector<SliceMatch> stored_parts(const StoredTensor&, const std::vector<Box>& wanted);
void require_stored(const StoredTensor&, const std::vector<Box>& wanted);

/// The error for a slice whose bytes do not match the stored checksum.
Error checksum_error(const CheckpointContents&, const StoredTensor&, const Piece&,
                     std::uint32_t found);

}  // namespace cairn
