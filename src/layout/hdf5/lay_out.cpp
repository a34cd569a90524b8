#include "layout/hdf5/lay_out.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.hpp"
#include "layout/encodings.hpp"
#include "layout/hdf5/chunk_tree.hpp"
#include "layout/hdf5/describe.hpp"
#include "layout/hdf5/file_driver.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "layout/hdf5/key_path.hpp"
#include "layout/hdf5/library.hpp"
#include "layout/hdf5/types.hpp"
#include "layout/offsets.hpp"

namespace cairn::hdf5 {
namespace {

constexpr hsize_t alignment = hsize_t{1} << 20;
// Registered with The HDF Group.
constexpr H5Z_filter_t zstd_filter = 32015, blosc_filter = 32001;

// Lets libhdf5 create the whole file in a SparseImage, with all datasets at their places but
// without their data.
class Maker {
 public:
  /// `region`: where a region begins.
  Maker(const NewFile& file, std::int64_t region) : file_(file), region_(region) {
    link_ = {H5Pcreate(H5P_LINK_CREATE), H5Pclose, what_};
    check(H5Pset_char_encoding(link_.get(), H5T_CSET_UTF8), what_);
    group_ = {H5Pcreate(H5P_GROUP_CREATE), H5Pclose, what_};
    // Without times in the file, the same NewFile gives the same bytes.
    check(H5Pset_obj_track_times(group_.get(), false), what_);
    data_ = storage(H5D_FILL_TIME_NEVER);
    strings_ = storage(H5D_FILL_TIME_IFSET);  // HDF5 refuses variable lengths that are never filled
  }

  Skeleton run() {
    Skeleton out;
    {
      FileDriver driver(image_);
      if (file_.room_bytes > 0) driver.look_for_trees();
      if (file_.region) driver.put_elements_apart();
      try {
        fill(driver, out);
      } catch (const Error&) {
        driver.rethrow();  // an error of the image says more than HDF5's
        throw;
      }
    }
    out.size = image_.size();
    out.extents = image_.take();
    out.region_offset = file_.region ? region_ : 0;
    leave_out_roots(out);
    require_apart(out);
    return out;
  }
  /// Where all ends that lies before a region.
  std::int64_t head_bytes(const Skeleton& out) const {
    auto end = std::max(out.blob_offset + file_.blob_bytes, out.slices_offset + file_.slices_bytes);
    for (const auto& extent : out.extents) end = std::max(end, extent.end());
    return end;
  }

 private:
  // Each dataset is one run of bytes that gets its place when it is made, so that offset_of() knows
  // it. If `fill` says never, HDF5 writes no elements: ranks write all of them.
  static Handle storage(H5D_fill_time_t fill) {
    Handle list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what_);
    check(H5Pset_layout(list.get(), H5D_CONTIGUOUS), what_);
    check(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_EARLY), what_);
    check(H5Pset_fill_time(list.get(), fill), what_);
    check(H5Pset_obj_track_times(list.get(), false), what_);
    return list;
  }

