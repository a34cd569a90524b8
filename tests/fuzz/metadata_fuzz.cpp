// Any bytes as the metadata of Cairn's checkpoints: metadata, statistics, descriptions, gaps, and
// which task held what. What is accepted is the same after it was written and read again.
#include "fuzz/hostile.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/bundle/stored_gaps.hpp"
#include "layout/hdf5/holders.hpp"
#include "model/descriptions.hpp"

using namespace cairn;

CAIRN_FUZZ_TARGET(metadata) {
  CheckpointMeta meta;
  if (fuzz::only_data_loss([&] { meta = bundle::decode_meta(text); })) {
    fuzz::only_data_loss([&] { bundle::decode_statistics(text, meta); });
    if (bundle::decode_meta(bundle::encode_meta(meta)).descriptions != meta.descriptions) {
      fuzz::wrong("what metadata says of tensors is not what it was");
    }
  }
  Descriptions descriptions;
  if (fuzz::only_data_loss([&] { descriptions = descriptions::decode(text); })) {
    const auto again = descriptions::encode(descriptions);
    if (descriptions::decode(again) != descriptions) {
      fuzz::wrong("descriptions are not what they were");
    }
    // A name that HDF5 uses is accepted by the reader, since a version may have allowed it, but not
    // as a new one.
    fuzz::only([&] { descriptions::encode_new(descriptions); }, Code::invalid_argument);
  }
  GapsByKey gaps;
  if (fuzz::only_data_loss([&] { gaps = bundle::decode_gaps(text); })) {
    bundle::decode_gaps(bundle::encode_gaps(gaps));
  }
  hdf5::Holders holders;
  if (fuzz::only_data_loss([&] { holders = hdf5::decode_holders(text); })) {
    if (hdf5::decode_holders(hdf5::encode_holders(holders)) != holders) {
      fuzz::wrong("holders are not what they were");
    }
  }
}
