#pragma once
/// A save in a directory, on one rank.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/commit/protocol.hpp"
#include "store/draft.hpp"

namespace cairn {

/// Its files are those of a transaction.
class FileDraft final : public DraftFiles {
 public:
  /// `known`: of this rank; it outlives this. Null: no hashes of blocks are kept.
  FileDraft(std::shared_ptr<io::FileSystem> files, commit::Transaction save,
            commit::KnownBlocks* known = nullptr)
      : files_(std::move(files)), save_(std::move(save)), known_(known) {
    if (known_) written_ = std::make_shared<Written>();
  }

  const commit::Transaction& transaction() const { return save_; }
  commit::Transaction& transaction() { return save_; }

  std::unique_ptr<DraftFiles> copy() const override { return std::make_unique<FileDraft>(*this); }
  void go_at(io::Pace& pace) override {
    files_ = std::make_shared<io::PacedFileSystem>(files_, pace);
  }
  void make_place() const override;
  /// See commit::make_part.
  commit::PartFile make(int number, std::int64_t most_bytes) const override;
  void wrote(int number, commit::WrittenBlocks blocks) const override {
    if (written_) (*written_)[number] = {std::move(blocks), std::nullopt};
  }
  void committed() const override;
  std::unique_ptr<io::File> make_or_open(int number) const override;
  // Ranks write where they like.
  void begin_parts(const std::vector<int>&) override {}
  std::string tell() const override { return ""; }
  std::string tell_next_owner() const override { return ""; }
  void hear(std::string_view) override {}
  void enclose(FileEnds) override {}
  std::unique_ptr<io::File> open_parts(int number, std::vector<FilePart>) const override {
    return make_or_open(number);
  }
  io::Path path(int number) const override { return save_.part(number); }
  std::optional<io::Path> shared_path(int number) const override;
  /// See commit::share_part.
  bool share(int number, const io::Path& data) const override {
    return commit::share_part(*files_, save_, number, data);
  }
  io::Path saver_prefix(int saver) const override { return save_.saver_prefix(saver); }
  void adopt(const io::Path& data, int number) const override;
  int count_with(int data_files) const override;
  void set_num_files(int count) override { save_.num_files = count; }
  void record(int writer, int writers, std::string_view bytes) const override;
  const char* left_behind() const override {
    return "completes it, if the bytes of all ranks were written";
  }
  bool names_data() const override { return !save_.direct && !commit::is_whole(save_.main); }
  void name(const std::set<int>& data_files) const override;

 private:
  // By number of the data file: what it holds, and its status when it has its final name. It counts
  // from the commit on.
  struct WrittenFile {
    commit::WrittenBlocks blocks;
    std::optional<io::Status> status;
  };
  using Written = std::map<int, WrittenFile>;

  std::shared_ptr<io::FileSystem> files_;
  commit::Transaction save_;
  commit::KnownBlocks* known_;
  // Shared by the copies of this draft: of the thread that writes, and after that of the caller's.
  std::shared_ptr<Written> written_;
};

/// Of a draft that a directory has made.
inline commit::Transaction& transaction_of(Draft& draft) {
  return static_cast<FileDraft&>(draft.files()).transaction();
}
inline const commit::Transaction& transaction_of(const Draft& draft) {
  return static_cast<const FileDraft&>(draft.files()).transaction();
}

}  // namespace cairn
