#pragma once
/// HDF5 and the codecs of its checkpoints that a seed can choose.
#include <array>
#include <cstddef>
#include <vector>

#include "cairn/contents.hpp"
#include "lab/campaigns/programs/random.hpp"
#include "layout/codec.hpp"

namespace cairn::campaign {

/// HDF5 checkpoints can be made.
#ifdef CAIRN_CAMPAIGN_HDF5
inline constexpr bool has_hdf5 = true;
#else
inline constexpr bool has_hdf5 = false;
#endif

/// Any that this build has, or none. StoreCodec::automatic is not among them, since what it does
/// depends on time.
inline StoreCodec choose_codec(Random& random) {
  std::vector<StoreCodec> all{StoreCodec::none};
  if (is_known(Codec::deflate)) all.push_back(StoreCodec::deflate);
  if (is_known(Codec::zstd)) all.push_back(StoreCodec::zstd);
  if (is_known(Codec::blosc)) all.push_back(StoreCodec::blosc);
  return all[static_cast<std::size_t>(random.below(static_cast<int>(all.size())))];
}

inline const char* name_of(StoreCodec codec) {
  return words(StoreCodec{})[static_cast<std::size_t>(codec)];
}

inline bool any_codec() {
  return is_known(Codec::deflate) || is_known(Codec::zstd) || is_known(Codec::blosc);
}

}  // namespace cairn::campaign
