// sharded_save and sharded_restore: layouts, slices, and files that DTensor wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <filesystem>
#include <iostream>
#include <set>

#include "base/text.hpp"
#include "cairn/sharded_save.hpp"
#include "layout/codec.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "store/contents/contents_reader.hpp"
#include "support/rounds.hpp"
#include "support/sample_state.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"
#include "tools/read_tensor.hpp"

namespace cairn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Mesh square({{"x", 2}, {"y", 2}});

class ShardedSave : public testing::Test {
 protected:
  ShardedSave() { options_.write.file_system = files_; }
  std::vector<std::string> specs(const std::string& prefix, const std::string& key) {
    const auto contents = read_contents(*files_, prefix);
    const auto& tensor = *contents.find(key);
    std::vector<std::string> all;
    for (const auto& slice : tensor.slices) {
      all.push_back(tensor.sliced ? to_string(SliceSpec{tensor.shape, slice.box, slice.dash, false})
                                  : "plain");
    }
    return all;
  }
  std::vector<float> read(const std::string& prefix, const std::string& key) {
    const auto contents = read_contents(*files_, prefix);
    const auto& tensor = *contents.find(key);
    const auto bytes = read_numbers({*files_, contents}, tensor, Box::whole(tensor.shape));
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  ShardedOptions options_;
};

TEST_F(ShardedSave, LayoutsToOtherLayouts) {
  run_threads(4, [&](std::shared_ptr<Group> group) {
    const Layout both({"x", "y"}, square), rows({"y", unsharded}, square);
    std::vector<float> u(6), v(12);
    for (std::size_t i = 0; i < 6; ++i) {
      const auto at = both.slice({4, 6}, group->rank()).start;
      u[i] = static_cast<float>((at[0] + static_cast<std::int64_t>(i) / 3) * 6 + at[1] +
                                static_cast<std::int64_t>(i) % 3);
    }
    const auto saved = sharded_save(group, square, "/deep/dir/model", {"u"}, {""},
                                    {slice(u.data(), {4, 6}, both, group->rank())}, options_);
    EXPECT_EQ(saved, "/deep/dir/model");
    const auto report = sharded_restore(group, square, "/deep/dir/model", {"u"}, {""},
                                        {slice(v.data(), {4, 6}, rows, group->rank())}, options_);
    EXPECT_EQ(report.prefix, "/deep/dir/model");
    EXPECT_TRUE(report.unused_keys.empty());
    for (std::size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(v[i], static_cast<float>((group->rank() % 2) * 12) + static_cast<float>(i));
    }
  });
  EXPECT_THAT(specs("/deep/dir/model", "u"),
              ElementsAre("4 6 0,2:0,3", "4 6 0,2:3,3", "4 6 2,2:0,3", "4 6 2,2:3,3"));
  // Every directory operation is done, and there is no state file.
  EXPECT_THAT(files_->list("/deep/dir"),
              testing::Each(testing::AnyOf(".cairn", testing::StartsWith("model."))));
}

TEST_F(ShardedSave, SlicesOfALargerTensorAreStoredAsTheyAreSpelled) {
  run_threads(2, [&](std::shared_ptr<Group> group) {
    const Mesh line({{"x", 2}});
    const bool low = group->rank() == 0;
    std::vector<float> mine(6, low ? 1.f : 2.f), half(3, low ? 3.f : 4.f);
    // Rank 1 gives its part of "b" in two slices.
    std::vector<std::string> names{"a", "b"},
        spelled{low ? "4 3 0,2:-" : "4 3 2,2:0,3", low ? "9 0,3" : "9 3,3"};
    std::vector<LocalTensor> tensors{whole(mine.data(), {2, 3}), whole(half.data(), {3})};
    if (!low) {
      names.push_back("b");
      spelled.push_back("9 6,3");
      tensors.push_back(whole(half.data(), {3}));
    }
    sharded_save(group, line, "/d/model", names, spelled, tensors, options_);
    std::vector<float> back(6);
    sharded_restore(group, line, "/d/model", {"b"}, {low ? "9 2,6" : "9 3,6"},
                    {whole(back.data(), {6})}, options_);
    EXPECT_EQ(back, low ? (std::vector<float>{3, 4, 4, 4, 4, 4})
                        : (std::vector<float>{4, 4, 4, 4, 4, 4}));
  });
  EXPECT_THAT(specs("/d/model", "a"), ElementsAre("4 3 0,2:-", "4 3 2,2:0,3"));
  EXPECT_THAT(read("/d/model", "a"), ElementsAre(1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2));
  EXPECT_THAT(read("/d/model", "b"), ElementsAre(3, 3, 3, 4, 4, 4, 4, 4, 4));
}

// A sharded tensor that is itself a slice: the layout cuts the slice, not the whole.
TEST_F(ShardedSave, ALayoutWithinASlice) {
  run_threads(4, [&](std::shared_ptr<Group> group) {
    const Layout rows({"x", unsharded}, square);
    std::vector<float> top(6, static_cast<float>(rows.slice({2, 6}, group->rank()).start[0]));
    std::vector<float> bottom(12, 7.f);
    sharded_save(group, square, "/d/model", {"u", "u"}, {"4 6 0,2:-", "4 6 2,2:-"},
                 {slice(top.data(), {2, 6}, rows, group->rank()), whole(bottom.data(), {2, 6})},
                 options_);
  });
  EXPECT_THAT(specs("/d/model", "u"), ElementsAre("4 6 0,1:-", "4 6 1,1:-", "4 6 2,2:-"));
}

TEST_F(ShardedSave, ReplacesWhatIsThereAndKeepsItWhenItFails) {
  const auto save = [&](float value, bool fails) {
    run_threads(2, [&](std::shared_ptr<Group> group) {
      const Mesh line({{"x", 2}});
      std::vector<float> mine(2, value);
      if (fails && group->rank() == 0) {
        files_->inject({Code::io, "sync", "part-", 1, 1});
      }
      group->barrier();
      const auto call = [&] {
        sharded_save(group, line, "/d/model", {"u"}, {""},
                     {slice(mine.data(), {4}, Layout({"x"}, line), group->rank())}, options_);
      };
      if (fails) {
        EXPECT_THROW(call(), Error);
      } else {
        call();
      }
    });
  };
  save(1, false);
  save(2, false);
  EXPECT_THAT(read("/d/model", "u"), ElementsAre(2, 2, 2, 2));
  save(3, true);
  EXPECT_THAT(read("/d/model", "u"), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(files_->list("/d"),
              testing::Each(testing::AnyOf(".cairn", testing::StartsWith("model."))));
}

// In whatever order the ranks run, none returns before rank 0 has tidied up.
TEST_F(ShardedSave, OnReturnEveryDirectoryOperationIsDone) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    run_threads(3,
                [&](std::shared_ptr<Group> group) {
                  const Mesh line({{"x", 3}});
                  std::vector<float> mine(2, 1.f);
                  if (group->rank() == 0) {
                    files_->set_observer([](const std::string&) { yield_point(); });
                  }
                  group->barrier();
                  for (int again = 0; again < 2; ++again) {
                    sharded_save(group, line, "/d/model", {"u"}, {""},
                                 {slice(mine.data(), {6}, Layout({"x"}, line), group->rank())},
                                 options_);
                    const auto operations = files_->operation_count();
                    for (const auto& name : files_->list("/d")) {
                      EXPECT_THAT(name, testing::Not(HasSubstr("_temp_"))) << "seed " << seed;
                    }
                    group->barrier();
                    EXPECT_EQ(files_->operation_count(), operations) << "seed " << seed;
                    group->barrier();
                  }
                },
                {.seed = seed});
    files_->set_observer({});
  }
}

