#pragma once
/// The metadata that Cairn adds to its checkpoints: JSON in a string scalar under a key of its own.
#include <optional>
#include <string>
#include <string_view>

#include "cairn/contents.hpp"

namespace cairn::bundle {

/// Users' keys cannot begin with "_cairn/".
inline constexpr std::string_view meta_key = "_cairn/meta";
/// Used in HDF5 files, whose metadata is written before the statistics are known.
inline constexpr std::string_view statistics_key = "_cairn/statistics";

/// A JSON object. Text that is not UTF-8 is stored with replacement characters.
std::string encode_meta(const CheckpointMeta& meta);
/// Unknown members are ignored. Throws data_loss for what is malformed, missing or of a wrong type.
CheckpointMeta decode_meta(std::string_view json);

/// The member "statistics" of the metadata, by itself: those of the save, and its notes on its run.
/// Malformed statistics are read as none, since no restore needs them.
std::string encode_statistics(const SaveStatistics&, const RunNotes& = {});
/// Sets `statistics` and `run` of metadata whose step is known.
void decode_statistics(std::string_view json, CheckpointMeta&);

/// Takes the entry of the metadata out of an index's contents, so that its value can be read from
/// the data file: decode_meta(decode_strings(...)[0]). Returns nothing for checkpoints of other
/// programs. Throws data_loss if the entry has a problem or is no string scalar.
std::optional<StoredTensor> take_meta_entry(CheckpointContents& contents);

}  // namespace cairn::bundle
