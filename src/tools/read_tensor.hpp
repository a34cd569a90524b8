#pragma once
/// Reads a box of one stored tensor, in one process that holds no part of it. For tools.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "store/contents/open_checkpoint.hpp"
#include "tools/progress.hpp"

namespace cairn {

/// Gets the elements of a box of the tensor, row-major and little-endian. It may change the bytes.
using TakeChunk = std::function<void(const Box& chunk, std::string& bytes)>;

/// Gets a part of a sparse tensor that no rank held, and the fill value as it is stored.
using TakeGap = std::function<void(const Box& gap, const std::string& element)>;

/// Reads and checks each stored slice, as a whole, that shares an element with `wanted`, and passes
/// it on in chunks of a few MiB, which may extend beyond `wanted`. Gaps are passed on as the part
/// inside of `wanted`, since one may have any number of elements. The data are valid only once this
/// has returned. Throws the errors of read_numbers.
void read_chunks(const OpenCheckpoint&, const StoredTensor&, const Box& wanted,
                 const TakeChunk& take, const TakeGap& take_gap, const Progress& = {});
/// Reads only the chunks of 64 KiB that are `needed`, and compares no checksum: for pictures of
/// tensors that are too large to be read.
void read_chunks_unchecked(const OpenCheckpoint&, const StoredTensor&, const Box& wanted,
                           const std::function<bool(const Box&)>& needed, const TakeChunk& take,
                           const TakeGap& take_gap, const Progress& = {});
/// The bytes of what all slices of the tensor hold, decoded.
std::int64_t value_bytes(const StoredTensor&);
/// The same for the slices that read_chunks would read. Throws the errors that it throws before
/// reading.
std::int64_t checked_bytes(const CheckpointContents&, const StoredTensor&, const Box& wanted);

/// Returns the elements of `wanted`, row-major and little-endian. Reads and checks each stored
/// slice, as a whole, that shares an element with it, in chunks of a few MiB. Throws data_loss if
/// one is damaged or if stored slices leave a part out, invalid_argument if the box is not in the
/// tensor, if the tensor holds strings or if gaps fill more than 1 GiB of the box, unsupported for
/// variants and for unknown codecs.
std::string read_numbers(const OpenCheckpoint&, const StoredTensor&, const Box& wanted,
                         const Progress& = {});

/// The same for a string tensor.
std::vector<std::string> read_string_box(const OpenCheckpoint&, const StoredTensor&,
                                         const Box& wanted, const Progress& = {});

}  // namespace cairn
