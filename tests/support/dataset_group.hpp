#pragma once
/// A group whose ranks write datasets together on a FileSystem, in place of processes with parallel
/// HDF5. It is as strict: every call waits for all ranks, nothing is durable after a flush, and
/// closing removes what lies beyond the end that HDF5 knows of.
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "cairn/shared_files.hpp"
#include "layout/hdf5/file_driver.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "support/sharing_group.hpp"

namespace cairn::test {

class DatasetGroup : public SharingGroup {
 public:
  DatasetGroup(std::shared_ptr<Group> ranks, std::shared_ptr<io::FileSystem> disk)
      : SharingGroup(std::move(ranks), disk), datasets_(*this, std::move(disk)) {}
  DatasetFiles* dataset_files() override { return &datasets_; }

 private:
  // Where HDF5 has a dataset's elements.
  struct Place {
    std::int64_t offset = 0, element_bytes = 0;
    std::vector<std::int64_t> shape;
  };

  class Text final : public hdf5::ByteFile {
   public:
    explicit Text(std::string bytes) : bytes_(std::move(bytes)) {}
    void read(std::int64_t offset, std::span<std::byte> out) const override {
      std::memcpy(out.data(), bytes_.data() + offset, out.size());
    }
    void write(std::int64_t, std::span<const std::byte>) override {
      throw Error(Code::io, "HDF5 writes where it only reads");
    }
    void truncate(std::int64_t) override {}
    void flush() override {}
    std::int64_t size() const override { return static_cast<std::int64_t>(bytes_.size()); }

   private:
    std::string bytes_;
  };

  static Place find(const std::string& bytes, const std::string& name) {
    const hdf5::Session session;
    Text text(bytes);
    const hdf5::FileDriver driver(text);
    const hdf5::Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, name);
    driver.set(access.get());
    const hdf5::Handle file(H5Fopen("x", H5F_ACC_RDONLY, access.get()), H5Fclose, name);
    const hdf5::Handle dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), H5Dclose, name);
    const hdf5::Handle space(H5Dget_space(dataset.get()), H5Sclose, name);
    const hdf5::Handle type(H5Dget_type(dataset.get()), H5Tclose, name);
    std::vector<hsize_t> shape(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space.get())));
    H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr);
    return {static_cast<std::int64_t>(H5Dget_offset(dataset.get())),
            static_cast<std::int64_t>(H5Tget_size(type.get())),
            {shape.begin(), shape.end()}};
  }

  class File final : public DatasetFile {
   public:
    File(Group& group, io::FileSystem& disk, const std::filesystem::path& path)
        : group_(group), file_(disk.open_write(path)), text_(io::read_file(disk, path, 1 << 24)) {}

    void write_all(const std::string& dataset, std::span<const Block> blocks,
                   const std::byte* bytes) override {
      require_same(group_, "the dataset", dataset);
      DeferredError error;
      error.guard([&] {
        const auto place = find(text_, dataset);
        for (const auto& [start, extent] : blocks) {
          std::int64_t first = 0, count = 1;
          for (std::size_t d = 0; d < place.shape.size(); ++d) {
            first = first * place.shape[d] + start[d];
            count *= extent[d];
          }
          const auto size = static_cast<std::size_t>(count * place.element_bytes);
          file_->write_at(place.offset + first * place.element_bytes, {bytes, size});
          bytes += size;
        }
      });
      group_.barrier();
      if (error) throw Error(*error.first());
    }
    void flush() override { group_.barrier(); }
    void close() override {
      group_.barrier();
      const std::string nothing(static_cast<std::size_t>(hdf5::seal_bytes), '\0');
      DeferredError error;
      error.guard([&] {
        if (group_.rank() == 0) {
          file_->write_at(static_cast<std::int64_t>(text_.size() - nothing.size()),
                          std::as_bytes(std::span(nothing)));
        }
        file_->close();
      });
      group_.barrier();
      if (error) throw Error(*error.first());
    }

   private:
    Group& group_;
    std::unique_ptr<io::File> file_;
    std::string text_;
  };

  class Datasets final : public DatasetFiles {
   public:
    Datasets(Group& group, std::shared_ptr<io::FileSystem> disk)
        : group_(group), disk_(std::move(disk)) {}
    void check(const Hints&) const override {}
    std::unique_ptr<DatasetFile> open(const PathText& path, const Hints&) override {
      return run_and_agree(group_, [&] { return std::make_unique<File>(group_, *disk_, path); });
    }

   private:
    Group& group_;
    std::shared_ptr<io::FileSystem> disk_;
  };

  Datasets datasets_;
};

}  // namespace cairn::test
