#include "layout/hdf5/foreign.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>

#include "base/text.hpp"
#include "layout/hdf5/file_driver.hpp"
#include "layout/hdf5/types.hpp"

namespace cairn::hdf5 {
namespace {

// The cache keeps chunks that several reads touch.
constexpr std::size_t chunk_cache_bytes = std::size_t{32} << 20, chunk_slots = 12421;

// Refuses external links: only the file that the caller has named is opened.
herr_t refuse_link(const char*, const char*, const char*, const char*, unsigned*, hid_t,
                   void*) noexcept {
  return -1;
}

// Whether it is the type in which lay_out.cpp stores strings with zero bytes.
bool is_byte_sequence(hid_t type) {
  if (H5Tget_class(type) != H5T_VLEN) return false;
  Handle base(H5Tget_super(type), H5Tclose, "a type cannot be read");
  return H5Tget_class(base.get()) == H5T_INTEGER && H5Tget_size(base.get()) == 1;
}

// The memory that HDF5 takes for strings of variable length. It has a limit, since a few bytes of a
// file may ask for any amount. It is freed here, since HDF5 frees nothing if a read fails half way.
class StringRoom {
 public:
  StringRoom(const std::string& what, std::size_t limit)
      : left_(limit), list_(H5Pcreate(H5P_DATASET_XFER), H5Pclose, what) {
    check(H5Pset_vlen_mem_manager(list_.get(), take, this, leave, this), what.c_str());
  }
  hid_t list() const { return list_.get(); }
  bool is_too_small() const { return is_too_small_; }

 private:
  static void* take(std::size_t bytes, void* self) noexcept {
    auto& room = *static_cast<StringRoom*>(self);
    room.is_too_small_ |= bytes > room.left_;
    if (room.is_too_small_) return nullptr;
    try {
      room.blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
    } catch (...) {
      return nullptr;
    }
    room.left_ -= bytes;
    return room.blocks_.back().get();
  }
  static void leave(void*, void*) noexcept {}  // the destructor frees all blocks

  // Bytes that may still be taken; and whether HDF5 has asked for more.
  std::size_t left_;
  bool is_too_small_ = false;
  std::deque<std::unique_ptr<std::byte[]>> blocks_;
  Handle list_;
};

// A string of fixed length, without what fills it up.
std::string without_padding(std::string text, H5T_str_t padding) {
  if (padding == H5T_STR_NULLTERM) {
    text.resize(std::min(text.find('\0'), text.size()));
  } else {
    const auto last = text.find_last_not_of(padding == H5T_STR_SPACEPAD ? ' ' : '\0');
    text.resize(last == text.npos ? 0 : last + 1);
  }
  return text;
}

// The folders in which libhdf5 looks for plugins.
std::string plugin_folders() {
  std::string all;
  unsigned count = 0;
#if H5_VERSION_GE(1, 10, 1)
  if (H5PLsize(&count) < 0) count = 0;
  for (unsigned i = 0; i < count; ++i) {
    char folder[4096] = {};
    if (H5PLget(i, folder, sizeof folder) < 0) continue;
    all += cat(all.empty() ? "" : ", ", folder);
  }
#endif
  return all.empty() ? "the directories of HDF5_PLUGIN_PATH" : all;
}

// The error of a read that failed. A missing filter is not damage, so its error is `unsupported`.
Error cannot_read(hid_t dataset, const std::string& what) {
  // First, since the calls below replace HDF5's error stack.
  auto error = failure(what);
  Handle list(H5Dget_create_plist(dataset), H5Pclose, what);
  const int count = H5Pget_nfilters(list.get());
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    char name[128] = {};
    const auto filter = H5Pget_filter2(list.get(), static_cast<unsigned>(i), &flags, &values,
                                       nullptr, sizeof name, name, &config);
    if (filter < 0 || H5Zfilter_avail(filter) > 0) continue;
    name[sizeof name - 1] = '\0';
    return Error(Code::unsupported, what,
                 cat("it is encoded by HDF5's filter ", filter, *name ? cat(" (", name, ")") : "",
                     ", for which there is no plugin in ", plugin_folders()),
                 "Set HDF5_PLUGIN_PATH to the directory that has it, or decode the file with "
                 "h5repack -f NONE where it is.");
  }
  return error;
}

Dims shape_of(hid_t space) {
  // A dataset without a place for any element.
  if (H5Sget_simple_extent_type(space) == H5S_NULL) return {0};
  const int rank = check(H5Sget_simple_extent_ndims(space), "the shape of a dataset is unreadable");
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space, extents.data(), nullptr),
        "the shape of a dataset is unreadable");
  Dims shape;
  for (const auto extent : extents) {
    if (extent > static_cast<hsize_t>(std::numeric_limits<std::int64_t>::max())) {
      throw Error(Code::data_loss, "a dataset has an extent that no file can hold");
    }
    shape.push_back(static_cast<std::int64_t>(extent));
  }
  return shape;
}

}  // namespace

