#pragma once
/// A box of one stored tensor, read by one process that holds no part of it: for tools.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "store/contents/open_checkpoint.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// Elements of a box of the tensor, row-major and little-endian; the callee may change the bytes.
using TakeChunk = std::function<void(const Box& chunk, std::string& bytes)>;

/// What no rank held of a sparse tensor, and its fill value as it is stored.
using TakeGap = std::function<void(const Box& gap, const std::string& element)>;

/// Each stored slice that shares an element with `wanted` is read and checked whole, and given on
/// in chunks of a few MiB, which may reach beyond `wanted`. Gaps are given by their part in it:
/// there may be any number of elements in one. What was given on counts only when this returns.
/// Throws as read_numbers.
void read_chunks(const OpenCheckpoint&, const StoredTensor&, const Box& wanted,
                 const TakeChunk& take, const TakeGap& take_gap, const Progress& = {});
/// Reads only chunks of 64 KiB that are `needed`, and compares no checksum: for pictures of what is
/// too large to be read.
void read_chunks_unchecked(const OpenCheckpoint&, const StoredTensor&, const Box& wanted,
                           const std::function<bool(const Box&)>& needed, const TakeChunk& take,
                           const TakeGap& take_gap, const Progress& = {});
/// The bytes of what all its slices hold, decoded.
std::int64_t value_bytes(const StoredTensor&);
/// The same of the slices that read_chunks reads. Throws as it does, before it reads.
std::int64_t checked_bytes(const CheckpointContents&, const StoredTensor&, const Box& wanted);

/// The elements of `wanted`, row-major and little-endian. Each stored slice that shares an element
/// with it is read and checked whole, in chunks of a few MiB. Throws data_loss when one is damaged
/// or stored slices leave a part out, invalid_argument when the box is not in the tensor, the
/// tensor holds strings or gaps fill more than 1 GiB of the box, unsupported for variants and
/// codecs that are not known.
std::string read_numbers(const OpenCheckpoint&, const StoredTensor&, const Box& wanted,
                         const Progress& = {});

/// The same for a string tensor.
std::vector<std::string> read_string_box(const OpenCheckpoint&, const StoredTensor&,
                                         const Box& wanted, const Progress& = {});

}  // namespace cairn
