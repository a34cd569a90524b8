// One bundle that one process writes or reads.
#include "cairn/bundle.hpp"

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/log.hpp"
#include "io/local_path.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "model/keys.hpp"
#include "session/restore/find_tensor.hpp"
#include "store/commit/names.hpp"
#include "store/commit/ownership.hpp"
#include "store/contents/open_checkpoint.hpp"
#include "tools/read_tensor.hpp"

namespace cairn {

struct BundleWriter::Impl {
  std::shared_ptr<io::FileSystem> files;
  io::Path prefix, index, data, staged_index;
  std::unique_ptr<io::File> file;  // null: finished or failed
  bool failed = false;
  bool index_is_ours = false;  // this writer made the index that is there
  std::int64_t end = 0;
  std::vector<StoredTensor> tensors;

  Impl(const io::Path& path, std::shared_ptr<io::FileSystem> file_system)
      : files(files_for(std::move(file_system), path)), prefix(io::local_path(path)) {
    const auto name = prefix.filename().string();
    commit::check_checkpoint_name(name);
    const auto directory = prefix.parent_path();
    index = directory / commit::index_name(name);
    data = directory / commit::data_name(name, 0, 1);
    staged_index = directory / (commit::index_name(name) + ".tmp");
    if (io::exists(*files, index)) {
      throw Error(Code::already_exists, cat("there is a checkpoint ", prefix.string()),
                  "a BundleWriter replaces nothing", "Choose another prefix.")
          .at(prefix.string());
    }
    file = files->create(data);
  }

  ~Impl() {
    if (file) discard();
  }

  // Removes the index first: it must not be seen without its data.
  void discard() noexcept {
    for (const auto& path : {index_is_ours ? index : io::Path(), staged_index, data}) try {
        if (path == data) file.reset();
        if (!path.empty()) io::remove_if_there(*files, path);
      } catch (const std::exception& error) {
        try {
          log(LogLevel::warning, cat("of an unfinished bundle stays: ", error.what()));
        } catch (...) {  // a message that cannot be logged must not end the process
        }
      } catch (...) {  // tests throw other types here to play the death of the process
      }
    file.reset();
  }

  void require_open() const {
    if (file) return;
    throw Error(Code::invalid_argument,
                cat("bundle ", prefix.string(), failed ? " could not be finished" : " is finished"),
                failed ? "what was written of it is removed" : "",
                failed ? "Write it again." : "Add everything before finish().");
  }

  // Joins the slices of each key into one list, as an index has them.
  std::vector<StoredTensor> join() const {
    std::vector<StoredTensor> joined;
    std::unordered_map<std::string_view, std::size_t> place;
    for (const auto& tensor : tensors) {
      const auto [at, is_new] = place.emplace(tensor.key, joined.size());
      if (is_new) {
        joined.push_back(tensor);
        continue;
      }
      auto& same = joined[at->second];
      if (!same.sliced || !tensor.sliced || same.dtype != tensor.dtype ||
          same.shape != tensor.shape) {
        throw Error(Code::invalid_argument, cat("tensor '", tensor.key, "' is given twice"),
                    "only different slices of one tensor have one key")
            .of_tensor(tensor.key);
      }
      same.slices.push_back(tensor.slices.front());
    }
    return joined;
  }

  // Makes the data durable, and commits.
  void publish(const std::string& bytes) {
    file->sync();
    file->close();
    const auto directory = index.parent_path().empty() ? io::Path(".") : index.parent_path();
    // A saver writes its bundles one level below the directory of the checkpoints.
    if (commit::says_no_rename({files, directory}) ||
        commit::says_no_rename({files, directory / ".."})) {
      files->sync_directory(directory);
      index_is_ours = !io::exists(*files, index);
      io::write_file(*files, index, bytes);
    } else {
      io::remove_if_there(*files, staged_index);  // one that a dead process left
      io::write_file(*files, staged_index, bytes);
      files->sync_directory(directory);
      try {
        files->rename(staged_index, index);
      } catch (const Error&) {
        // A server may rename the file and still report an error. Then it is committed.
        if (io::exists(*files, staged_index)) throw;
      }
    }
    file.reset();
    try {
      files->sync_directory(directory);
    } catch (const Error& error) {
      throw Error(Code::durability_unknown,
                  "the bundle is visible, but may not survive a power failure", error.what(),
                  "Run sync on the machine that holds the directory.")
          .at(prefix.string());
    }
  }

