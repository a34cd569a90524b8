// What a checkpoint holds, as ranks tell each other.
#include "support/forwarding_files.hpp"
#include "support/manager_kit.hpp"

namespace cairn {
namespace {

// As a node sees a directory whose files it knows from an earlier time.
class OldView : public test::ForwardingFiles {
 public:
  enum class Sees { nothing, less, error };
  OldView(std::shared_ptr<io::FileSystem> files, Sees sees)
      : ForwardingFiles(std::move(files)), sees_(sees) {}

  std::optional<io::Status> status(const io::Path& path) override {
    auto found = files_->status(path);
    if (!found || path.string().find(".data-") == std::string::npos) return found;
    ++looks;
    if (sees_ == Sees::nothing) return std::nullopt;
    if (sees_ == Sees::error) throw Error(Code::io, "the server does not answer");
    found->size -= found->size > 0;
    return found;
  }

  int looks = 0;

 private:
  const Sees sees_;
};

class TellContents : public Manager {};

TEST_P(TellContents, AnOldViewOfDataFilesIsNoDamage) {
  job([](Rank& rank) { rank.save(7); });
  for (const auto sees : {OldView::Sees::nothing, OldView::Sees::less, OldView::Sees::error}) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      auto options = options_;
      const auto old = std::make_shared<OldView>(files_, sees);
      if (group->rank() > 0) options.write.file_system = old;
      Rank rank(group, options);
      EXPECT_EQ(rank.latest(), 7);
      if (group->rank() == 1) {
        EXPECT_GT(old->looks, 0);
      }
    });
  }
}

TEST_P(TellContents, AFileThatIsGoneIsDamageOnAllRanks) {
  job([](Rank& rank) {
    rank.save(1);
    rank.save(2);
  });
  const auto gone = cat("/run/ckpt-2.data-00000-of-0000", GetParam() + 1);
  ASSERT_TRUE(files_->status(gone));
  files_->remove(gone);
  job([](Rank& rank) {
    expect_error(rank, Code::data_loss, "is missing", [&] { rank.manager.restore(2, rank.state); });
    EXPECT_EQ(rank.value, 0);
    EXPECT_EQ(rank.latest(), 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, TellContents, testing::Values(1, 2, 3, 7));

}  // namespace
}  // namespace cairn
