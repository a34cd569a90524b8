// Makes the file of a save as HDF5. libhdf5 lays it out in memory; what it has laid out becomes
// patches of bytes, which rank 0 writes. The elements of dense tensors follow from all ranks.
#include "session/save/formats/hdf5_file.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "exchange/messages.hpp"
#include "group/collectives.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/codec.hpp"
#include "layout/hdf5/chunk_tree.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "layout/offsets.hpp"
#include "session/save/formats/holding.hpp"
#include "session/save/writers/writer.hpp"
#include "store/contents/hdf5_reader.hpp"
#include "store/contents/read_holders.hpp"
#include "store/contents/seal.hpp"

namespace cairn {
namespace {

// Strings in HDF5 must be smaller than 4 GiB. If the list of holders is larger than this, it is
// left out.
constexpr std::size_t most_slices_bytes = std::size_t{1} << 30;
// The seal lies after all bytes that HDF5 knows, at a multiple of its own size.
std::int64_t open_seal_offset(std::int64_t hdf5_bytes) {
  return (hdf5_bytes + hdf5::seal_bytes - 1) / hdf5::seal_bytes * hdf5::seal_bytes;
}

// Each piece of structure that HDF5 has written gets an entry of its own, so that its checksum
// covers it.
StoredTensor structure_entry(std::size_t number, const hdf5::Extent& extent) {
  char key[40];
  std::snprintf(key, sizeof key, "_cairn/structure-%05zu", number);
  const auto size = static_cast<std::int64_t>(extent.bytes.size());
  return whole_entry(key, DType::uint8, {size}, extent.offset, size, crc32c(extent.bytes));
}

// The file as HDF5 makes it, and the strings that are written into it.
class NewHdf5 {
 public:
  // Lets libhdf5 lay out the file. The blob has all strings under checksums, for Cairn; HDF5 gets
  // them once more as datasets, for other programs.
  NewHdf5(const CheckpointMeta& meta, const Gathered& gathered, const DensePlan& plan,
          std::int64_t ranges_bytes)
      : small_(gathered.small),
        plan_(plan),
        dense_(plan.tensors),
        slices_(hdf5::encode_holders(gathered.holders)) {
    if (slices_.size() > most_slices_bytes) slices_.clear();
    file_.slices_bytes = static_cast<std::int64_t>(slices_.size());
    file_.meta = bundle::encode_meta(meta);
    file_.descriptions = meta.descriptions;
    for (std::size_t t = 0; t < dense_.size(); ++t) {
      const auto& one = dense_[t];
      const auto gaps = meta.gaps.find(one.key);
      file_.datasets.push_back({one.key, one.dtype, one.shape,
                                gaps == meta.gaps.end() ? "" : gaps->second->fill, plan.chunks[t]});
      if (plan.chunks[t].empty()) continue;
      trees_bytes_ +=
          hdf5::tree_room(hdf5::chunk_count(one.shape, plan.chunks[t]), one.shape.size());
    }
    if (plan.enclosed) {
      auto& region = file_.region.emplace();
      for (const auto begin : plan.begins) region.places.push_back(begin - plan.region);
      if (!plan.file_bytes.empty()) region.bytes = plan.file_bytes.front();
      region.guess = plan.region;
    }
    if (ranges_bytes > 0) {
      file_.codec = plan.encoding->codec;
      file_.room_bytes = next_page(trees_bytes_) + ranges_bytes;
    }
    meta_ = bundle::encode_strings({&file_.meta, 1});
    blob_ = meta_.bytes;
    file_.meta_bytes = static_cast<std::int64_t>(meta_.bytes.size());
    file_.meta_crc32c = meta_.crc32c;
    for (const auto& one : small_) {
      if (one.dtype != DType::string) {
        file_.datasets.push_back({one.key, one.dtype, one.shape});
        continue;
      }
      blob_ += one.strings.bytes;
      file_.strings.push_back({one.key, one.shape,
                               bundle::decode_strings(one.strings.bytes, element_count(one.shape),
                                                      one.strings.crc32c)});
    }
    file_.blob_bytes = static_cast<std::int64_t>(blob_.size());
    // Only HDF5 itself knows how many pieces it writes, so the table gets more room until it fits.
    // At first neither offsets nor pieces of structure are known: about 10 bytes an entry are for
    // the offset, 24 KiB for the entries of the pieces.
    for (file_.table_room = table_bytes() + 10 * entry_count() + (24 << 10);;
         file_.table_room *= 2) {
      layout_ = hdf5::lay_out(file_);
      if (table_bytes() <= file_.table_room) break;
    }
  }

