// A save as HDF5: everything but the elements of numeric tensors is rank 0's work.
#include "session/save/formats/save_hdf5.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "group/collectives.hpp"
#include "layout/codec.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "session/save/formats/hdf5_file.hpp"
#include "session/save/writers/writer.hpp"

namespace cairn {
namespace {

// What `automatic` chooses from, best first.
constexpr std::array best_codecs{Codec::zstd, Codec::deflate, Codec::blosc};

// Null: none. Throws if this build has no such codec.
const Encoding* encoding_of(StoreCodec choice) {
  const auto find = [](Codec codec) {
    if (const auto* one = known_encoding(codec)) return one;
    throw Error(
        Code::unsupported,
        cat("this Cairn was built without ", codec_text(codec), ", which store.codec names"),
        "its library was not found",
        "Build it again where that is (on Debian: apt-get install zlib1g-dev libzstd-dev "
        "libblosc-dev), or name another codec.");
  };
  switch (choice) {
    case StoreCodec::none:
      return nullptr;
    case StoreCodec::deflate:
      return find(Codec::deflate);
    case StoreCodec::zstd:
      return find(Codec::zstd);
    case StoreCodec::blosc:
      return find(Codec::blosc);
    case StoreCodec::automatic:
      break;
  }
  const auto best = std::find_if(best_codecs.begin(), best_codecs.end(), is_known);
  return find(best == best_codecs.end() ? best_codecs.front() : *best);
}

// Of a file that ranks write in parts.
void require_parts(const Job& job, const Encoding* encoding) {
  if (!encoding) return;
  throw Error(Code::unsupported,
              cat("HDF5 files in ", job.directory.string(), " do not go with store.codec"),
              "ranks send parts whose places must be known before",
              "Save without a codec, or in a directory.")
      .at(job.directory.string());
}

}  // namespace

// Data files are never recycled, since an HDF5 file has holes.
void Hdf5Save::validate(Job& job) const {
  hdf5::require_available();
  const auto* encoding = encoding_of(job.options.store.codec);
  if (const auto& writer = writer_of(job); encoding && writer.writes_together()) {
    throw Error(Code::unsupported, cat("store.codec does not go with ", writer.name()),
                "the places of encoded chunks follow from their sizes, and ranks that write "
                "together must know them before",
                "Save with Writer::posix, or without a codec.");
  }
  if (job.part_bytes > 0) require_parts(job, encoding);
  if (job.options.hooks.savers.empty()) return;
  throw Error(Code::unsupported, "registered savers cannot take part in a save as HDF5",
              "what they write are bundles, whose files become part of the checkpoint",
              "Save in the format of bundles.");
}

std::string Hdf5Save::limits_policy(const Job&) const {
  return "is never called: a checkpoint as HDF5 is one file, which holds each tensor whole.";
}

void Hdf5Save::choose_files(const Sharding&, const RefreshedState&,
                            std::vector<DenseTensor>& all) const {
  for (auto& one : all) one.file = 0;
}

void Hdf5Save::lay_out(const Job& job, const RefreshedState& state, Covered&& covered,
                       SavePlan& plan) const {
  plan.gathered = gather_for_hdf5(job, state, covered.tasks, covered.dense, plan.local.strings);
  // Those with gaps stay one array, which holds the fill value there.
  const auto has_gaps = [&](const std::string& key) { return plan.gaps->contains(key); };
  plan.dense = plan_dense(*job.group, std::move(covered.dense), job.options.write.chunk_bytes,
                          job.places.served_by, {encoding_of(job.options.store.codec), has_gaps},
                          job.part_bytes, job.part_bytes > 0);
  if (job.options.store.codec == StoreCodec::automatic) plan.dense.choice = job.encode_choice;
  plan.layout = lay_out_hdf5(job, plan.gathered.small, plan.dense);
  // Rank 0 keeps all ranks' strings of this save, so a plan with strings cannot be used again.
  // Without strings, rank 0 lays the file out anew for each save.
  const bool any_strings = any_of(*job.group, !plan.local.strings.empty());
  plan.again = any_strings ? SavePlan::Again::never : SavePlan::Again::told;
}

SaveFormat::Begun Hdf5Save::begin(const Job& job, const RefreshedState&, Draft& draft,
                                  CheckpointMeta& meta, SavePlan& plan, FileLayout&) const {
  Begun begun;
  begun.entries = make_hdf5(job, draft, meta, plan.gathered, plan.dense, begun.structure.emplace());
  return begun;
}

// Entries are not encoded yet, since the table is made of tensors when all places in the file are
// known.
JoinedEntries Hdf5Save::merge(Group& group, EntryList mine, const SavePlan& plan,
                              SaveStatistics& figures) const {
  return merge_entries(group, std::move(mine), false, &figures, plan.divided, *plan.gaps);
}

}  // namespace cairn
