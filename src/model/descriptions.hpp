#pragma once
/// Descriptions of tensors and checkpoint, as members of the metadata's JSON object.
#include <cstdint>
#include <string>
#include <string_view>

#include "cairn/attributes.hpp"

namespace cairn::descriptions {

/// All descriptions of a checkpoint together, as JSON; nothing may be nested deeper. Enough for
/// half a million objects of DCP, each of which says that it is bytes.
inline constexpr std::size_t most_description_bytes = std::size_t{64} << 20;
inline constexpr int deepest_json = 32;

/// A JSON object with the members "attributes" and "tensors", those that have anything; "" where
/// neither has. What was read from a checkpoint can be written again, whatever its names: another
/// version may have allowed them. Names are refused where an application gives them (encode_new),
/// so a checkpoint with other names still restores. Throws invalid_argument for values that JSON
/// cannot hold.
std::string encode(const Descriptions&);
/// The same of what an application wants to store: throws invalid_argument also for what
/// cairn/attributes.hpp says cannot be.
std::string encode_new(const Descriptions&);
/// Throws data_loss for what is no such object.
Descriptions decode(std::string_view json);

}  // namespace cairn::descriptions
