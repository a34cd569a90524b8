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

/// Number of data files, and byte order. Returns whether entries may be encoded. Throws data_loss,
/// and unsupported for another version's.
bool read_header(std::string_view value, CheckpointContents&);

/// dtype and shape, which all entries have. Returns the element count, or nothing and a problem.
std::optional<std::int64_t> read_type(const pb::Entry&, StoredTensor&);

/// Where the bytes of a plain or slice entry are: one slice, or a problem.
void read_place(const pb::Entry&, std::int64_t count, int num_files, bool has_codecs,
                StoredTensor&);

/// A slice as the entry of its tensor lists it.
void read_extents(const pb::Slice&, std::vector<KeyExtent>&);

/// The box of a listed slice, or nothing and a problem; `alone`: the tensor lists no other.
std::optional<Piece> read_box(StoredTensor&, const std::vector<KeyExtent>&, bool alone);

/// Adds the slice to its tensor, with the place that its own entry says, or a problem.
void take_part(StoredTensor&, Piece&, StoredTensor& part, const std::vector<KeyExtent>&);

}  // namespace cairn::bundle