  std::vector<std::int64_t> dense_offsets() const {
    return {layout_.offsets.begin(),
            layout_.offsets.begin() + static_cast<std::ptrdiff_t>(dense_.size())};
  }

  std::int64_t region_offset() const { return layout_.region_offset; }

  std::int64_t ranges_offset() const { return layout_.room_offset + next_page(trees_bytes_); }

  // Of all that rank 0 writes. Strings lie one after the other in the blob, metadata first.
  std::vector<StoredTensor> entries() const {
    std::vector<StoredTensor> all;
    auto at = layout_.blob_offset;
    const auto add_strings = [&](const std::string& key, const Dims& shape,
                                 const bundle::EncodedStrings& strings) {
      const auto size = static_cast<std::int64_t>(strings.bytes.size());
      all.push_back(whole_entry(key, DType::string, shape, at, size, strings.crc32c));
      at += size;
    };
    add_strings(std::string(bundle::meta_key), {}, meta_);
    for (const auto& one : small_) {
      if (one.dtype == DType::string) {
        add_strings(one.key, one.shape, one.strings);
      } else {
        all.push_back(whole_entry(one.key, one.dtype, one.shape, 0, 0, 0));
      }
    }
    if (!slices_.empty()) {
      all.push_back(whole_entry(std::string(slices_key), DType::uint8, {file_.slices_bytes},
                                layout_.slices_offset, file_.slices_bytes, crc32c(slices_)));
    }
    for (std::size_t i = 0; i < layout_.extents.size(); ++i) {
      all.push_back(structure_entry(i, layout_.extents[i]));
    }
    all.push_back(whole_entry(std::string(open_seal_key), DType::uint8, {hdf5::seal_bytes},
                              open_seal_offset(layout_.size), hdf5::seal_bytes,
                              crc32c(open_seal())));
    return all;
  }

  // Notes where the commit writes the chunk indexes.
  void add_tree_places(std::vector<StoredTensor>& entries) const {
    if (file_.room_bytes == 0) return;
    const auto add = [&](std::string key, std::int64_t offset) {
      entries.push_back(whole_entry(std::move(key), DType::uint8, {0}, offset, 0, 0));
    };
    add(std::string(tree_key), layout_.room_offset);
    for (std::size_t t = 0; t < dense_.size(); ++t) {
      if (!plan_.chunks[t].empty()) add(cat(tree_key, '/', dense_[t].key), layout_.offsets[t]);
    }
  }

  // `reserve`: takes the space of the whole file. This call reports a full disk, while an MPI
  // library may report nothing, or hang.
  void write(io::FileSystem& files, const io::Path& path, bool reserve) const {
    const auto file = files.create(path);
    each([&](std::int64_t offset, std::string_view bytes) {
      file->write_at(offset, std::as_bytes(std::span(bytes)));
    });
    if (reserve) file->reserve(file->size());
    file->sync();
    file->close();
  }

  // What lies before and behind the region of dense tensors.
  FileEnds ends() const {
    FileEnds ends;
    ends.tail_offset = layout_.table_offset;
    ends.head.resize(static_cast<std::size_t>(layout_.region_offset));
    each([&](std::int64_t offset, std::string_view bytes) {
      auto& into = offset < ends.tail_offset ? ends.head : ends.tail;
      const auto at =
          static_cast<std::size_t>(offset < ends.tail_offset ? offset : offset - ends.tail_offset);
      into.resize(std::max(into.size(), at + bytes.size()));
      into.replace(at, bytes.size(), bytes);
    });
    return ends;
  }

  std::vector<commit::Patch> take_structure() {
    std::vector<commit::Patch> all;
    for (auto& extent : layout_.extents) all.push_back({extent.offset, std::move(extent.bytes)});
    all.push_back({open_seal_offset(layout_.size), open_seal()});
    return all;
  }

