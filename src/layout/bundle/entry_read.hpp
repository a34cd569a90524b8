#pragma once
/// Reads the values of an index: the header, and what an entry says of a tensor or slice.
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "bundle.pb.h"
#include "cairn/contents.hpp"
#include "layout/bundle/slice_key.hpp"

namespace cairn::bundle {

bool parse(google::protobuf::MessageLite&, std::string_view bytes);

/// Reads the number of data files and the byte order. Returns whether entries may be encoded.
/// Throws data_loss; unsupported for an index of another version.
bool read_header(std::string_view value, CheckpointContents&);

/// Reads dtype and shape, which all entries have. Returns the element count, or nothing after it
/// has set the tensor's problem.
std::optional<std::int64_t> read_type(const pb::Entry&, StoredTensor&);

/// Reads where the bytes of a plain tensor or of a slice are. Adds one slice or sets a problem.
void read_place(const pb::Entry&, std::int64_t count, int num_files, bool has_codecs,
                StoredTensor&);

/// Reads a slice as the entry of its tensor lists it.
void read_extents(const pb::Slice&, std::vector<KeyExtent>&);

/// Returns the box of a listed slice, or nothing after it has set the tensor's problem. `alone`:
/// the tensor lists no other slice.
std::optional<Piece> read_box(StoredTensor&, const std::vector<KeyExtent>&, bool alone);

/// Adds the slice to its tensor, with the place from its own entry (`part`), or sets a problem.
void take_part(StoredTensor&, Piece&, StoredTensor& part, const std::vector<KeyExtent>&);

}  // namespace cairn::bundle