  Handle create_file(const FileDriver& driver) const {
    Handle create(H5Pcreate(H5P_FILE_CREATE), H5Pclose, what_);
    check(H5Pset_obj_track_times(create.get(), false), what_);
    Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, what_);
    // Readers with HDF5 1.10 can open the file.
    check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V110), what_);
    check(H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG), what_);
    if (!file_.region) check(H5Pset_alignment(access.get(), alignment, alignment), what_);
    // Metadata and small tensors lie together in blocks, so there are few extents and few file
    // operations.
    const auto objects = file_.datasets.size() + file_.strings.size();
    const auto block = std::clamp<std::size_t>(objects * 512, 8 << 10, 512 << 10);
    check(H5Pset_meta_block_size(access.get(), block), what_);
    check(H5Pset_small_data_block_size(access.get(), block), what_);
    driver.set(access.get());
    return {H5Fcreate("checkpoint", H5F_ACC_TRUNC, create.get(), access.get()), H5Fclose, what_};
  }

  // Makes the file, from the first group to the last attribute, and notes where data goes.
  void fill(FileDriver& driver, Skeleton& out) {
    std::vector<std::string> keys;
    for (const auto& one : file_.datasets) keys.push_back(one.key);
    for (const auto& one : file_.strings) keys.push_back(one.key);
    const auto groups = groups_of(keys);
    auto file = create_file(driver);
    h5_ = file.get();
    make_own(driver, out);
    for (const auto& name : groups) make_group(name);
    for (std::size_t i = 0; i < file_.datasets.size(); ++i) {
      if (file_.region && i < file_.region->places.size()) {
        driver.put_elements_at(region_ + file_.region->places[i]);
      }
      make_numbers(file_.datasets[i], out);
      driver.put_elements_at({});
    }
    for (const auto& one : file_.strings) make_strings(one);
    describe(h5_, file_);
    if (file_.room_bytes > 0) make_room(out);
    if (file_.region) end_at(region_ + file_.region->bytes + file_.table_room);
    // Other handles close by themselves; only closing the file flushes.
    h5_ = H5I_INVALID_HID;
    file.close("the HDF5 file cannot be completed");
    if (file_.room_bytes > 0) find_roots(driver, out);
  }

  // The superblock says where the file ends. What HDF5 still has to write gets its place before.
  void end_at(std::int64_t end) const {
    check(H5Fflush(h5_, H5F_SCOPE_GLOBAL), what_);
    hsize_t now = 0;
    check(H5Fget_filesize(h5_, &now), what_);
    check(H5Fincrement_filesize(h5_, static_cast<hsize_t>(end) - now), what_);
  }

  void make_numbers(const NewDataset& one, Skeleton& out) {
    // The type of each dtype is made once.
    const auto at = types_.find(one.dtype);
    const auto type =
        (at != types_.end() ? at : types_.emplace(one.dtype, stored_type(one.dtype)).first)
            ->second.get();
    Handle own;
    if (!one.chunk.empty()) own = chunked(one);
    if (!one.fill.empty()) {  // a save writes it into gaps; this tells readers what it is
      if (own.get() < 0) own = storage(H5D_FILL_TIME_NEVER);
      check(H5Pset_fill_value(own.get(), type, one.fill.data()), what_);
    }
    auto dataset = make_dataset(one.key, type, one.shape, own.get() < 0 ? data_ : own);
    const bool has_place = one.chunk.empty() && element_count(one.shape) > 0;
    out.offsets.push_back(has_place ? offset_of(dataset) : 0);
    if (has_no_type(one.dtype)) note(dataset, dtype_attribute, dtype_name(one.dtype));
    dataset.close(what_);
  }

  // The properties of a dataset in chunks. Filters are optional: libhdf5 needs no plugin for those
  // that it does not have, as no data goes through them here.
  Handle chunked(const NewDataset& one) const {
    auto list = storage(H5D_FILL_TIME_NEVER);
    const std::vector<hsize_t> extents(one.chunk.begin(), one.chunk.end());
    check(H5Pset_chunk(list.get(), static_cast<int>(extents.size()), extents.data()), what_);
    check(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_INCR), what_);
    const auto item = static_cast<unsigned>(dtype_size(one.dtype));
    const auto filter = [&](H5Z_filter_t id, std::vector<unsigned> values) {
      check(H5Pset_filter(list.get(), id, H5Z_FLAG_OPTIONAL, values.size(), values.data()), what_);
    };
    constexpr unsigned level = encoding_level;
    if (file_.codec == Codec::blosc) {
      // Versions of filter and format, bytes of an element and of a chunk, level, bit shuffle,
      // Zstandard.
      const auto bytes = static_cast<unsigned>(element_count(one.chunk)) * item;
      filter(blosc_filter, {2, 2, item, bytes, level, 2, 5});
      return list;
    }
    filter(H5Z_FILTER_SHUFFLE, {item});
    filter(file_.codec == Codec::zstd ? zstd_filter : H5Z_FILTER_DEFLATE, {level});
    return list;
  }

  // Lets HDF5 make the chunk index of each dataset, for one chunk of a byte that the commit
  // replaces. Its filter mask is the dataset's number, by which find_roots() knows the index. Then
  // comes the room, which the superblock's end of the file includes.
  void make_room(Skeleton& out) {
    for (std::size_t i = 0; i < file_.datasets.size(); ++i) {
      const auto& one = file_.datasets[i];
      if (one.chunk.empty()) continue;
      const Handle dataset(H5Dopen2(h5_, one.key.c_str(), H5P_DEFAULT), H5Dclose, what_);
      const std::vector<hsize_t> origin(one.chunk.size());
      check(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, static_cast<std::uint32_t>(i), origin.data(),
                           1, ""),
            what_);
    }
    hsize_t end = 0;
    check(H5Fget_filesize(h5_, &end), what_);
    out.room_offset = next_page(static_cast<std::int64_t>(end));
    const auto bytes = out.room_offset + file_.room_bytes - static_cast<std::int64_t>(end);
    check(H5Fincrement_filesize(h5_, static_cast<hsize_t>(bytes)), what_);
  }

  void find_roots(const FileDriver& driver, Skeleton& out) {
    for (const auto at : driver.trees()) {
      // Signature, type and level; then the mask, behind the neighbours and the size of the chunk.
      constexpr std::size_t mask_at = 28;
      std::string bytes(mask_at + 4, '\0');
      image_.read(at, std::as_writable_bytes(std::span(bytes)));
      if (!bytes.starts_with(std::string_view("TREE\1\0", 6))) continue;
      std::uint32_t number = 0;
      for (std::size_t b = 4; b > 0; --b) {
        number = number << 8 | static_cast<unsigned char>(bytes[mask_at + b - 1]);
      }
      if (number < out.offsets.size()) out.offsets[number] = at;
    }
    for (std::size_t i = 0; i < file_.datasets.size(); ++i) {
      if (file_.datasets[i].chunk.empty() || out.offsets[i] > 0) continue;
      throw Error(Code::internal, cat("HDF5 made no chunk index of ", file_.datasets[i].key));
    }
  }

  // Cuts the roots out of the extents.
  void leave_out_roots(Skeleton& out) const {
    std::map<std::int64_t, std::int64_t> roots;  // offset → end
    for (std::size_t i = 0; i < file_.datasets.size(); ++i) {
      const auto& chunk = file_.datasets[i].chunk;
      if (!chunk.empty()) roots[out.offsets[i]] = out.offsets[i] + tree_node_bytes(chunk.size());
    }
    if (roots.empty()) return;
    std::vector<Extent> left;
    for (auto& extent : out.extents) {
      auto at = extent.offset;
      const auto keep_to = [&](std::int64_t end) {
        if (end <= at) return;
        left.push_back({at, extent.bytes.substr(static_cast<std::size_t>(at - extent.offset),
                                                static_cast<std::size_t>(end - at))});
      };
      for (auto root = roots.lower_bound(extent.offset);
           root != roots.end() && root->first < extent.end(); ++root) {
        keep_to(root->first);
        at = root->second;
      }
      keep_to(extent.end());
    }
    out.extents = std::move(left);
  }

  // Makes the group of Cairn's own data: first, so that the marker lies near the file's beginning.
  void make_own(FileDriver& driver, Skeleton& out) {
    auto group = make_group(own_group);
    note(group, "format", marker);
    const std::string own(own_group);
    auto meta_text = fixed_string(std::max<std::size_t>(1, file_.meta.size()));
    auto meta = make_dataset(own + "/meta", meta_text.get(), {}, data_);
    check(H5Dwrite(meta.get(), meta_text.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, file_.meta.c_str()),
          what_);
    auto blob = make_dataset(own + "/strings", H5T_STD_U8LE, {file_.blob_bytes}, data_);
    if (file_.blob_bytes > 0) out.blob_offset = offset_of(blob);
    if (file_.meta_bytes > 0) {
      const auto place = encode_meta_place({out.blob_offset, file_.meta_bytes, file_.meta_crc32c});
      note(group, "metadata", place);
    }
    if (file_.slices_bytes > 0) {
      const auto text = fixed_string(static_cast<std::size_t>(file_.slices_bytes));
      out.slices_offset = offset_of(make_dataset(own + "/slices", text.get(), {}, data_));
    }
    if (file_.region) driver.put_elements_at(region_ + file_.region->bytes);
    auto table = make_dataset(own + "/index", H5T_STD_U8LE, {file_.table_room}, data_);
    driver.put_elements_at({});
    if (file_.table_room > 0) out.table_offset = offset_of(table);
  }

  // Puts a text of fixed length as an attribute.
  static void note(const Handle& object, const char* name, std::string_view text) {
    auto type = fixed_string(text.size());
    Handle scalar(H5Screate(H5S_SCALAR), H5Sclose, what_);
    Handle attribute(
        H5Acreate2(object.get(), name, type.get(), scalar.get(), H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose, what_);
    check(H5Awrite(attribute.get(), type.get(), text.data()), what_);
  }

  // A text type of this length, filled up with zero bytes.
  static Handle fixed_string(std::size_t bytes) {
    Handle type(H5Tcopy(H5T_C_S1), H5Tclose, what_);
    check(H5Tset_size(type.get(), bytes), what_);
    check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), what_);
    check(H5Tset_cset(type.get(), H5T_CSET_UTF8), what_);
    return type;
  }

  Handle make_group(const std::string& name) {
    return {H5Gcreate2(h5_, name.c_str(), link_.get(), group_.get(), H5P_DEFAULT), H5Gclose,
            cat("the group /", name, " cannot be made")};
  }

  Handle make_dataset(const std::string& key, hid_t type, const Dims& shape, const Handle& how) {
    if (shape.size() > H5S_MAX_RANK) {
      throw Error(Code::invalid_argument,
                  cat("tensor '", key, "' cannot be stored in an HDF5 file"),
                  cat("it has ", shape.size(), " dimensions, and HDF5 has at most ", H5S_MAX_RANK),
                  "Save it in the format of bundles.")
          .of_tensor(key);
    }
    const std::vector<hsize_t> extents(shape.begin(), shape.end());
    const auto id = shape.empty()
                        ? H5Screate(H5S_SCALAR)
                        : H5Screate_simple(static_cast<int>(shape.size()), extents.data(), nullptr);
    const auto what = cat("the dataset of tensor '", key, "' cannot be made");
    Handle space(id, H5Sclose, what);
    return {H5Dcreate2(h5_, key.c_str(), type, space.get(), link_.get(), how.get(), H5P_DEFAULT),
            H5Dclose, what};
  }

  static std::int64_t offset_of(const Handle& dataset) {
    const auto offset = H5Dget_offset(dataset.get());
    if (offset == HADDR_UNDEF) throw failure("HDF5 has no place for a dataset", Code::internal);
    return static_cast<std::int64_t>(offset);
  }

  // HDF5 writes these strings itself, among its own bytes. They are for other readers.
  void make_strings(const NewStrings& one) {
    const bool zeros = std::any_of(one.values.begin(), one.values.end(), [](const auto& value) {
      return value.find('\0') != value.npos;
    });
    // A C string ends at a zero byte, so strings with zero bytes are stored as sequences of bytes.
    Handle type(zeros ? H5Tvlen_create(H5T_STD_U8LE) : H5Tcopy(H5T_C_S1), H5Tclose, what_);
    if (!zeros) {
      const bool utf8 = std::all_of(one.values.begin(), one.values.end(),
                                    [](const auto& value) { return is_utf8(value); });
      check(H5Tset_size(type.get(), H5T_VARIABLE), what_);
      check(H5Tset_cset(type.get(), utf8 ? H5T_CSET_UTF8 : H5T_CSET_ASCII), what_);
    }
    auto dataset = make_dataset(one.key, type.get(), one.shape, strings_);
    if (one.values.empty()) return;
    std::vector<hvl_t> sequences;
    std::vector<const char*> texts;
    for (const auto& value : one.values) {
      sequences.push_back({value.size(), const_cast<char*>(value.data())});
      texts.push_back(value.c_str());
    }
    const void* values = zeros ? static_cast<const void*>(sequences.data()) : texts.data();
    check(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values),
          "strings cannot be written");
  }

  // Checks that HDF5 wrote nothing where data goes, and the marker where readers look for it.
  void require_apart(const Skeleton& out) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> data{{out.blob_offset, file_.blob_bytes},
                                                            {out.slices_offset, file_.slices_bytes},
                                                            {out.table_offset, file_.table_room}};
    for (std::size_t i = 0; i < file_.datasets.size(); ++i) {
      const auto& one = file_.datasets[i];
      const auto bytes =
          element_count(one.shape) * static_cast<std::int64_t>(dtype_size(one.dtype));
      data.emplace_back(out.offsets[i],
                        one.chunk.empty() ? bytes : tree_node_bytes(one.chunk.size()));
    }
    data.emplace_back(out.room_offset, file_.room_bytes);
    for (const auto& extent : out.extents) {
      data.emplace_back(extent.offset, static_cast<std::int64_t>(extent.bytes.size()));
    }
    std::sort(data.begin(), data.end());
    std::int64_t end = 0;
    for (const auto& [offset, bytes] : data) {
      if (bytes == 0) continue;
      if (offset < end || bytes > out.size - offset) {
        throw Error(Code::internal, cat("HDF5 put something at ", offset, " on top of data"));
      }
      end = offset + bytes;
    }
    const auto first = out.extents.empty() ? std::string() : out.extents.front().bytes;
    if (std::string_view(first).substr(0, marker_reach).find(marker) == first.npos) {
      throw Error(Code::internal, "HDF5 put the marker of our group too far into the file");
    }
  }

  static constexpr const char* what_ = "the HDF5 file cannot be laid out";
  const NewFile& file_;
  const std::int64_t region_;
  SparseImage image_;
  Handle link_, group_, data_, strings_;
  std::map<DType, Handle> types_;
  // The file while it is open; fill() owns it.
  hid_t h5_ = H5I_INVALID_HID;
};

}  // namespace

bool available() { return true; }
void require_available() {}

Skeleton lay_out(const NewFile& file) {
  const Session session;
  if (!file.region) return Maker(file, 0).run();
  // Sizes do not depend on places. So a file whose region lies far off tells where it may begin.
  constexpr std::int64_t far_off = std::int64_t{1} << 52;
  auto begin = file.region->guess > 0 ? file.region->guess : far_off;
  for (int tries = 0; tries < 3; ++tries) try {
      Maker maker(file, begin);
      auto made = maker.run();
      if (begin == std::exchange(begin, next_page(maker.head_bytes(made)))) return made;
    } catch (const Error& error) {  // something lies in a region that begins too early
      if (error.code() != Code::internal || begin == far_off) throw;
      begin = far_off;
    }
  throw Error(Code::internal, cat("HDF5 put something into the region at ", begin));
}

}  // namespace cairn::hdf5