 private:
  // All bytes that rank 0 writes now.
  void each(const std::function<void(std::int64_t offset, std::string_view)>& take) const {
    for (const auto& extent : layout_.extents) take(extent.offset, extent.bytes);
    take(layout_.blob_offset, blob_);
    if (!slices_.empty()) take(layout_.slices_offset, slices_);
    take(open_seal_offset(layout_.size), open_seal());
  }

  // It says that the save is not finished. The commit writes the final one.
  std::string open_seal() const {
    return hdf5::encode_seal({false, open_seal_offset(layout_.size) + hdf5::seal_bytes,
                              layout_.table_offset, file_.table_room, 0, 0});
  }

  std::int64_t entry_count() const {
    auto count = static_cast<std::int64_t>(dense_.size() + small_.size()) + 1;
    for (std::size_t t = 0; t < dense_.size(); ++t) {
      const auto& chunk = plan_.chunks[t];
      if (!chunk.empty()) count += hdf5::chunk_count(dense_[t].shape, chunk);
    }
    return count;
  }

  // The tensor with an entry for each chunk, none of which is shorter than what the save makes.
  StoredTensor in_chunks(const DenseTensor& one, const Dims& chunk) const {
    StoredTensor tensor{one.key, one.dtype, one.shape, true, {}, ""};
    const auto bytes = element_count(chunk) * static_cast<std::int64_t>(dtype_size(one.dtype));
    const auto count = hdf5::chunk_count(one.shape, chunk);
    tensor.slices.reserve(static_cast<std::size_t>(count));
    Box box{Dims(chunk.size()), chunk};
    for (std::int64_t number = 0; number < count; ++number) {
      for (std::size_t d = 0; d < chunk.size(); ++d) {
        box.extent[d] = std::min(chunk[d], one.shape[d] - box.start[d]);
      }
      Piece piece;
      piece.box = box;
      piece.offset = std::max(layout_.size, file_.room_bytes);
      piece.stored_bytes = bytes + encoded_excess(bytes);
      piece.raw_bytes = bytes;
      piece.codec = file_.codec;
      tensor.slices.push_back(std::move(piece));
      for (auto d = chunk.size(); d > 0; --d) {
        if ((box.start[d - 1] += chunk[d - 1]) < one.shape[d - 1]) break;
        box.start[d - 1] = 0;
      }
    }
    tensor.sliced = count > 1;
    return tensor;
  }

  // As many entries as chunk indexes will have: nodes that are neighbours have one.
  void add_chunk_indexes(std::vector<StoredTensor>& entries) const {
    std::map<std::int64_t, std::int64_t> nodes;  // offset → bytes
    if (trees_bytes_ > 0) nodes[layout_.room_offset] = trees_bytes_;
    for (std::size_t t = 0; t < layout_.offsets.size() && t < dense_.size(); ++t) {
      if (plan_.chunks[t].empty()) continue;
      nodes[layout_.offsets[t]] = hdf5::tree_node_bytes(plan_.chunks[t].size());
    }
    std::int64_t end = -1;
    for (const auto& [offset, bytes] : nodes) {
      if (offset != std::exchange(end, offset + bytes)) {
        entries.push_back(whole_entry(chunk_index_key(entries.size()), DType::uint8, {trees_bytes_},
                                      offset, trees_bytes_, 0));
      }
    }
  }

  // The size of the table, which will differ only in the checksums of dense tensors, and be no
  // larger if there are chunks.
  std::int64_t table_bytes() const {
    auto all = entries();
    add_chunk_indexes(all);
    for (std::size_t i = 0; i < dense_.size(); ++i) {
      const auto& one = dense_[i];
      if (!plan_.chunks[i].empty()) {
        all.push_back(in_chunks(one, plan_.chunks[i]));
        continue;
      }
      const auto size = element_count(one.shape) * static_cast<std::int64_t>(dtype_size(one.dtype));
      const auto offset = layout_.offsets.empty() ? 0 : layout_.offsets[i];
      all.push_back(whole_entry(one.key, one.dtype, one.shape, offset, size, 0));
    }
    return static_cast<std::int64_t>(bundle::build_index(1, all).size());
  }

