// Conformance: damaged files. The tests know no format: a step is the files that begin with its
// prefix.
#include <filesystem>
#include <random>

#include "support/conformance.hpp"
#include "tools/verify.hpp"

namespace cairn::test {
namespace {

using std::filesystem::path;
using Files = std::vector<std::pair<path, std::string>>;

constexpr const char* text = "This is a note, and no part of a checkpoint.\n";

std::vector<std::string> read_all(const std::vector<path>& paths,
                                  const std::function<std::string(const path&)>& read) {
  std::vector<std::string> all;
  for (const auto& one : paths) all.push_back(read(one));
  return all;
}

// Finds the data of step 2: file and offset.
std::pair<std::size_t, std::size_t> find_data(const std::vector<std::string>& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto at = files[i].find(Fields::pattern(2));
    if (at != std::string::npos) return {i, at};
  }
  ADD_FAILURE() << "the data are in no file";
  return {0, 0};
}

TEST_P(Conformance, DamagedFilesArePassedOverOrDoNotMatter) {
  const int n = some_ranks();
  save(n, 1, 1);
  save(n, 2, 2);
  const auto paths = files_of(2);
  ASSERT_FALSE(paths.empty());
  const auto good = read_all(paths, [&](const path& one) { return bytes_of(one); });
  const auto [data, at] = find_data(good);

  // A kind of damage in words, the step that must be restored (0: 1 or 2), and the files.
  struct Damage {
    std::string what;
    std::int64_t step;
    std::vector<std::string> files;
  };
  std::vector<Damage> all;
  const auto add = [&](std::string what, std::int64_t step) -> std::vector<std::string>& {
    all.push_back({std::move(what), step, good});
    return all.back().files;
  };
  add("nothing", 2);
  add("a flipped bit of an element", 1)[data][at + 3] ^= 4;
  add("a file cut in an element", 1)[data].resize(at + 3);
  auto& halves = add("each file cut in half", 1);
  for (auto& file : halves) file.resize(file.size() / 2);
  for (auto& file : add("text in each file", 1)) file = text;
  for (auto& file : add("each file empty", 1)) file.clear();
  std::mt19937 random(7);
  for (std::size_t i = 0; i < good.size() && i < launcher_->rounds(); ++i) {
    const auto name = paths[i].filename().string();
    add("text as " + name, 0)[i] = text;
    if (good[i].empty()) continue;
    add("the end is missing of " + name, 0)[i].pop_back();
    add("only a beginning of " + name, 0)[i].resize(random() % good[i].size());
  }
  for (unsigned i = 0; i < 6 * launcher_->rounds(); ++i) {
    const auto file = random() % good.size();
    if (good[file].empty()) continue;
    const auto byte = random() % good[file].size();
    add(cat("byte ", byte, " of ", paths[file].filename().string()), 0)[file][byte] ^=
        static_cast<char>(1 << random() % 8);
  }

  for (const auto& one : all) {
    launcher_->once([&] {
      for (std::size_t i = 0; i < paths.size(); ++i) {
        if (bytes_of(paths[i]) != one.files[i]) replace(paths[i], one.files[i]);
      }
      const auto whole = verify_checkpoint({*launcher_->files(), prefix(2)}).verdict();
      EXPECT_EQ(whole == Verdict::whole, one.step == 2) << one.what;
    });
    on(n, one.what, [&](auto group) -> std::string {
      Fields mine(*group, 9);
      CheckpointManager manager(group, directory(), reading());
      const auto report = manager.restore_latest(mine.state());
      if (!report) return "nothing to restore";
      if (one.step != 0 && report->step != one.step) return cat("step ", report->step);
      if (report->unchecked) return "bytes were not checked";
      if (const auto wrong = mine.check(static_cast<std::uint64_t>(report->step)); !wrong.empty()) {
        return wrong;
      }
      if (report->step == 2) return "";
      // By its number: an error on all ranks, or the saved values. (A bundle that has lost only its
      // metadata is not known to be the newest, but its tensors are whole.)
      const auto error = error_of_all(*group, [&] { manager.restore(2, mine.state()); });
      if (!error && one.step == 0) return mine.check(2);
      return unlike(error, {Code::data_loss, Code::not_found});
    });
    if (HasFailure()) return;
  }
}

TEST_P(Conformance, AMissingFileIsPassedOver) {
  const int n = some_ranks();
  save(n, 1, 1);
  save(n, 2, 2);
  const auto paths = files_of(2);
  for (std::size_t i = 0; i < paths.size() && i < launcher_->rounds(); ++i) {
    const auto bytes = bytes_of(paths[i]);
    launcher_->once([&] { launcher_->files()->remove(paths[i]); });
    on(n, "without " + paths[i].string(), [&](auto group) -> std::string {
      Fields mine(*group, 9);
      const auto report =
          CheckpointManager(group, directory(), reading()).restore_latest(mine.state());
      if (!report) return "nothing to restore";
      return mine.check(static_cast<std::uint64_t>(report->step));
    });
    launcher_->once([&] { replace(paths[i], bytes); });
  }
  expect_latest(n, 2, 2, "all files are there again");
}

// An owner goes on from the older one, and its next save becomes the newest.
TEST_P(Conformance, ARunGoesOnFromTheOlderOne) {
  for (const int n : launcher_->counts()) {
    launcher_->new_disk();
    save(n, 1, 1);
    save(n, 2, 2);
    launcher_->once([&] {
      const auto paths = files_of(2);
      auto files = read_all(paths, [&](const path& one) { return bytes_of(one); });
      const auto [data, at] = find_data(files);
      files[data][at] ^= 1;
      replace(paths[data], files[data]);
    });
    on(n, cat(n, " ranks"), [&](auto group) -> std::string {
      Fields mine(*group, 9);
      {
        auto options = saving();
        options.restore.fall_back = false;
        options.restore.verify_first = true;
        CheckpointManager manager(group, directory(), options);
        const auto error = error_of_all(*group, [&] { manager.restore_latest(mine.state()); });
        if (const auto wrong = unlike(error, {Code::data_loss}, "'u'"); !wrong.empty())
          return wrong;
        if (mine.check(9) != "") return "memory was touched";
      }
      group->barrier();
      CheckpointManager manager(group, directory(), saving());
      const auto report = manager.restore_latest(mine.state());
      if (!report || report->step != 1) return "not step 1";
      if (report->skipped.size() != 1 || report->unchecked) return "the report is wrong";
      if (const auto wrong = mine.check(1); !wrong.empty()) return wrong;
      Fields next(*group, 3);
      save(manager, 2, next.state());  // a damaged step may be replaced
      return "";
    });
    expect_whole(2, cat(n, " ranks"));
    expect_latest(n, 2, 3, "saved again");
  }
}

TEST_P(Conformance, NothingWholeIsAnErrorOfAllRanks) {
  const int n = some_ranks();
  save(n, 2, 2);
  launcher_->once([&] {
    const auto paths = files_of(2);
    auto files = read_all(paths, [&](const path& one) { return bytes_of(one); });
    const auto [data, at] = find_data(files);
    files[data][at] ^= 1;
    replace(paths[data], files[data]);
  });
  on(n, "the only one is damaged", [&](auto group) {
    Fields mine(*group, 9);
    CheckpointManager manager(group, directory(), reading());
    return unlike(error_of_all(*group, [&] { manager.restore_latest(mine.state()); }),
                  {Code::data_loss});
  });
}

// Files with names that a format uses, in a directory where nothing was saved.
TEST_P(Conformance, FilesOfOthersAreNoCheckpoints) {
  const int n = some_ranks();
  save(n, 1, 1);
  launcher_->once([&] {
    for (const auto& one : files_of(1)) {
      replace(prefix(2).string() + one.extension().string(), text);
    }
    replace(prefix(3).string() + ".h5", text);
    replace(prefix(4).string() + ".index", text);
    replace(prefix(5).string() + ".h5", "\211HDF\r\n\032\n and so on");
  });
  expect_latest(n, 1, 1, "the one that is there");
  on(n, "by their numbers", [&](auto group) -> std::string {
    Fields mine(*group, 9);
    CheckpointManager manager(group, directory(), reading());
    for (const int step : {2, 3, 4, 5}) {
      const auto error = error_of_all(*group, [&] { manager.restore(step, mine.state()); });
      const auto wrong = unlike(error, {Code::not_found, Code::data_loss});
      if (!wrong.empty()) return cat("step ", step, ": ", wrong);
    }
    return mine.check(9);
  });
  expect_latest(n, 1, 1, "also after an owner came");
  save(n, 6, 6);
  expect_latest(n, 6, 6, "a save beside them");
}

}  // namespace
}  // namespace cairn::test