// A crash at any instant of an overwriting save leaves the old or the new tensors, and the next
// save removes everything else.
TEST_F(ShardedSave, ACrashLeavesTheOldOrTheNew) {
  const Mesh line({{"x", 2}});
  const auto save = [&](std::shared_ptr<io::MemoryFileSystem> disk, std::uint16_t value) {
    run_threads(2, [&](std::shared_ptr<Group> group) {
      std::vector<std::uint16_t> sliced(1500, value), dense(1500, value);
      const auto rank = group->rank();
      ShardedOptions options;
      options.write.file_system = disk;
      options.write.owner_wait_seconds = 0;
      options.write.chunk_bytes = 4096;
      sharded_save(group, line, "/d/model", {"sliced", "dense"}, {"", ""},
                   {slice(sliced.data(), {3000}, Layout({"x"}, line), rank),
                    slice(dense.data(), {3, 1000}, {0, rank * 500}, {3, 500})},
                   options);
    });
  };
  save(files_, 1);
  files_->mark();
  save(files_, 2);
  std::size_t states = 0, completed = 0;
  for (std::size_t stop = 0; stop <= files_->operation_count(); ++stop) {
    const auto choices = files_->crash_choices(stop);
    for (std::size_t c = stop % test::stride(7); c < choices.size(); c += test::stride(7)) {
      const auto disk = files_->crash(stop, choices[c]);
      const auto found = [&] {
        std::vector<std::uint16_t> sliced(3000), dense(3000);
        ShardedOptions options;
        options.write.file_system = disk;
        sharded_restore(serial_group(), Mesh({{"x", 1}}), "/d/model", {"sliced", "dense"}, {"", ""},
                        {whole(sliced.data(), {3000}), whole(dense.data(), {3, 1000})}, options);
        sliced.insert(sliced.end(), dense.begin(), dense.end());
        EXPECT_EQ(std::set<std::uint16_t>(sliced.begin(), sliced.end()).size(), 1u)
            << files_->describe(stop, choices[c]);
        return sliced[0];
      };
      const auto first = found();
      ASSERT_TRUE(first == 1 || first == 2) << files_->describe(stop, choices[c]);
      ++states;
      if (c > 1 && c % 7 != stop % 7) continue;
      save(disk, 3);
      ASSERT_EQ(found(), 3) << files_->describe(stop, choices[c]);
      for (const auto& name : disk->list("/d")) {
        EXPECT_THAT(name, testing::Not(HasSubstr("_temp_"))) << files_->describe(stop, choices[c]);
      }
      ++completed;
    }
  }
  std::cout << "[ STATES   ] " << states << " crash states, saved over again from " << completed
            << "\n";
}