  const std::vector<SmallTensor>& small_;
  const DensePlan& plan_;
  const std::vector<DenseTensor>& dense_;
  std::int64_t trees_bytes_ = 0;  // nodes of chunk indexes that are no roots
  std::string slices_;            // encoded holders of the slices
  hdf5::NewFile file_;
  bundle::EncodedStrings meta_;
  std::string blob_;
  hdf5::Skeleton layout_;
};

}  // namespace

// Collective. Sends what rank 0 stores by itself to rank 0, together with the devices that hold
// slices.
Gathered gather_for_hdf5(const Job& job, const RefreshedState& state,
                         const std::vector<Task>& tasks, const std::vector<DenseTensor>& dense,
                         StringStore& mine) {
  struct Small {
    SmallTensor tensor;
    std::string task;
  };
  struct OfRank {
    RankHolding holding;
    Packed<Small> small;
  };
  auto message = run_and_agree(*job.group, [&] {
    OfRank said{holding_of(job, state, dense), {}};
    for (const auto& task : tasks) {
      const auto& [key, tensor] = state.tensors()[task.tensor];
      Small one{{key, tensor.dtype, tensor.shape, {}},
                to_string(device_of(job, tensor, task.slice))};
      if (tensor.strings) {
        one.tensor.strings = bundle::encode_strings(string_values(key, tensor));
      }
      said.small.add(one);
      if (tensor.strings) mine[task.tensor] = std::move(one.tensor.strings);
    }
    return pack(said);
  });
  const auto all =
      reduce_to_root(*job.group, std::move(message),
                     [](std::string low, std::string high) { return std::move(low) + high; });
  Gathered gathered;
  run_and_agree(*job.group, [&] {
    Holding holding;
    for (auto& said : unpack_each<OfRank>(all)) {
      holding.take_rank(std::move(said.holding));
      for (auto& [tensor, task] : said.small.each()) {
        holding.add(tensor.key, Box::whole(tensor.shape), task);
        gathered.small.push_back(std::move(tensor));
      }
    }
    if (job.root()) gathered.holders = holding.finish(dense);
  });
  std::sort(gathered.small.begin(), gathered.small.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  return gathered;
}

FileLayout lay_out_hdf5(const Job& job, const std::vector<SmallTensor>& small,
                        const DensePlan& dense) {
  FileLayout layout;
  layout.data_files = 1;
  // The one file counts as a file of dense tensors: all ranks with runs write it.
  layout.dense_file = 0;
  // How much room encoded chunks take shows only when they are written.
  layout.total_bytes = dense.encoding ? 0 : dense.bytes;
  for (const auto& one : small) {
    layout.total_bytes += static_cast<std::int64_t>(one.strings.bytes.size());
  }
  // A sum in which each rank fills its own element, as in lay_out().
  std::vector<std::int64_t> records(static_cast<std::size_t>(job.group->size()));
  records[static_cast<std::size_t>(job.rank())] = job.root() || dense.writes();
  job.group->all_reduce(records, Group::Op::sum);
  for (int rank = 0; rank < job.group->size(); ++rank) {
    const bool leaves_record = records[static_cast<std::size_t>(rank)] != 0;
    if (rank == job.rank() && leaves_record) layout.writer = layout.writers;
    layout.writers += leaves_record;
  }
  return layout;
}

std::vector<StoredTensor> make_hdf5(const Job& job, Draft& draft, const CheckpointMeta& meta,
                                    const Gathered& gathered, DensePlan& dense,
                                    std::vector<commit::Patch>& structure) {
  std::vector<StoredTensor> entries;
  struct Places {
    std::vector<std::int64_t> dense;
    std::int64_t ranges = 0, region = 0;
  };
  const auto ranges_bytes = dense.encoding ? deal_ranges(*job.group, dense) : 0;
  const auto message = from_root(*job.group, [&] {
    NewHdf5 file(meta, gathered, dense, ranges_bytes);
    if (dense.enclosed) {
      draft.files().enclose(file.ends());
    } else {
      file.write(*job.files, draft.path(0), writer_of(job).writes_together());
    }
    entries = file.entries();
    file.add_tree_places(entries);
    if (!dense.enclosed) structure = file.take_structure();  // nobody writes over it
    return pack(Places{file.dense_offsets(), file.ranges_offset(), file.region_offset()});
  });
  const auto places = unpack<Places>(message);
  place_dense(dense, places.dense, places.region);
  dense.range.begin += places.ranges;
  return entries;
}

}  // namespace cairn