// Members are destroyed from the last to the first: the file is closed before its driver and its
// bytes go.
struct ForeignFile::Impl {
  std::int64_t strings_limit_bytes = 0;
  std::unique_ptr<ByteFile> bytes;
  std::unique_ptr<FileDriver> driver;
  Handle links, file;

  // Runs a function that calls libhdf5. If the ByteFile has thrown, its error says more than HDF5's
  // and is thrown instead.
  template <class F>
  auto in_library(F&& function) {
    const Session session;
    try {
      return function();
    } catch (const Error&) {
      if (driver) driver->rethrow();
      throw;
    }
  }

  // H5Lexists fails if a group on the way is missing, so it is asked for each part of the path in
  // turn.
  bool exists(const std::string& path) const {
    for (std::size_t at = 0; at <= path.size();) {
      at = std::min(path.find('/', at), path.size());
      if (at > 0 && path[at - 1] != '/') {
        const auto part = path.substr(0, at);
        if (check(H5Lexists(file.get(), part.c_str(), links.get()), "a group is unreadable") == 0) {
          return false;
        }
      }
      ++at;
    }
    return !path.empty();
  }

  Handle open(const std::string& path) const {
    Handle object(H5Oopen(file.get(), path.c_str(), links.get()), H5Oclose,
                  cat("the object ", path, " cannot be opened"));
    if (H5Iget_type(object.get()) != H5I_DATASET) {
      throw Error(Code::invalid_argument, cat(path, " is no dataset"), "", "Name a dataset.");
    }
    return object;
  }
};

ForeignFile::ForeignFile(std::unique_ptr<ByteFile> bytes, std::int64_t strings_limit_bytes) {
  const Session session;  // outlives `impl`, whose handles close if the opening fails
  auto impl = std::make_unique<Impl>();
  auto& self = *impl;
  self.strings_limit_bytes = strings_limit_bytes;
  self.bytes = std::move(bytes);
  self.in_library([&] {
    const char* what = "it is no HDF5 file, or a damaged one";
    self.driver = std::make_unique<FileDriver>(*self.bytes);
    Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, what);
    check(H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG), what);
    check(H5Pset_cache(access.get(), 0, chunk_slots, chunk_cache_bytes, 0.75), what);
    self.driver->set(access.get());
    self.links = {H5Pcreate(H5P_LINK_ACCESS), H5Pclose, what};
    check(H5Pset_elink_cb(self.links.get(), refuse_link, nullptr), what);
    self.file = {H5Fopen("foreign", H5F_ACC_RDONLY, access.get()), H5Fclose, what};
  });
  impl_ = std::move(impl);
}

ForeignFile::~ForeignFile() {
  const Session session;
  impl_.reset();
}

std::optional<ForeignDataset> ForeignFile::find(const std::string& path) {
  return impl_->in_library([&]() -> std::optional<ForeignDataset> {
    if (path.find('\0') != path.npos || !impl_->exists(path)) return std::nullopt;
    const auto dataset = impl_->open(path);
    const char* what = "a dataset is unreadable";
    Handle list(H5Dget_create_plist(dataset.get()), H5Pclose, what);
    const auto layout = H5Pget_layout(list.get());
    if (layout == H5D_VIRTUAL ||
        (layout == H5D_CONTIGUOUS && H5Pget_external_count(list.get()) > 0)) {
      throw Error(Code::unsupported, cat("dataset ", path, " lies in other files"),
                  "only the file that is named is opened", "Copy it into one file with h5repack.");
    }
    Handle type(H5Dget_type(dataset.get()), H5Tclose, what);
    auto dtype = is_byte_sequence(type.get()) ? DType::string : dtype_of_type(type.get());
    if (dtype == DType::uint8 && H5Aexists(dataset.get(), dtype_attribute) > 0) {
      if (const auto named = named_dtype(dataset.get())) dtype = named;
    }
    if (!dtype) {
      throw Error(Code::unsupported, cat("dataset ", path, " has a type that no tensor has"), "",
                  "Numbers, booleans, complex numbers (r, i) and strings are read.");
    }
    Handle space(H5Dget_space(dataset.get()), H5Sclose, what);
    ForeignDataset found{*dtype, shape_of(space.get())};
    try {
      element_count(found.shape);
    } catch (const Error& error) {
      throw Error(Code::data_loss, cat("dataset ", path, " has an impossible shape"), error.what());
    }
    return found;
  });
}