  void append(const std::string& key, DType dtype, const Dims& shape, const Box& box,
              std::span<const std::byte> bytes, std::uint32_t crc) {
    require_open();
    check_key(key);
    if (!Box::whole(shape).contains(box)) {
      throw Error(Code::invalid_argument,
                  cat("slice ", box_text(box), " lies outside '", key, "' ", shape_text(shape)))
          .of_tensor(key);
    }
    Piece slice;
    slice.box = box;
    slice.offset = end;
    slice.stored_bytes = slice.raw_bytes = static_cast<std::int64_t>(bytes.size());
    slice.crc32c = crc;
    file->write_at(end, bytes);
    end += slice.stored_bytes;
    tensors.push_back({key, dtype, shape, !box.is_whole(shape), {slice}, ""});
  }
};

BundleWriter::BundleWriter(PathText prefix, std::shared_ptr<io::FileSystem> file_system)
    : impl_(std::make_unique<Impl>(std::move(prefix), std::move(file_system))) {}
BundleWriter::~BundleWriter() = default;
BundleWriter::BundleWriter(BundleWriter&&) noexcept = default;
BundleWriter& BundleWriter::operator=(BundleWriter&&) noexcept = default;

void BundleWriter::add(const std::string& key, DType dtype, const Dims& shape, const void* data) {
  add_slice(key, dtype, shape, Box::whole(shape), data);
}

void BundleWriter::add_slice(const std::string& key, DType dtype, const Dims& shape,
                             const Box& slice, const void* data) {
  if (dtype == DType::string || dtype_size(dtype) == 0) {
    throw Error(Code::invalid_argument, cat("tensor '", key, "' is ", dtype_name(dtype)),
                "its elements have no fixed size", "Strings go through add_strings.")
        .of_tensor(key);
  }
  element_count(shape);  // throws if it overflows
  std::size_t size = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(slice.count()), dtype_size(dtype), &size) ||
      size > PTRDIFF_MAX) {
    throw Error(Code::invalid_argument, cat("a slice of '", key, "' has 2^63 bytes or more"))
        .of_tensor(key);
  }
  const std::span bytes(static_cast<const std::byte*>(data), size);
  impl_->append(key, dtype, shape, slice, bytes, crc32c(bytes));
}

void BundleWriter::add_strings(const std::string& key, const Dims& shape,
                               std::span<const std::string> values) {
  if (static_cast<std::int64_t>(values.size()) != element_count(shape)) {
    throw Error(Code::invalid_argument, cat("tensor '", key, "' ", shape_text(shape), " is given ",
                                            values.size(), " strings"))
        .of_tensor(key);
  }
  const auto encoded = bundle::encode_strings(values);
  impl_->append(key, DType::string, shape, Box::whole(shape),
                std::as_bytes(std::span(encoded.bytes)), encoded.crc32c);
}

void BundleWriter::finish() {
  auto& self = *impl_;
  if (self.failed) self.require_open();
  if (!self.file) return;
  const auto bytes = bundle::build_index(1, self.join());
  try {
    self.publish(bytes);
  } catch (const Error& error) {
    if (error.code() == Code::durability_unknown) throw;
    self.failed = true;
    self.discard();
    throw;
  }
}

BundleReader::BundleReader(const PathText& prefix, std::shared_ptr<io::FileSystem> file_system)
    : files_(io::view_of(files_for(std::move(file_system), prefix))),
      contents_(read_contents(*files_, io::local_path(prefix))) {}

const StoredTensor& BundleReader::tensor(const std::string& key) const {
  if (const auto* found = contents_.find(key)) return *found;
  Nearest nearest(key);
  offer_keys(contents_, nearest);
  throw Error(Code::not_found,
              cat("tensor '", key, "' is not in the checkpoint ", contents_.prefix), "",
              did_you_mean(nearest))
      .of_tensor(key);
}

std::string BundleReader::read(const std::string& key) const {
  return read(key, Box::whole(tensor(key).shape));
}
std::string BundleReader::read(const std::string& key, const Box& box) const {
  return read_numbers({*files_, contents_}, tensor(key), box);
}
std::vector<std::string> BundleReader::read_strings(const std::string& key) const {
  const auto& found = tensor(key);
  if (found.dtype != DType::string && found.dtype != DType::variant) {
    throw Error(Code::invalid_argument,
                cat("'", key, "' holds no strings, but ", dtype_name(found.dtype)), "",
                "Read its elements.")
        .of_tensor(key);
  }
  return cairn::read_strings(*files_, contents_, found);
}

}  // namespace cairn
