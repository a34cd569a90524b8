#include "tools/dcp_import.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/checksum.hpp"
#include "base/mutex.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/slice_memory.hpp"
#include "cairn/state.hpp"
#include "foreign/torch/archive.hpp"
#include "foreign/torch/metadata.hpp"
#include "foreign/torch/pickle.hpp"
#include "foreign/torch/saved_tensor.hpp"
#include "group/collectives.hpp"
#include "model/dtype_attribute.hpp"
#include "store/contents/no_more_open.hpp"
#include "tools/store_state.hpp"

namespace cairn {
namespace {

using Done = std::function<void(std::int64_t bytes)>;

// The name under which StorageReader and StorageWriter of cairn.torch store this
// (python/cairn/torch/dcp.py).
constexpr const char* planner_key = "dcp/planner";
constexpr const char* kind_attribute = "dcp";
// Larger objects are not searched for a plain value.
constexpr std::int64_t longest_value = 64 << 10;
// The limit for all values together: every look at the checkpoint reads them, so there must not be
// too many.
constexpr std::int64_t all_values = 1 << 20;
constexpr std::int64_t longest_description = 1 << 20;  // of data.pkl of one tensor

std::span<std::byte> bytes_of(std::string& text) { return std::as_writable_bytes(std::span(text)); }

// The files of a checkpoint. Only a few are open at a time.
class Files {
 public:
  explicit Files(const Address& directory) : directory_(directory) {}

  std::shared_ptr<io::File> open(const std::string& name) {
    const MutexLock lock(mutex_);
    const auto found = open_.find(name);
    if (found != open_.end()) return found->second;
    if (open_.size() >= 64) open_.clear();  // files that are in use stay open
    return open_[name] = path(name).open_read();
  }
  Address path(const std::string& name) const { return directory_ / name; }

 private:
  const Address directory_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<io::File>> open_ CAIRN_GUARDED_BY(mutex_);
};

// An archive of torch.save inside a file of the checkpoint.
class Archive {
 public:
  Archive(Files& files, const torch::StoredArchive& place)
      : file_(files.open(place.file)), place_(place) {
    if (place.offset > file_->size() || place.size > file_->size() - place.offset) {
      torch::torch_damaged(cat("the file ends before byte ", place.offset + place.size));
    }
    const auto tail = std::min(place.size, torch::archive_tail_bytes);
    directory_ = torch::find_directory(read(place.size - tail, tail), place.size);
    members_ = torch::parse_directory(read(directory_.offset, directory_.size), directory_);
    const auto* order = torch::find_member(members_, "byteorder");
    if (order && (order->size != 6 || text(*order) != "little")) {
      torch::torch_refused("its numbers are big-endian");
    }
  }

  const std::vector<torch::ArchiveMember>& members() const { return members_; }
  const torch::ArchiveMember& member(const std::string& name) const {
    const auto* found = torch::find_member(members_, name);
    if (!found) torch::torch_damaged(cat("its archive has no '", name, "'"));
    return *found;
  }
  /// Returns where a member's bytes begin in the archive.
  std::int64_t begin_of(const torch::ArchiveMember& member) const {
    return torch::member_bytes(
        read(member.header, std::min(torch::member_header_bytes, place_.size - member.header)),
        member, directory_);
  }
  std::string text(const torch::ArchiveMember& member) const {
    if (member.size > longest_description) torch::torch_refused("a pickle of it is too long");
    auto text = read(begin_of(member), member.size);
    compare(member, crc32_of_zip(std::as_bytes(std::span(text))));
    return text;
  }
  std::string read(std::int64_t offset, std::int64_t size) const {
    std::string text(static_cast<std::size_t>(size), '\0');
    read(offset, bytes_of(text));
    return text;
  }
  void read(std::int64_t offset, std::span<std::byte> to) const {
    if (!to.empty()) file_->read_at(place_.offset + offset, to);
  }
  static void compare(const torch::ArchiveMember& member, std::uint32_t checksum) {
    if (member.checksum != 0 && member.checksum != checksum) {
      torch::torch_damaged(cat("the checksum of '", member.name, "' in its archive is another"));
    }
  }
  void check(const torch::ArchiveMember& member) const {
    if (member.checksum == 0) return;
    std::string piece(static_cast<std::size_t>(std::min(member.size, cached_bytes)), '\0');
    std::uint32_t sum = 0;
    const auto begin = begin_of(member);
    for (std::int64_t at = 0; at < member.size; at += cached_bytes) {
      const auto size = static_cast<std::size_t>(std::min(cached_bytes, member.size - at));
      const auto part = bytes_of(piece).first(size);
      read(begin + at, part);
      sum = crc32_of_zip(part, sum);
    }
    compare(member, sum);
  }