void ForeignFile::require(const std::string& path, const ForeignDataset& expected) {
  // Another program may have changed the file since the shape was asked for, and the memory was
  // taken.
  const auto found = find(path);
  if (!found) throw Error(Code::not_found, cat("there is no dataset ", path));
  if (*found == expected) return;
  throw Error(Code::data_loss, cat("dataset ", path, " has changed"),
              cat("it was ", dtype_name(expected.dtype), ' ', shape_text(expected.shape),
                  ", and is ", dtype_name(found->dtype), ' ', shape_text(found->shape)),
              "Let no program write to the file meanwhile.");
}

void ForeignFile::read(const std::string& path, const ForeignDataset& expected, const Box& box,
                       std::byte* out) {
  if (box.empty()) return;
  require(path, expected);
  impl_->in_library([&] {
    const auto what = cat("dataset ", path, " cannot be read");
    const auto dataset = impl_->open(path);
    Handle space(H5Dget_space(dataset.get()), H5Sclose, what);
    const std::vector<hsize_t> start(box.start.begin(), box.start.end());
    const std::vector<hsize_t> extent(box.extent.begin(), box.extent.end());
    // A scalar has no hyperslab; all of it is selected.
    if (!start.empty()) {
      check(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(),
                                nullptr),
            what.c_str());
    }
    const auto id = extent.empty()
                        ? H5Screate(H5S_SCALAR)
                        : H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr);
    Handle memory(id, H5Sclose, what);
    const auto type = memory_type(expected.dtype);
    if (H5Dread(dataset.get(), type.get(), memory.get(), space.get(), H5P_DEFAULT, out) < 0) {
      throw cannot_read(dataset.get(), what);
    }
  });
}

std::vector<std::string> ForeignFile::read_strings(const std::string& path,
                                                   const ForeignDataset& expected) {
  require(path, expected);
  return impl_->in_library([&] {
    const auto what = cat("dataset ", path, " cannot be read");
    const auto dataset = impl_->open(path);
    Handle stored(H5Dget_type(dataset.get()), H5Tclose, what);
    Handle space(H5Dget_space(dataset.get()), H5Sclose, what);
    const auto count = static_cast<std::size_t>(element_count(shape_of(space.get())));
    const bool variable = H5Tget_class(stored.get()) == H5T_VLEN ||
                          check(H5Tis_variable_str(stored.get()), what.c_str()) > 0;
    const auto size = variable ? sizeof(hvl_t) : H5Tget_size(stored.get());
    const auto limit = static_cast<std::size_t>(impl_->strings_limit_bytes);
    const auto require_few = [&](bool few) {
      if (few) return;
      throw Error(Code::unsupported, what,
                  cat("its strings take more than ", bytes_text(static_cast<double>(limit))));
    };
    // Before the list of strings is made: the shape may claim any number of them.
    require_few(count <= limit / std::max<std::size_t>(size, 1));
    std::vector<std::string> values;
    if (count == 0) return values;
    StringRoom room(what, limit);
    const auto read = [&](hid_t type, void* out) {
      const auto done = H5Dread(dataset.get(), type, H5S_ALL, H5S_ALL, room.list(), out);
      require_few(!room.is_too_small());
      if (done < 0) throw cannot_read(dataset.get(), what);
    };
    if (is_byte_sequence(stored.get())) {
      Handle type(H5Tvlen_create(H5T_NATIVE_UCHAR), H5Tclose, what);
      std::vector<hvl_t> sequences(count);
      read(type.get(), sequences.data());
      for (const auto& [length, bytes] : sequences) {
        values.emplace_back(static_cast<const char*>(bytes), length);
      }
    } else if (variable) {
      std::vector<char*> texts(count);
      read(stored.get(), texts.data());
      for (const auto* text : texts) values.emplace_back(text ? text : "");
    } else {
      std::string all(count * size, '\0');
      read(stored.get(), all.data());
      const auto padding = H5Tget_strpad(stored.get());
      for (std::size_t i = 0; i < count; ++i) {
        values.push_back(without_padding(all.substr(i * size, size), padding));
      }
    }
    return values;
  });
}

}  // namespace cairn::hdf5