TEST_F(ShardedSave, OneErrorForAll) {
  const auto text = [&](const std::function<void(std::shared_ptr<Group>)>& call) {
    std::vector<std::string> said(2);
    run_threads(2, [&](std::shared_ptr<Group> group) {
      try {
        call(group);
      } catch (const Error& error) {
        said[static_cast<std::size_t>(group->rank())] = error.what();
      }
    });
    EXPECT_EQ(said[0], said[1]);
    return said[0];
  };
  const Mesh line({{"x", 2}});
  std::vector<float> u(4);
  const auto tensor = whole(u.data(), {4});
  EXPECT_THAT(text([&](auto group) {
                sharded_save(group, square, "/d/m", {"u"}, {""}, {tensor}, options_);
              }),
              test::Says("the mesh x=2,y=2 is used by 2 ranks (it has 4)"));
  EXPECT_THAT(text([&](auto group) {
                const Mesh mine({{group->rank() ? "x" : "y", 2}});
                sharded_save(group, mine, "/d/m", {"u"}, {""}, {tensor}, options_);
              }),
              test::Says("ranks disagree on the mesh"));
  EXPECT_THAT(text([&](auto group) {
                sharded_save(group, line, "/d/m", {"u", "v"}, {""}, {tensor}, options_);
              }),
              test::Says("1 tensors are given with 2 names and 1 slices"));
  EXPECT_THAT(
      text([&](auto group) {
        const auto spec = group->rank() ? "8 4,4" : "8 0,3";
        sharded_save(group, line, "/d/m", {"u"}, {spec}, {tensor}, options_);
      }),
      test::Says("of shape [4] is given as the slice \"8 0,3\" (that is one of shape [3])"));
  EXPECT_THAT(text([&](auto group) {
                sharded_save(group, line, "/d/m", {"u"}, {"9 0,4"}, {tensor}, options_);
              }),
              test::Says("held by no rank"));
  EXPECT_THAT(
      text([&](auto group) { sharded_save(group, line, "/d/", {"u"}, {""}, {tensor}, options_); }),
      test::Says("'/d/' is no prefix"));
  EXPECT_THAT(text([&](auto group) {
                sharded_save(group, line, "/d/m", {"\xff"}, {""}, {tensor}, options_);
              }),
              HasSubstr("not UTF-8"));
  EXPECT_THAT(text([&](auto group) {
                sharded_restore(group, line, "/d/none", {"u"}, {""}, {tensor}, options_);
              }),
              test::Says("there is no checkpoint /d/none"));
}

