// Restores of less and more than was saved: parts, other names, other dtypes, missing keys.
#include <gmock/gmock.h>

#include <complex>
#include <deque>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "support/memory_run.hpp"
#include "support/rounds.hpp"
#include "support/sample_state.hpp"
#include "support/says.hpp"
#include "testing/memory.hpp"
#include "testing/threads.hpp"

namespace cairn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using test::expect_error;
using test::on_disk;

// Pieces of a tensor whose elements are a function of their index in the stored one.
template <class T>
class Pieces {
 public:
  Pieces(Dims shape, const std::vector<Box>& boxes) : shape_(std::move(shape)) {
    for (const auto& box : boxes) {
      parts_.push_back({box, std::vector<T>(static_cast<std::size_t>(box.count()), T(77))});
    }
  }
  LocalTensor tensor() {
    if (parts_.empty()) return nothing(dtype_of<T>::value, shape_);
    std::vector<LocalTensor> all;
    for (auto& part : parts_) {
      all.push_back(slice(part.values.data(), shape_, part.box.start, part.box.extent));
    }
    return patches(std::move(all));
  }
  // visit(element, its index in the tensor of shape `stored`, in which ours begins at `offset`)
  template <class Visit>
  void each(const Dims& stored, const Dims& offset, const Visit& visit) {
    const auto outer = row_major_strides(stored);
    for (auto& [box, values] : parts_) {
      const auto inner = row_major_strides(box.extent);
      for (std::size_t i = 0; i < values.size(); ++i) {
        auto rest = static_cast<std::int64_t>(i);
        std::int64_t index = 0;
        for (std::size_t d = 0; d < outer.size(); ++d) {
          index += (offset[d] + box.start[d] + rest / inner[d]) * outer[d];
          rest %= inner[d];
        }
        visit(values[i], index);
      }
    }
  }

 private:
  struct Part {
    Box box;
    std::vector<T> values;
  };
  Dims shape_;
  std::deque<Part> parts_;
};

class Parts : public testing::TestWithParam<std::tuple<int, int>> {};