 private:
  std::shared_ptr<io::File> file_;
  const torch::StoredArchive& place_;
  torch::ArchiveExtent directory_;
  std::vector<torch::ArchiveMember> members_;
};

// Memory that is read from a file when it is used. Errors name the file.
class ReadOnly : public SliceMemory {
 public:
  ReadOnly(Files& files, const torch::StoredArchive& place, Done done)
      : files_(files), place_(place), done_(std::move(done)) {}

  void read(const Box& part, std::byte* out) const override {
    try {
      done_(read_part(part, out));
    } catch (Error& error) {
      if (error.path().empty()) error.at(files_.path(place_.file).string());
      throw;
    }
  }
  void write(const Box&, const std::byte*) override {
    throw Error(Code::internal, "a file of torch is for reading only");
  }
  bool writable() const override { return false; }

 protected:
  // Returns the bytes read.
  virtual std::int64_t read_part(const Box& part, std::byte* out) const = 0;

  Files& files_;
  const torch::StoredArchive& place_;
  mutable Mutex mutex_;

 private:
  const Done done_;
};

class PieceMemory : public ReadOnly {
 public:
  PieceMemory(Files& files, const torch::DcpTensor& tensor, const torch::DcpPiece& piece, Done done)
      : ReadOnly(files, piece.archive, std::move(done)),
        type_(tensor.type),
        extent_(piece.box.extent) {}

 private:
  struct Layout {
    std::int64_t begin = 0;  // where its first element begins in the archive
    Dims strides;
  };

  std::int64_t read_part(const Box& part, std::byte* out) const override {
    if (part.count() == 0) return 0;
    const Archive archive(files_, place_);
    const auto& layout = look(archive);
    // Its first element; the number from there to its last one.
    std::int64_t first = 0, elements = 1;
    for (std::size_t d = 0; d < extent_.size(); ++d) {
      first += part.start[d] * layout.strides[d];
      elements += (part.extent[d] - 1) * layout.strides[d];
    }
    const auto size = static_cast<std::int64_t>(dtype_size(type_.dtype));
    const auto at = layout.begin + first * size;
    if (elements == part.count() && in_order(part.extent, layout.strides)) {
      archive.read(at, {out, static_cast<std::size_t>(elements * size)});
    } else {
      const auto bytes = archive.read(at, elements * size);
      host_memory(type_.dtype, bytes.data(), nullptr, part.extent, layout.strides)
          ->read(Box::whole(part.extent), out);
    }
    return part.count() * size;
  }

  static std::string_view name_of(const torch::StoredDType& type) {
    return type.stored_as_bytes.empty() ? dtype_name(type.dtype) : type.stored_as_bytes;
  }
  static bool in_order(const Dims& extent, const Dims& strides) {
    std::int64_t expected = 1;
    for (auto d = extent.size(); d-- > 0; expected *= extent[d]) {
      if (extent[d] != 1 && strides[d] != expected) return false;
    }
    return true;
  }

  // Done once: reads what the archive says of the tensor, and checks that its bytes are those that
  // torch wrote.
  const Layout& look(const Archive& archive) const {
    const MutexLock lock(mutex_);
    if (layout_) return *layout_;
    const auto saved = torch::parse_saved_tensor(archive.text(archive.member("data.pkl")));
    if (saved.type != type_ || saved.shape != extent_) {
      torch::torch_damaged(cat("its archive has a tensor of ", name_of(saved.type), ' ',
                               shape_text(saved.shape), ", .metadata says ", name_of(type_), ' ',
                               shape_text(extent_)));
    }
    const auto& data = archive.member("data/" + saved.storage);
    const auto size = static_cast<std::int64_t>(dtype_size(type_.dtype));
    if ((saved.last + 1) * size > data.size) {
      torch::torch_damaged(cat("its elements need ", (saved.last + 1) * size,
                               " bytes, its archive has ", data.size));
    }
    archive.check(data);
    layout_ = {archive.begin_of(data) + saved.first * size, saved.strides};
    return *layout_;
  }

  const torch::StoredDType type_;
  const Dims extent_;
  mutable std::optional<Layout> layout_ CAIRN_GUARDED_BY(mutex_);
};

// The bytes of an archive, unchanged.
class ObjectMemory : public ReadOnly {
 public:
  using ReadOnly::ReadOnly;

 private:
  std::int64_t read_part(const Box& part, std::byte* out) const override {
    const Archive archive(files_, place_);
    {
      const MutexLock lock(mutex_);
      if (!checked_) {
        for (const auto& member : archive.members()) archive.check(member);
      }
      checked_ = true;
    }
    archive.read(part.start[0], {out, static_cast<std::size_t>(part.extent[0])});
    return part.extent[0];
  }
  mutable bool checked_ CAIRN_GUARDED_BY(mutex_) = false;
};

class Import {
 public:
  Import(const Address& source, const std::string& under, const Group& group, Done done)
      : files_(source), under_(under), group_(group), done_(std::move(done)) {
    const auto path = files_.path(".metadata");
    try {
      found_ = torch::parse_dcp_metadata(path.read(torch::longest_metadata));
    } catch (Error& error) {
      if (error.path().empty()) error.at(path.string());
      throw;
    }
    for (const auto& tensor : found_.tensors) {
      for (const auto& piece : tensor.pieces) bytes_ += bytes_of(tensor, piece);
    }
    for (const auto& object : found_.objects) bytes_ += object.archive.size;
    for (const auto& tensor : found_.tensors) add(tensor);
    for (const auto& object : found_.objects) add(object);
    if (!found_.paths.empty() && under.empty() && group.rank() == 0) add_paths();
  }

