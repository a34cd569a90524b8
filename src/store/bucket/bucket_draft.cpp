#include "store/bucket/bucket_draft.hpp"

#include <utility>

#include "base/text.hpp"
#include "store/bucket/bucket_records.hpp"
#include "store/bucket/shared_objects.hpp"
#include "store/contents/data_file.hpp"
#include "store/contents/format.hpp"

namespace cairn {
namespace {

// A new file whose last bytes are given.
class EndedFile : public io::File {
 public:
  EndedFile(std::unique_ptr<io::File> file, std::string end)
      : file_(std::move(file)), end_(std::move(end)) {}
  void write_at(std::int64_t offset, std::span<const std::byte> bytes) override {
    file_->write_at(offset, bytes);
  }
  void write_behind(std::int64_t offset, std::span<const std::byte> bytes) override {
    file_->write_behind(offset, bytes);
  }
  void stream(DirectIo choice) override { file_->stream(choice); }
  void expect(std::int64_t bytes) override { file_->expect(bytes); }
  bool gathers() const override { return file_->gathers(); }
  void read_at(std::int64_t offset, std::span<std::byte> bytes) const override {
    file_->read_at(offset, bytes);
  }
  std::int64_t size() const override { return file_->size(); }
  void resize(std::int64_t bytes) override { file_->resize(bytes); }
  void sync() override {
    const auto end = std::exchange(end_, {});
    if (!end.empty()) file_->write_at(file_->size(), std::as_bytes(std::span(end)));
    file_->sync();
  }
  void close() override {
    sync();  // a file that nobody has written has its end, too
    file_->close();
  }

 private:
  std::unique_ptr<io::File> file_;
  std::string end_;
};

// The objects of one save, under their own names: a save that no log names does not count.
class BucketDraft : public DraftFiles {
 public:
  BucketDraft(std::shared_ptr<io::FileSystem> files, BucketFiles& bucket, std::string prefix,
              io::Path records, const DraftId& id, Format format)
      : files_(std::move(files)),
        bucket_(bucket),
        records_(std::move(records)),
        leaves_records_(id.records != 0),
        slot_(static_cast<int>(id.slot)),
        shared_(std::make_shared<SharedObjects>(bucket)),
        prefix_(std::move(prefix)),
        format_(format_of(format)),
        uuid_(id.uuid),
        count_(id.num_files) {}

  std::unique_ptr<DraftFiles> copy() const override { return std::make_unique<BucketDraft>(*this); }
  void go_at(io::Pace& pace) override {
    files_ = std::make_shared<io::PacedFileSystem>(files_, pace);
    pace_ = &pace;
  }
  void make_place() const override {}
  // Nothing is removed first: an object of this name may be another owner's by now.
  commit::PartFile make(int number, std::int64_t) const override {
    return {std::make_unique<EndedFile>(files_->create(path(number)), end())};
  }
  // Of a file that is not in parts, one rank writes all, so nobody has made it.
  std::unique_ptr<io::File> make_or_open(int number) const override {
    return std::move(make(number, 0).file);
  }
  void begin_parts(const std::vector<int>& numbers) override {
    std::map<int, io::Path> objects;
    for (const auto number : numbers) objects[number] = path(number);
    shared_->begin(objects, format_.has_data_files() ? "" : commit::uuid_text(uuid_));
  }
  std::string tell() const override { return shared_->tell(false); }
  std::string tell_next_owner() const override { return shared_->tell(true); }
  void hear(std::string_view told) override { shared_->hear(told); }
  void enclose(FileEnds ends) override { shared_->enclose(0, path(0), std::move(ends)); }
  std::unique_ptr<io::File> open_parts(int number, std::vector<FilePart> parts) const override {
    return shared_->open(number, path(number), std::move(parts), end(), pace_);
  }
  SharedObjects& shared() const { return *shared_; }
  io::Path path(int number) const override {
    return format_.data_file(prefix_, number, static_cast<int>(count_));
  }
  std::optional<io::Path> shared_path(int) const override { return std::nullopt; }
  bool share(int, const io::Path&) const override { return false; }
  io::Path saver_prefix(int saver) const override { return cat(prefix_, ".saver-", saver); }
  void adopt(const io::Path& data, int to) const override { files_->rename(data, path(to)); }
  int count_with(int data_files) const override { return data_files + 1; }
  void set_num_files(int count) override { count_ = count; }
  void record(int writer, int writers, std::string_view bytes) const override {
    if (!leaves_records_ || std::ssize(bytes) > most_record_bytes) return;
    const auto path = records_ / record_name(slot_, writer, writers);
    bucket_.client()->put(BucketFiles::key_of(path), std::as_bytes(std::span(bytes)));
  }
  const char* left_behind() const override {
    return leaves_records_ ? "completes it, if the bytes of all ranks were written" : "removes it";
  }
  bool may_be_completed() const { return leaves_records_; }
  void wrote(int, commit::WrittenBlocks) const override {}  // an object is never written over
  void committed() const override {}
  bool names_data() const override { return false; }
  void name(const std::set<int>&) const override {}

 private:
  // Of an object that is a checkpoint as a whole, its mark tells whose it is.
  std::string end() const {
    return format_.has_data_files() ? save_id(commit::uuid_text(uuid_)) : "";
  }

  static constexpr std::int64_t most_record_bytes = std::int64_t{64} << 20;  // Requests::get()

  std::shared_ptr<io::FileSystem> files_;
  BucketFiles& bucket_;
  io::Path records_;
  bool leaves_records_;
  int slot_;
  std::shared_ptr<SharedObjects> shared_;  // with the copies of this draft
  io::Pace* pace_ = nullptr;
  std::string prefix_;
  const CheckpointFormat& format_;
  commit::Uuid uuid_;
  std::int64_t count_;
};

}  // namespace

std::unique_ptr<DraftFiles> make_bucket_draft(std::shared_ptr<io::FileSystem> files,
                                              BucketFiles& bucket, std::string prefix,
                                              io::Path records, const DraftId& id, Format format) {
  return std::make_unique<BucketDraft>(std::move(files), bucket, std::move(prefix),
                                       std::move(records), id, format);
}

bool may_be_completed(const DraftFiles& draft) {
  return static_cast<const BucketDraft&>(draft).may_be_completed();
}

SharedObjects& shared_objects(const DraftFiles& draft) {
  return static_cast<const BucketDraft&>(draft).shared();
}

}  // namespace cairn