// A box of each stored tensor, under another name and in another dtype.
TEST_P(Parts, AnyBoxIntoAnyDecomposition) {
  const auto [n, m] = GetParam();
  for (unsigned seed = 0; seed < test::rounds(4u); ++seed) {
    std::mt19937 random(seed * 100 + static_cast<unsigned>(n * 10 + m));
    Dims stored, offset, shape;
    for (auto rank = random() % 4; rank > 0; --rank) {
      stored.push_back(1 + static_cast<std::int64_t>(random() % 30));
      shape.push_back(static_cast<std::int64_t>(random()) % stored.back() + 1);
      offset.push_back(static_cast<std::int64_t>(random()) % (stored.back() - shape.back() + 1));
    }
    const Dims zero(stored.size(), 0);
    const auto value = [](std::int64_t index) { return static_cast<double>(index) / 3 - 50; };
    const auto held = test::deal(
        test::guillotine(stored, 1 + static_cast<int>(random() % 9), random), n, true, random);
    const auto wanted = test::deal(
        test::guillotine(shape, 1 + static_cast<int>(random() % 9), random), m, true, random);
    auto options = on_disk();
    options.restore.verify_first = seed % 2 == 1;
    run_threads(n, [&](std::shared_ptr<Group> group) {
      const auto& boxes = held[static_cast<std::size_t>(group->rank())];
      Pieces<double> fine(stored, boxes);
      Pieces<std::int64_t> counts(stored, boxes);
      fine.each(stored, zero, [&](double& element, std::int64_t i) { element = value(i); });
      counts.each(stored, zero, [&](std::int64_t& element, std::int64_t i) { element = i - 9; });
      State state;
      state.add("fine", fine.tensor()).add("counts", counts.tensor());
      CheckpointManager(group, "/run", options).save(1, state);
    });
    run_threads(m, [&](std::shared_ptr<Group> group) {
      const auto& boxes = wanted[static_cast<std::size_t>(group->rank())];
      Pieces<double> as_it_is(shape, boxes);
      Pieces<float> coarse(shape, boxes);
      Pieces<std::complex<double>> complex(shape, boxes);
      Pieces<std::int32_t> narrow(shape, boxes);
      State state;
      state.add("fine", as_it_is.tensor()).add("coarse", coarse.tensor());
      state.add("complex", complex.tensor()).add("narrow", narrow.tensor());
      RestoreOptions how;
      how.rename = {{"coarse", "fine"}, {"complex", "counts"}, {"narrow", "counts"}};
      for (const char* key : {"fine", "coarse", "complex", "narrow"}) how.offset[key] = offset;
      how.convert_keys = {{"coarse", Conversion::round}};
      how.convert = Conversion::exact;
      CheckpointManager manager(group, "/run", options);
      const auto report = manager.restore_latest(state, how);
      ASSERT_TRUE(report);
      EXPECT_THAT(report->unused_keys, IsEmpty());
      int wrong = 0;
      as_it_is.each(stored, offset, [&](double got, std::int64_t i) { wrong += got != value(i); });
      coarse.each(stored, offset,
                  [&](float got, std::int64_t i) { wrong += got != static_cast<float>(value(i)); });
      complex.each(stored, offset, [&](std::complex<double> got, std::int64_t i) {
        wrong += got != std::complex<double>(static_cast<double>(i - 9));
      });
      narrow.each(stored, offset, [&](std::int32_t got, std::int64_t i) { wrong += got != i - 9; });
      EXPECT_EQ(wrong, 0) << "seed " << seed << ", stored " << shape_text(stored) << ", wanted "
                          << shape_text(shape) << " at " << shape_text(offset);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(AllPairs, Parts,
                         testing::Combine(testing::Range(1, 8), testing::Range(1, 8)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param), "_ranks_to_",
                                      std::get<1>(info.param));
                         });

class RestoreInto : public testing::TestWithParam<int> {
 protected:
  RestoreInto() {
    job([](CheckpointManager& manager, Group&) {
      std::vector<std::int64_t> table{1, 2, 300, 4, 5, 6};
      double x = 0.1;
      std::vector<std::string> words{"a", "b"};
      const std::uint8_t eighth = 0x3c;
      State state;
      state.add("table", whole(table.data(), {3, 2})).add("x", x).add("words", words);
      state.add("eighth", slice(DType::float8_e5m2, &eighth, {}, {}, {}));
      manager.save(1, state);
    });
  }
  template <class F>
  void job(F&& body) {
    run_threads(GetParam(), [&](std::shared_ptr<Group> group) {
      CheckpointManager manager(group, "/run", options_);
      body(manager, *group);
    });
  }
  ManagerOptions options_ = on_disk();
};
INSTANTIATE_TEST_SUITE_P(Ranks, RestoreInto, testing::Values(1, 3));

TEST_P(RestoreInto, MissingKeysKeepWhatIsInMemory) {
  job([](CheckpointManager& manager, Group& group) {
    double x = 5, fresh = 6;
    std::string note = "new";
    State state;
    state.add("x", x).add("note", note);
    if (group.rank() == group.size() - 1) state.add("fresh", fresh);
    const auto call = [&](const RestoreOptions& how) { return manager.restore(1, state, how); };
    expect_error(Code::not_found,
                 AllOf(test::Says("not in the checkpoint /run/ckpt-1"), HasSubstr("'note'"),
                       test::Says("allow it in RestoreOptions::may_be_missing"),
                       test::Says("it holds besides: 'eighth', 'table', 'words'")),
                 [&] { call({}); });
    expect_error(Code::not_found, test::Says("tensor 'fresh' is not in the checkpoint"), [&] {
      call({.may_be_missing = {"note", "x"}});
    });
    EXPECT_EQ(x, 5) << "an error before anything was touched";
    const auto report = call({.may_be_missing = {"note", "fresh"}});
    EXPECT_THAT(report.kept_keys, ElementsAre("fresh", "note")) << "the same on all ranks";
    EXPECT_THAT(report.unused_keys, ElementsAre("eighth", "table", "words"));
    EXPECT_EQ(x, 0.1);
    EXPECT_EQ(fresh, 6);
    EXPECT_EQ(note, "new");
    EXPECT_THAT(call({.all_may_be_missing = true}).kept_keys, ElementsAre("fresh", "note"));
    EXPECT_THAT(manager.restore_latest(state, {.all_may_be_missing = true})->kept_keys,
                ElementsAre("fresh", "note"));
  });
}

TEST_P(RestoreInto, NamesThatEndInAStarMeanAllThatBeginSo) {
  job([](CheckpointManager& manager, Group&) {
    double x = 5, first = 6, second = 7;
    State state;
    state.add("x", x).add("new/first", first).add("new/second", second);
    const RestoreOptions how{.may_be_missing = {"new/*"}, .unused = Unused::silent};
    EXPECT_THAT(manager.restore(1, state, how).kept_keys, ElementsAre("new/first", "new/second"));
    EXPECT_EQ(x, 0.1);
    expect_error(Code::invalid_argument, test::Says("names 'old/*', which is in no rank's state"),
                 [&] {
                   manager.restore(1, state, {.may_be_missing = {"new/*", "old/*"}});
                 });
    double other = 0;
    State missing;
    missing.add("x", x).add("newer", other);
    expect_error(Code::invalid_argument, HasSubstr("new/*"),
                 [&] { manager.restore(1, missing, how); });
  });
}

TEST_P(RestoreInto, UnusedKeysAreAnErrorIfAsked) {
  job([](CheckpointManager& manager, Group& group) {
    double x = 5;
    State some;
    std::vector<std::string> words(2);
    some.add("x", x);
    if (group.rank() == group.size() - 1) some.add("words", words);
    expect_error(Code::invalid_argument,
                 AllOf(test::Says("does not want 'eighth', 'table' of /run/ckpt-1"),
                       test::Says("allow it: unused = warn")),
                 [&] { manager.restore(1, some, {.unused = Unused::error}); });
    expect_error(Code::invalid_argument, HasSubstr("'eighth', 'table'"),
                 [&] { manager.restore_latest(some, {.unused = Unused::error}); });
    EXPECT_EQ(x, 5) << "an error before anything was touched";
    for (const auto how : {Unused::automatic, Unused::warn, Unused::silent}) {
      EXPECT_THAT(manager.restore(1, some, {.unused = how}).unused_keys,
                  ElementsAre("eighth", "table"));
    }
    EXPECT_EQ(x, 0.1);
  });
}

TEST_P(RestoreInto, AllMissingKeysAreToldAndWhatMayBeMeant) {
  job([](CheckpointManager& manager, Group& group) {
    double x = 5;
    State state, one;
    one.add("model/x", x);
    expect_error(Code::not_found,
                 AllOf(test::Says("Did you mean 'x'?"), HasSubstr("RestoreOptions::rename")),
                 [&] { manager.restore(1, one); });
    State two;
    two.add("model/x", x).add("other/x", x);
    expect_error(Code::not_found, test::Says("'model/x' (Did you mean 'x'?), 'other/x' (the state"),
                 [&] { manager.restore(1, two); });
    one.add("x", x);
    expect_error(Code::not_found, test::Says("'model/x' is not in the checkpoint"), [&] {
      try {
        manager.restore(1, one);
      } catch (const Error& error) {
        EXPECT_THAT(error.way_out(), Not(test::Says("Did you mean"))) << "what the state has";
        throw;
      }
    });
    state.add("tabel", x).add("x", x);
    if (group.rank() == group.size() - 1) state.add("nowhere", x);
    const auto both = [&] { manager.restore_latest(state); };
    if (group.size() == 1) {
      expect_error(Code::not_found,
                   AllOf(test::Says("2 tensors are not in the checkpoint /run/ckpt-1: 'tabel' (Did "
                                    "you mean 'table'?), 'nowhere'"),
                         test::Says("it holds besides: 'eighth', 'table', 'words'")),
                   both);
    } else {
      expect_error(Code::not_found, test::Says("'tabel' is not in the checkpoint"), both);
    }
    EXPECT_EQ(x, 5);
  });
}

TEST_P(RestoreInto, OtherNames) {
  job([](CheckpointManager& manager, Group&) {
    double left = 0, right = 0, gone = 7;
    std::vector<std::string> text{"", ""}, words{"", ""};
    State state;
    state.add("left", left).add("right", right).add("text", text).add("words", words);
    manager.restore(1, state, {.rename = {{"left", "x"}, {"right", "x"}, {"text", "words"}}});
    EXPECT_EQ(left, 0.1);
    EXPECT_EQ(right, 0.1);
    EXPECT_THAT(text, ElementsAre("a", "b"));
    EXPECT_THAT(words, ElementsAre("a", "b"));
    State other;
    other.add("gone", gone);
    expect_error(Code::not_found,
                 AllOf(test::Says("tensor 'y' is not in the checkpoint"),
                       test::Says("RestoreOptions::rename fills 'gone' from it")),
                 [&] {
                   manager.restore(1, other, {.rename = {{"gone", "y"}}});
                 });
    expect_error(Code::invalid_argument,
                 test::Says("Turn it round: the state's 'gone' comes first, then what"), [&] {
                   manager.restore(1, other, {.rename = {{"x", "gone"}}});
                 });
    const auto report =
        manager.restore(1, other, {.rename = {{"gone", "y"}}, .may_be_missing = {"gone"}});
    EXPECT_THAT(report.kept_keys, ElementsAre("gone"));
    EXPECT_EQ(gone, 7);
  });
}

TEST_P(RestoreInto, UnknownNamesAreErrors) {
  job([](CheckpointManager& manager, Group&) {
    double x = 0;
    State state;
    state.add("x", x);
    const auto expect = [&](const char* option, const RestoreOptions& how) {
      expect_error(Code::invalid_argument,
                   AllOf(HasSubstr(cat("RestoreOptions::", option, " names 'z'")),
                         test::Says("in no rank's state")),
                   [&] { manager.restore(1, state, how); });
    };
    expect("rename", {.rename = {{"z", "x"}}});
    expect("offset", {.offset = {{"z", {}}}});
    expect("may_be_missing", {.may_be_missing = {"z"}});
    expect("convert_keys", {.convert_keys = {{"z", Conversion::exact}}});
  });
}

TEST_P(RestoreInto, RanksMustAgreeOnTheOptions) {
  if (GetParam() == 1) return;
  job([](CheckpointManager& manager, Group& group) {
    double x = 0;
    State state;
    state.add("x", x);
    const auto differ = [&](const RestoreOptions& how) {
      expect_error(Code::disagreement,
                   AllOf(test::Says("ranks disagree on RestoreOptions: "), test::Says("on rank 1")),
                   [&] { manager.restore(1, state, group.rank() == 1 ? how : RestoreOptions{}); });
    };
    differ({.rename = {{"x", "x"}}});
    differ({.offset = {{"x", {}}}});
    differ({.may_be_missing = {"x"}});
    differ({.all_may_be_missing = true});
    differ({.convert_keys = {{"x", Conversion::exact}}});
    differ({.convert = Conversion::round});
  });
}

TEST_P(RestoreInto, AnOffsetIsInsideTheStoredTensor) {
  job([](CheckpointManager& manager, Group&) {
    std::vector<std::int64_t> two(2);
    std::vector<std::string> words(2);
    const auto refuse = [&](Dims shape, Dims offset, const std::string& why) {
      State state;
      state.add("table", slice(two.data(), shape, Dims(shape.size(), 0), shape));
      expect_error(Code::invalid_argument,
                   AllOf(test::Says("is no part of the stored [3 2]"), HasSubstr(why)), [&] {
                     manager.restore(1, state, {.offset = {{"table", offset}}});
                   });
    };
    refuse({2, 1}, {2, 0}, "the offset is at least [0 0] and at most [1 1]");
    refuse({2, 1}, {0, -1}, "the offset is at least [0 0] and at most [1 1]");
    refuse({2, 1}, {std::numeric_limits<std::int64_t>::max(), 0}, "at most [1 1]");
    refuse({1, 1}, {0}, "the same number of dimensions");
    refuse({2}, {0}, "the same number of dimensions");
    State large;
    std::vector<std::int64_t> eight(8);
    large.add("table", whole(eight.data(), {4, 2}));
    expect_error(Code::invalid_argument, test::Says("it is longer than the stored one"), [&] {
      manager.restore(1, large, {.offset = {{"table", {0, 0}}}});
    });
    State text;
    text.add("words", words);
    expect_error(Code::invalid_argument, test::Says("strings are restored whole"), [&] {
      manager.restore(1, text, {.offset = {{"words", {0}}}});
    });
    State column;
    column.add("table", whole(two.data(), {2, 1}));
    manager.restore(1, column, {.offset = {{"table", {1, 1}}}});
    EXPECT_THAT(two, ElementsAre(4, 6));
  });
}

TEST_P(RestoreInto, DtypesAreConvertedOnlyWhenAsked) {
  job([](CheckpointManager& manager, Group&) {
    std::vector<std::uint8_t> bytes(6);
    std::vector<float> floats(6);
    float x = 7;
    State state;
    state.add("table", whole(bytes.data(), {3, 2}));
    expect_error(
        Code::invalid_argument,
        AllOf(test::Says("tensor 'table' is int64 [3 2] in the checkpoint"),
              test::Says("uint8 [3 2] in the state"), HasSubstr("set RestoreOptions::convert")),
        [&] { manager.restore(1, state); });
    for (const auto how : {Conversion::exact, Conversion::round}) {
      expect_error(Code::invalid_argument,
                   AllOf(test::Says("the stored int64 300 at [1 0] has no place in uint8"),
                         testing::Not(HasSubstr("Conversion::round"))),
                   [&] { manager.restore(1, state, {.convert = how}); });
    }
    State part;  // without the value that does not fit
    part.add("table", whole(bytes.data(), {1, 2}));
    manager.restore(1, part, {.offset = {{"table", {2, 0}}}, .convert = Conversion::exact});
    EXPECT_EQ(bytes[0], 5);
    State wide;
    wide.add("table", whole(floats.data(), {3, 2})).add("x", x);
    expect_error(Code::invalid_argument,
                 AllOf(test::Says("the stored float64 0.1 has no place in float32"),
                       test::Says("only what is the same number there is converted"),
                       test::Says("or take the nearest number there is: Conversion::round.")),
                 [&] { manager.restore(1, wide, {.convert = Conversion::exact}); });
    manager.restore(1, wide, {.convert = Conversion::round});
    EXPECT_THAT(floats, ElementsAre(1, 2, 300, 4, 5, 6));
    EXPECT_EQ(x, 0.1f);
    x = 7;
    expect_error(Code::invalid_argument, test::Says("tensor 'table' is int64"), [&] {
      manager.restore(
          1, wide, {.convert_keys = {{"table", Conversion::refuse}}, .convert = Conversion::round});
    });
    EXPECT_EQ(x, 7);
    State eighth;
    eighth.add("eighth", x);
    expect_error(Code::unsupported,
                 test::Says("tensor 'eighth' cannot be converted from float8_e5m2 to float32"),
                 [&] { manager.restore(1, eighth, {.convert = Conversion::round}); });
    State words;
    words.add("words", slice(DType::float32, floats.data(), {2}, {0}, {2}));
    expect_error(Code::unsupported, test::Says("from string to float32"),
                 [&] { manager.restore(1, words, {.convert = Conversion::round}); });
  });
}

}  // namespace
}  // namespace cairn
