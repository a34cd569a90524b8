#pragma once
/// Descriptions of tensors and checkpoint, as members of the metadata's JSON object.
#include <cstdint>
#include <string>
#include <string_view>

#include "cairn/attributes.hpp"

namespace cairn::descriptions {

/// Limits: bytes of all descriptions of a checkpoint together, as JSON, and levels of nesting in an
/// attribute. The bytes are enough for half a million objects of DCP, each of which says that it is
/// bytes.
inline constexpr std::size_t most_description_bytes = std::size_t{64} << 20;
inline constexpr int deepest_json = 32;

/// A JSON object with the members "attributes" and "tensors", as far as these hold anything; "" if
/// neither does. What was read from a checkpoint can be written again, whatever its names: another
/// version may have allowed them. Only encode_new() refuses names, when an application gives them,
/// so a checkpoint with other names still restores. Throws invalid_argument for values that JSON
/// cannot hold.
std::string encode(const Descriptions&);
/// The same for what an application wants to store: throws invalid_argument also for what
/// cairn/attributes.hpp does not allow.
std::string encode_new(const Descriptions&);
/// Throws data_loss for what is no such object.
Descriptions decode(std::string_view json);

}  // namespace cairn::descriptions
