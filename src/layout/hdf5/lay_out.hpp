#pragma once
/// Lays out a new HDF5 file without its data: it returns all bytes that HDF5 itself writes, and
/// where the data goes. It touches no file. So libhdf5 never sees the data, which ranks write as
/// runs of dense tensors, and it never opens a checkpoint of ours again: its own bytes are under
/// our checksums. Each save lays out its file anew, since a file's metadata lies before its data.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/attributes.hpp"
#include "cairn/box.hpp"
#include "cairn/contents.hpp"
#include "cairn/dtype.hpp"
#include "layout/hdf5/byte_file.hpp"

namespace cairn::hdf5 {

/// Whether this build has libhdf5.
bool available();
/// Throws unsupported if it has not.
void require_available();

struct NewDataset {
  std::string key;
  DType dtype{};
  Dims shape;
  std::string fill = {};  ///< one element, the fill value of the dataset; empty: HDF5's own
  Dims chunk = {};        ///< extents of its chunks; empty: it is stored as one run
};

/// Strings for other readers of HDF5; Cairn itself reads them from the blob.
struct NewStrings {
  std::string key;
  Dims shape;
  std::vector<std::string> values;
};

/// Has the elements of the first datasets, of each at its place there.
struct Region {
  std::vector<std::int64_t> places;  ///< by dataset
  std::int64_t bytes = 0;
  std::int64_t guess = 0;  ///< where it begins, perhaps: if that is right, it takes half the time
};

struct NewFile {
  std::vector<NewDataset> datasets;
  std::vector<NewStrings> strings;
  Descriptions descriptions;    ///< of datasets, groups and the file, checked
  std::string meta;             ///< text of the dataset /_cairn/meta
  std::int64_t meta_bytes = 0;  ///< length of the metadata, with which the blob begins
  std::uint32_t meta_crc32c = 0;
  std::int64_t slices_bytes = 0;  ///< length of the text of the dataset /_cairn/slices; 0: none
  std::int64_t blob_bytes = 0;    ///< length of the dataset /_cairn/strings
  std::int64_t table_room = 0;    ///< length of the dataset /_cairn/index
  Codec codec = Codec::none;      ///< of datasets in chunks
  std::int64_t room_bytes = 0;  ///< space that belongs to no dataset, for chunks and their indexes
  /// If given, the file has three parts: what HDF5 writes, with metadata and slices; the region;
  /// and the table.
  std::optional<Region> region = std::nullopt;
};

struct Skeleton {
  /// Of each dataset's elements, in order; 0: it has none. Of one in chunks: of the root of its
  /// chunk index (chunk_tree.hpp), which the extents leave out.
  std::vector<std::int64_t> offsets;
  std::int64_t room_offset = 0;    ///< at a page
  std::int64_t region_offset = 0;  ///< at a page
  std::int64_t blob_offset = 0, slices_offset = 0, table_offset = 0;
  std::vector<Extent> extents;  ///< what HDF5 wrote: ascending, apart from each other and from data
  std::int64_t size = 0;
};

/// Returns the same bytes for the same NewFile. Contiguous datasets of 1 MiB or more begin at a
/// multiple of 1 MiB, unless they lie in a region, which takes no chunks. For chunks it needs
/// HDF5 1.10.3. Throws invalid_argument for keys that HDF5 cannot hold (key_path.hpp) and tensors
/// of more than 32 dimensions; unsupported without libhdf5.
Skeleton lay_out(const NewFile&);

}  // namespace cairn::hdf5
