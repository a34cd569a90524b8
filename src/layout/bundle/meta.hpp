#pragma once
/// What Cairn says of its own checkpoints, as the text of a string scalar under one own key.
#include <optional>
#include <string>
#include <string_view>

#include "cairn/contents.hpp"

namespace cairn::bundle {

/// Users' keys cannot begin with "_cairn/".
inline constexpr std::string_view meta_key = "_cairn/meta";
/// Of HDF5 files, whose metadata is written before the statistics are known.
inline constexpr std::string_view statistics_key = "_cairn/statistics";

/// A JSON object. Text that is not UTF-8 is stored with replacement characters.
std::string encode_meta(const CheckpointMeta& meta);
/// Unknown members are ignored. Throws data_loss for what is malformed, missing or of a wrong type.
CheckpointMeta decode_meta(std::string_view json);

/// The member "statistics" of the metadata, by itself: of the save, and what it notes of its run.
/// What makes no sense is nothing: nobody needs it for a restore.
std::string encode_statistics(const SaveStatistics&, const RunNotes& = {});
/// Sets `statistics` and `run` of metadata whose step is known.
void decode_statistics(std::string_view json, CheckpointMeta&);

/// Takes the entry of the metadata out of an index's contents, for its value to be read from the
/// data file: decode_meta(decode_strings(...)[0]). Nothing in checkpoints of other programs. Throws
/// data_loss if it has a problem or is no string scalar.
std::optional<StoredTensor> take_meta_entry(CheckpointContents& contents);

}  // namespace cairn::bundle
