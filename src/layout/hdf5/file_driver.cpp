#include "layout/hdf5/file_driver.hpp"

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

namespace cairn::hdf5 {
namespace {

constexpr haddr_t largest_address = static_cast<haddr_t>(std::numeric_limits<std::int64_t>::max());

// An open file, of which HDF5 sees only the first member.
struct OpenFile {
  H5FD_t base;
  FileDriver::Link* link;
  haddr_t end_of_allocation;
};

OpenFile* of(H5FD_t* file) { return reinterpret_cast<OpenFile*>(file); }
const OpenFile* of(const H5FD_t* file) { return reinterpret_cast<const OpenFile*>(file); }

// No exception may pass through HDF5, which is C. The link keeps the first one.
template <class F>
herr_t without_throwing(FileDriver::Link& link, F&& function) noexcept {
  try {
    function(*link.file);
    return 0;
  } catch (...) {
    if (!link.error) link.error = std::current_exception();
    return -1;
  }
}

// The driver's info is a pointer to its link.
using Info = FileDriver::Link*;

void* copy_info(const void* info) noexcept {
  auto* copy = new (std::nothrow) Info;
  if (copy) *copy = *static_cast<const Info*>(info);
  return copy;
}
herr_t free_info(void* info) noexcept {
  delete static_cast<Info*>(info);
  return 0;
}

// The name is ignored: the property list leads to the ByteFile.
H5FD_t* open(const char*, unsigned, hid_t access, haddr_t) noexcept {
  const auto* info = static_cast<const Info*>(H5Pget_driver_info(access));
  if (!info) return nullptr;
  auto* file = new (std::nothrow) OpenFile;
  if (!file) return nullptr;
  std::memset(static_cast<void*>(file), 0, sizeof *file);
  file->link = *info;
  return &file->base;
}
herr_t close(H5FD_t* file) noexcept {
  delete of(file);
  return 0;
}
// By this HDF5 tells whether two open files are the same one.
int compare(const H5FD_t* a, const H5FD_t* b) noexcept {
  const std::less<const FileDriver::Link*> less;
  return less(of(a)->link, of(b)->link) ? -1 : less(of(b)->link, of(a)->link);
}
// HDF5 may gather small metadata and small pieces of data: that makes fewer calls of the ByteFile.
// What it has gathered it does not tell apart, B-trees from others. HDF5 also asks without a file.
herr_t query(const H5FD_t* file, unsigned long* flags) noexcept {
  if (flags) {
    const bool looks = file && of(file)->link->looks_for_trees;
    const bool parts = file && of(file)->link->may_part;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_DATA_SIEVE;
    // Small data would lie in a block that was taken for other data.
    if (!parts) *flags |= H5FD_FEAT_AGGREGATE_SMALLDATA;
    // The second lets H5Fincrement_filesize work.
    *flags |= looks || parts ? H5FD_FEAT_SUPPORTS_SWMR_IO : H5FD_FEAT_ACCUMULATE_METADATA;
  }
  return 0;
}
// HDF5 takes new space from the end of what it has allocated for this kind.
haddr_t get_eoa(const H5FD_t* file, H5FD_mem_t kind) noexcept {
  const auto& elements = of(file)->link->elements_end;
  if (kind == H5FD_MEM_DRAW && elements) return static_cast<haddr_t>(*elements);
  return of(file)->end_of_allocation;
}
herr_t set_eoa(H5FD_t* file, H5FD_mem_t kind, haddr_t address) noexcept {
  auto& elements = of(file)->link->elements_end;
  if (kind == H5FD_MEM_DRAW && elements) {
    elements = static_cast<std::int64_t>(address);
  } else {
    of(file)->end_of_allocation = address;
  }
  return 0;
}
// The size of the ByteFile; undefined for HDF5 if that has thrown.
haddr_t get_eof(const H5FD_t* file, H5FD_mem_t) noexcept {
  haddr_t size = HADDR_UNDEF;
  without_throwing(*of(file)->link,
                   [&](ByteFile& bytes) { size = static_cast<haddr_t>(bytes.size()); });
  return size;
}
// There is no file descriptor that HDF5 could ask for.
herr_t get_handle(H5FD_t*, hid_t, void**) noexcept { return -1; }

herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size,
            void* buffer) noexcept {
  return without_throwing(*of(file)->link, [&](ByteFile& bytes) {
    if (address > largest_address || size > largest_address - address) {
      throw Error(Code::data_loss, "the HDF5 file refers to an address that no file has");
    }
    std::span out(static_cast<std::byte*>(buffer), size);
    // Bytes beyond the end of a file are zeros, as with HDF5's own drivers.
    const auto end = static_cast<haddr_t>(bytes.size());
    const auto there = address < end ? std::min<haddr_t>(size, end - address) : 0;
    const auto known = static_cast<std::size_t>(there);
    if (known > 0) bytes.read(static_cast<std::int64_t>(address), out.first(known));
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(known), out.end(), std::byte{0});
  });
}
herr_t write(H5FD_t* file, H5FD_mem_t kind, hid_t, haddr_t address, std::size_t size,
             const void* buffer) noexcept {
  return without_throwing(*of(file)->link, [&](ByteFile& bytes) {
    auto& link = *of(file)->link;
    if (link.looks_for_trees && kind == H5FD_MEM_BTREE) {
      link.trees.insert(static_cast<std::int64_t>(address));
    }
    bytes.write(static_cast<std::int64_t>(address),
                std::span(static_cast<const std::byte*>(buffer), size));
  });
}
herr_t flush(H5FD_t* file, hid_t, hbool_t) noexcept {
  return without_throwing(*of(file)->link, [](ByteFile& bytes) { bytes.flush(); });
}
herr_t truncate(H5FD_t* file, hid_t, hbool_t) noexcept {
  return without_throwing(*of(file)->link, [&](ByteFile& bytes) {
    const auto size = static_cast<std::int64_t>(of(file)->end_of_allocation);
    if (bytes.size() != size) bytes.truncate(size);
  });
}
// No lock is taken: one process writes, and nobody reads meanwhile.
herr_t lock(H5FD_t*, hbool_t) noexcept { return 0; }
herr_t unlock(H5FD_t*) noexcept { return 0; }