  const State& state() const { return state_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::string key(const std::string& name) const {
    return under_.empty() ? name : cat(under_, '/', name);
  }
  static std::int64_t bytes_of(const torch::DcpTensor& tensor, const torch::DcpPiece& piece) {
    return piece.box.count() * static_cast<std::int64_t>(dtype_size(tensor.type.dtype));
  }
  // All bytes in a row are divided evenly among the ranks. A piece goes to the rank that has its
  // middle.
  bool is_mine(std::int64_t size) {
    const auto middle = static_cast<double>(before_) + 0.5 * static_cast<double>(size);
    const auto share = bytes_ > 0 ? middle / static_cast<double>(bytes_) : 0.0;
    before_ += size;
    return std::min(group_.size() - 1, static_cast<int>(share * group_.size())) == group_.rank();
  }
  void add(const torch::DcpTensor& tensor) {
    const auto& [dtype, stored_as_bytes] = tensor.type;
    LocalTensor local{dtype, tensor.shape, {}, nullptr};
    for (const auto& piece : tensor.pieces) {
      if (!is_mine(bytes_of(tensor, piece))) continue;
      local.slices.push_back(
          {piece.box, std::make_shared<PieceMemory>(files_, tensor, piece, done_)});
    }
    state_.add(key(tensor.key), std::move(local));
    if (!stored_as_bytes.empty()) {
      state_.describe(key(tensor.key), {.attributes = {{dtype_attribute, stored_as_bytes}}});
    }
  }
  void add(const torch::DcpObject& object) {
    if (!is_mine(object.archive.size)) return;
    const Dims shape{object.archive.size};
    LocalTensor local{DType::uint8, shape, {}, nullptr};
    local.slices.push_back(
        {Box::whole(shape), std::make_shared<ObjectMemory>(files_, object.archive, done_)});
    Description description;
    description.attributes.insert_or_assign(kind_attribute, "bytes");
    auto value = value_of(object);
    const auto size = value ? std::ssize(value->json()) : 0;
    if (value && size <= values_left_) {
      values_left_ -= size;
      description.attributes.insert_or_assign("value", std::move(*value));
    }
    state_.add(key(object.key), std::move(local));
    state_.describe(key(object.key), std::move(description));
  }
  std::optional<Attribute> value_of(const torch::DcpObject& object) {
    if (object.archive.size > longest_value) return std::nullopt;
    try {
      const Archive archive(files_, object.archive);
      return torch::parse_saved_value(archive.text(archive.member("data.pkl")));
    } catch (Error& error) {
      if (error.path().empty()) error.at(files_.path(object.archive.file).string());
      throw error.of_tensor(object.key);
    }
  }
  void add_paths() {
    const Dims shape{std::ssize(found_.paths)};
    LocalTensor local{DType::uint8, shape, {}, nullptr};
    local.slices.push_back(
        {Box::whole(shape), host_memory(DType::uint8, found_.paths.data(), nullptr, shape, {})});
    state_.add(planner_key, std::move(local));
    Description description;
    description.attributes.insert_or_assign(kind_attribute, "bytes");
    state_.describe(planner_key, std::move(description));
  }

  Files files_;
  const std::string under_;
  const Group& group_;
  const Done done_;
  torch::DcpMetadata found_;  // the state's memory refers to it, so it must not move
  State state_;
  std::int64_t bytes_ = 0, before_ = 0, values_left_ = all_values;
};

}  // namespace

bool is_dcp(const Address& path) {
  const auto metadata = (path / ".metadata").status();
  return metadata && !metadata->is_directory;
}

std::string import_dcp(const Address& source, const Address& destination, const std::string& under,
                       const ConvertOptions& options, const Progress& progress) {
  std::int64_t total = 0, done = 0;
  Mutex mutex;
  auto& group = *options.group();
  const auto import = run_and_agree(group, [&] {
    return std::make_unique<const Import>(source, under, group, [&](std::int64_t bytes) {
      const MutexLock lock(mutex);
      done = std::min(total, done + bytes * group.size());
      if (progress) progress(done, total);
    });
  });
  total = import->bytes();
  const auto access = run_and_agree(group, [&] {
    std::vector<Address> all;
    for (const auto& name : source.list()) all.push_back(source / name);
    return access_of(all);
  });
  return store_state(import->state(), CheckpointMeta{}, no_more_open(destination, access), options);
}

}  // namespace cairn