// Files that DTensor's own sharded_save wrote on a 2 × 2 mesh are restored into all layouts on
// meshes of six ranks.
TEST(ShardedRestore, FilesOfDTensorIntoAnyLayout) {
  const std::filesystem::path prefix = CAIRN_GOLDEN_DIR "/dtensor/by_sharded_save";
  const auto files = io::posix_file_system();
  const auto contents = read_contents(*files, prefix);
  ASSERT_EQ(contents.tensors.size(), 5u);
  for (const Mesh& mesh : {Mesh({{"x", 6}}), Mesh({{"x", 2}, {"y", 3}}), square}) {
    const std::vector<std::string> choices{unsharded, "x", mesh.dimensions().back().name};
    for (const auto& first : choices) {
      for (const auto& second : choices) {
        if (first == second && first != unsharded) continue;
        run_threads(mesh.size(), [&](std::shared_ptr<Group> group) {
          std::vector<std::string> names;
          std::vector<LocalTensor> tensors;
          std::deque<std::string> memory;
          std::vector<Box> boxes;
          for (const auto& stored : contents.tensors) {
            std::vector<std::string> sharding{first, second};
            sharding.resize(stored.shape.size());
            const Layout layout(sharding, mesh);
            boxes.push_back(layout.slice(stored.shape, group->rank()));
            memory.emplace_back(
                static_cast<std::size_t>(boxes.back().count()) * dtype_size(stored.dtype), '\0');
            names.push_back(stored.key);
            tensors.push_back(slice(stored.dtype, static_cast<void*>(memory.back().data()),
                                    stored.shape, layout, group->rank()));
          }
          sharded_restore(group, mesh, prefix, names, std::vector<std::string>(names.size()),
                          tensors);
          for (std::size_t i = 0; i < names.size(); ++i) {
            if (boxes[i].empty()) continue;
            EXPECT_EQ(memory[i], read_numbers({*files, contents}, contents.tensors[i], boxes[i]))
                << names[i];
          }
        });
      }
    }
  }
}

// With nothing known a save encodes, and the next one does not.
TEST_F(ShardedSave, AutomaticCodecsLearnFromEarlierOnes) {
  if (!hdf5::available()) GTEST_SKIP() << "this build has no HDF5";
  if (!is_known(Codec::zstd) && !is_known(Codec::deflate)) GTEST_SKIP() << "there is no codec";
  for (int disk = 0; disk < 2; ++disk) {
    files_ = std::make_shared<io::MemoryFileSystem>();
    options_ = {.store = {.format = Format::hdf5, .codec = StoreCodec::automatic}};
    options_.write.file_system = files_;
    for (const bool encodes : {true, false}) {
      const auto prefix = cat("/run/", encodes, "/model");
      run_threads(2, [&](std::shared_ptr<Group> group) {
        std::vector<double> zeros(100'000);
        sharded_save(group, Mesh({{"x", 2}}), prefix, {"x"},
                     {cat("200000 ", group->rank() * 100'000, ",100000")},
                     {slice(zeros.data(), {100'000}, {0}, {100'000})}, options_);
      });
      for (const auto& piece : read_contents(*files_, prefix).find("x")->slices) {
        EXPECT_EQ(piece.codec != Codec::none, encodes);
      }
    }
  }
}

}  // namespace
}  // namespace cairn