// The class has more members in HDF5 1.14 than in 1.10, and in another order. Members that are not
// set here stay null.
H5FD_class_t driver_class() {
  H5FD_class_t driver;
  std::memset(static_cast<void*>(&driver), 0, sizeof driver);
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(498);  // 256 to 511 are free for tests and trials
#endif
  driver.name = "cairn";
  driver.maxaddr = largest_address;
  // Closing the file closes all that is open in it, so no identifier outlives the ByteFile.
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(Info);
  driver.fapl_copy = copy_info;
  driver.fapl_free = free_info;
  driver.open = open;
  driver.close = close;
  driver.cmp = compare;
  driver.query = query;
  driver.get_eoa = get_eoa;
  driver.set_eoa = set_eoa;
  driver.get_eof = get_eof;
  driver.get_handle = get_handle;
  driver.read = read;
  driver.write = write;
  driver.flush = flush;
  driver.truncate = truncate;
  driver.lock = lock;
  driver.unlock = unlock;
  constexpr H5FD_mem_t lists[] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(lists), std::end(lists), driver.fl_map);
  return driver;
}

// Static, since HDF5 before 1.14 keeps the pointer; later versions copy the class.
const H5FD_class_t& the_class() {
  static const H5FD_class_t driver = driver_class();
  return driver;
}

}  // namespace

FileDriver::FileDriver(ByteFile& file)
    : link_{&file, nullptr},
      id_(check(H5FDregister(&the_class()), "HDF5 takes no file driver", Code::internal)) {}

FileDriver::~FileDriver() { H5FDunregister(id_); }

void FileDriver::set(hid_t access) const {
  const Info info = const_cast<Link*>(&link_);
  check(H5Pset_driver(access, id_, &info), "HDF5 does not use the file driver", Code::internal);
}

void FileDriver::rethrow() {
  if (const auto error = std::exchange(link_.error, nullptr)) std::rethrow_exception(error);
}

}  // namespace cairn::hdf5
