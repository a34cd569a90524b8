// What the tool shows of numbers: selections, samples, statistics, scales and pictures.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "cairn/bundle.hpp"
#include "model/runs.hpp"
#include "support/says.hpp"
#include "testing/counting.hpp"
#include "testing/memory.hpp"
#include "tools/colours.hpp"
#include "tools/draw.hpp"
#include "tools/element_numbers.hpp"
#include "tools/sample.hpp"
#include "tools/selection.hpp"
#include "tools/value_statistics.hpp"

namespace cairn::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

template <class F>
std::string message_of(const F& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Selection, IsWhatNumPySays) {
  const Dims shape{10, 6, 4};
  const auto all = Indices{0, 4, 1, false};
  EXPECT_EQ(parse_selection("", shape), (Selection{{0, 10, 1}, {0, 6, 1}, all}));
  EXPECT_EQ(parse_selection("3", shape), (Selection{{3, 1, 1, true}, {0, 6, 1}, all}));
  EXPECT_EQ(parse_selection("-1, ::2 ,1:3", shape),
            (Selection{{9, 1, 1, true}, {0, 3, 2}, {1, 2, 1}}));
  EXPECT_EQ(parse_selection("...,2", shape), (Selection{{0, 10, 1}, {0, 6, 1}, {2, 1, 1, true}}));
  EXPECT_EQ(parse_selection("1,...,2", shape),
            (Selection{{1, 1, 1, true}, {0, 6, 1}, {2, 1, 1, true}}));
  EXPECT_EQ(parse_selection("1,2,3,...", shape),
            (Selection{{1, 1, 1, true}, {2, 1, 1, true}, {3, 1, 1, true}}));
  EXPECT_EQ(parse_selection("-100:100,-2:,:-3", shape),
            (Selection{{0, 10, 1}, {4, 2, 1}, {0, 1, 1}}));
  EXPECT_EQ(parse_selection("1:10:4", shape)[0], (Indices{1, 3, 4}));
  EXPECT_EQ(parse_selection("...", {}), Selection{});
}

TEST(Selection, SaysWhatIsWrong) {
  const Dims shape{10, 6};
  const auto message = [&](const char* text) {
    return message_of([&] { parse_selection(text, shape); });
  };
  EXPECT_THAT(message("10"), test::Says("index 10 is outside of a dimension of 10"));
  EXPECT_THAT(message("-11"), HasSubstr("outside"));
  EXPECT_THAT(message("1,2,3"), test::Says("3 entries for 2 dimensions"));
  EXPECT_THAT(message("4:4"), test::Says("'4:4' is empty"));
  EXPECT_THAT(message("::-1"), test::Says("the step -1 is below 1"));
  EXPECT_THAT(message("x"), test::Says("'x' is no whole number"));
  EXPECT_THAT(message("1,"), test::Says("'' is no whole number"));
  EXPECT_THAT(message("1:2:3:4"), test::Says("more than start, stop and step"));
  EXPECT_THAT(message("...,..."), test::Says("more than one '...'"));
  EXPECT_THAT(message("99999999999999999999"), test::Says("no whole number"));
}

TEST(Selection, OfManyDimensionsTheLastTwoAreShown) {
  const Dims shape{5, 1, 8, 3, 4};
  auto selection = parse_selection("", shape);
  auto shown = show_at_most(selection, 2);
  EXPECT_THAT(shown.dimensions, ElementsAre(3, 4));
  EXPECT_THAT(shown.fixed, ElementsAre(0, 2));
  EXPECT_EQ(selection_text(selection, shape), "2,0,4,:,:");
  selection = parse_selection(":,:,1:7:2,0", shape);
  shown = show_at_most(selection, 2);
  EXPECT_THAT(shown.dimensions, ElementsAre(2, 4));
  EXPECT_EQ(selection_text(selection, shape), "2,0,1:6:2,0,:");
}

// A tensor in slices, whose values are a function of the index.
class Look : public testing::Test {
 protected:
  template <class T>
  CheckpointContents store(const Dims& shape, const std::vector<T>& values, int parts = 1) {
    const auto prefix = "/b" + std::to_string(made_++);
    BundleWriter writer(prefix, files_);
    if (parts == 1) {
      writer.add("x", values.data(), shape);
    } else {
      const auto row = element_count(shape) / shape[0];
      for (int part = 0; part < parts; ++part) {
        Box box = Box::whole(shape);
        box.start[0] = shape[0] * part / parts;
        box.extent[0] = shape[0] * (part + 1) / parts - box.start[0];
        writer.add_slice("x", dtype_of<T>::value, shape, box, &values[box.start[0] * row]);
      }
    }
    writer.finish();
    return read_contents(*files_, prefix);
  }
  template <class T>
  ValueStatistics statistics(const std::vector<T>& values) {
    const auto contents = store<T>({static_cast<std::int64_t>(values.size())}, values);
    return value_statistics({*files_, contents}, contents.tensors.at(0));
  }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  int made_ = 0;
};

TEST_F(Look, SamplesAreMeansOrFirstElements) {
  std::mt19937 random(3);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 60; ++round) {
    const Dims shape{pick(3, 7), pick(2, 12), pick(2, 9)};
    std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
    for (auto& value : values) value = static_cast<double>(pick(-8, 8));
    const auto contents = store(shape, values, round % 3 + 1);
    auto selection = parse_selection(round % 2 ? ":,1::2,:" : "1:,:,::3", shape);
    const auto shown = show_at_most(selection, round % 5 == 0 ? 1 : 2);
    SampleLimits limits;
    limits.rows = pick(1, 5);
    limits.columns = pick(1, 5);
    limits.reduce = round % 4 < 2 ? Reduce::mean : Reduce::stride;
    const auto found = sample({*files_, contents}, contents.tensors[0], selection, limits);
    EXPECT_TRUE(found.checked);
    const bool is_curve = shown.dimensions.size() < 2;
    const Indices one{0, 1, 1};
    const auto& rows = is_curve ? one : selection[shown.dimensions.front()];
    const auto& columns = shown.dimensions.empty() ? one : selection[shown.dimensions.back()];
    ASSERT_LE(found.rows, is_curve ? 1 : limits.rows);
    ASSERT_LE(found.columns, limits.columns);
    ASSERT_EQ(found.rows, (rows.count - 1) / found.row_step + 1);
    ASSERT_EQ(found.columns, (columns.count - 1) / found.column_step + 1);
    const auto strides = row_major_strides(shape);
    const auto value = [&](std::int64_t row, std::int64_t column) {
      std::int64_t at = 0;
      for (std::size_t d = 0; d < 3; ++d) at += selection[d].start * strides[d];
      if (!is_curve) at += row * rows.step * strides[shown.dimensions.front()];
      if (!shown.dimensions.empty()) at += column * columns.step * strides[shown.dimensions.back()];
      return values[static_cast<std::size_t>(at)];
    };
    for (std::int64_t r = 0; r < found.rows; ++r) {
      for (std::int64_t c = 0; c < found.columns; ++c) {
        double sum = 0;
        int count = 0;
        for (auto i = r * found.row_step; i < std::min((r + 1) * found.row_step, rows.count); ++i) {
          for (auto j = c * found.column_step;
               j < std::min((c + 1) * found.column_step, columns.count); ++j) {
            sum += value(i, j);
            ++count;
          }
        }
        const auto expected = limits.reduce == Reduce::mean
                                  ? sum / count
                                  : value(r * found.row_step, c * found.column_step);
        EXPECT_EQ(found.values[static_cast<std::size_t>(r * found.columns + c)], expected)
            << "round " << round << " at " << r << "," << c;
      }
    }
  }
}

TEST_F(Look, NoNanIsLostInAMean) {
  std::vector<float> values(1000, 1.f);
  values[777] = std::numeric_limits<float>::quiet_NaN();
  values[10] = std::numeric_limits<float>::infinity();
  const auto contents = store<float>({1000}, values);
  const auto selection = parse_selection("", {1000});
  const auto found =
      sample({*files_, contents}, contents.tensors[0], selection, {1, 10, Reduce::mean});
  EXPECT_EQ(found.nans, 1);
  EXPECT_EQ(found.infinities, 1);
  EXPECT_EQ(found.elements, 1000);
  EXPECT_TRUE(std::isnan(found.values[7]));
  EXPECT_EQ(found.values[0], infinity);
  EXPECT_EQ(found.values[1], 1);
  EXPECT_EQ(found.least[7], 1);
}

TEST_F(Look, MeansOfTheLargestNumbersAreFinite) {
  constexpr double most = std::numeric_limits<double>::max();
  const auto contents = store<double>({2, 4}, std::vector<double>(8, most));
  const auto found = sample({*files_, contents}, contents.tensors[0], parse_selection("", {2, 4}),
                            {1, 1, Reduce::mean});
  EXPECT_THAT(found.values, ElementsAre(most));
}

TEST_F(Look, OfAHugeTensorOnlyWhatIsDrawnIsRead) {
  // 576 MiB of zeros: a hole in the data file of a tensor that claims to be so large.
  auto contents = store<double>({4, 4}, std::vector<double>(16, 1.0));
  auto& tensor = contents.tensors[0];
  tensor.shape = {72, 1024, 1024};
  auto& slice = tensor.slices.at(0);
  slice.box = Box::whole(tensor.shape);
  slice.stored_bytes = slice.raw_bytes = element_count(tensor.shape) * 8;
  files_->open_write("/b0.data-00000-of-00001")->resize(slice.stored_bytes);
  const auto selection = parse_selection("1,500,:", tensor.shape);
  std::int64_t most = 0;
  const auto found = sample({*files_, contents}, tensor, selection, {1, 100, Reduce::mean},
                            [&](std::int64_t done, std::int64_t) { most = std::max(most, done); });
  EXPECT_FALSE(found.checked);
  EXPECT_EQ(found.elements, 1024);
  EXPECT_LE(most, (1024 + 501) * 8 * 1024 + (64 << 10)) << "it read far behind what is drawn";
}

TEST_F(Look, StatisticsAreThoseOfAllChunks) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal(100, 3);
  std::vector<double> values(1'500'000);  // three chunks
  for (auto& value : values) value = normal(random);
  values[1'400'000] = -5;
  values[3] = nan;
  values[700'000] = -infinity;
  values[700'001] = 0;
  values[1'400'001] = 1e6;
  const Dims shape{3, 500'000};
  const auto contents = store(shape, values);
  const auto found = value_statistics({*files_, contents}, contents.tensors[0]);
  long double sum = 0, squares = 0;
  for (const auto value : values) sum += std::isfinite(value) ? value : 0;
  const auto mean = sum / 1'499'998;
  for (const auto value : values)
    squares += std::isfinite(value) ? std::pow(value - mean, 2.0L) : 0;
  EXPECT_EQ(found.elements, 1'500'000);
  EXPECT_EQ(found.nans, 1);
  EXPECT_EQ(found.infinities, 1);
  EXPECT_EQ(found.zeros, 1);
  EXPECT_EQ(found.finite, 1'499'998);
  EXPECT_EQ(found.least->value, -5);
  EXPECT_EQ(found.least->index, (Dims{2, 400'000}));
  EXPECT_EQ(found.largest->value, 1e6);
  EXPECT_NEAR(found.mean, static_cast<double>(mean), 1e-9);
  EXPECT_NEAR(found.deviation, static_cast<double>(std::sqrt(squares / 1'499'998)), 1e-6);
  const auto bins = histogram({*files_, contents}, contents.tensors[0], found, 10);
  EXPECT_EQ(bins.low, -5);
  EXPECT_EQ(bins.high, 1e6);
  EXPECT_EQ(bins.counts.front(), 1'499'997);
  EXPECT_EQ(bins.counts.back(), 1);
}

TEST_F(Look, StatisticsOfWhatIsExtreme) {
  constexpr double most = std::numeric_limits<double>::max();
  const auto wide = statistics<double>({-most, most, most, most});
  EXPECT_DOUBLE_EQ(wide.mean, most / 2);
  EXPECT_TRUE(std::isfinite(wide.deviation));
  const auto tiny = statistics<double>({5e-324, 5e-324});
  EXPECT_EQ(tiny.mean, 5e-324);
  EXPECT_EQ(tiny.deviation, 0);
  const auto none = statistics<double>({nan, nan, infinity});
  EXPECT_EQ(none.finite, 0);
  EXPECT_EQ(none.nans, 2);
  EXPECT_FALSE(none.least);
  const auto zeros = statistics<float>({0.f, -0.f, 0.f});
  EXPECT_EQ(zeros.zeros, 3);
  EXPECT_EQ(zeros.mean, 0);
  // These integers are the same when converted to double.
  constexpr std::int64_t large = std::int64_t{1} << 60;
  const auto whole = statistics<std::int64_t>({large + 1, large, large + 2, large + 2});
  EXPECT_EQ(whole.least->index, Dims{1});
  EXPECT_EQ(whole.largest->index, Dims{2});
  const auto empty = statistics<double>({});
  EXPECT_EQ(empty.elements, 0);
}

TEST_F(Look, HistogramsOfIntegersHaveABinForEach) {
  const std::vector<std::int8_t> values = {-2, 0, 0, 1, 1, 1};
  const auto contents = store<std::int8_t>({6}, values);
  const auto& tensor = contents.tensors[0];
  const auto found =
      histogram({*files_, contents}, tensor, value_statistics({*files_, contents}, tensor), 16);
  EXPECT_EQ(found.low, -2.5);
  EXPECT_EQ(found.high, 1.5);
  EXPECT_THAT(found.counts, ElementsAre(1, 0, 2, 3));
}

TEST_F(Look, DamageIsFound) {
  auto contents = store<double>({100}, std::vector<double>(100, 1.5));
  const auto file = files_->open_write("/b0.data-00000-of-00001");
  const std::byte wrong{7};
  file->write_at(13, {&wrong, 1});
  const auto& tensor = contents.tensors[0];
  EXPECT_THROW(value_statistics({*files_, contents}, tensor), Error);
  EXPECT_THROW(sample({*files_, contents}, tensor, parse_selection("", {100}), {}), Error);
}

TEST(Colours, ScalesOfNumbers) {
  const auto plain = colour_scale({3, nan, -1, infinity}, false, {});
  EXPECT_EQ(plain.low, -1);
  EXPECT_EQ(plain.high, 3);
  EXPECT_EQ(plain.part_of(1), 0.5);
  EXPECT_EQ(plain.part_of(nan), std::nullopt);
  EXPECT_GT(*plain.part_of(infinity), 1);
  EXPECT_LT(*plain.part_of(-infinity), 0);
  const auto log = colour_scale({100, -3, 0, 1}, true, {});
  EXPECT_EQ(log.low, 1);
  EXPECT_DOUBLE_EQ(*log.part_of(10), 0.5);
  EXPECT_EQ(log.part_of(0), std::nullopt);
  const auto constant = colour_scale({4, 4}, false, {});
  EXPECT_FALSE(constant.has_width);
  EXPECT_EQ(constant.part_of(4), 0.5);
  EXPECT_EQ(colour_scale({0}, false, {}).part_of(0), 0.5);
  constexpr double most = std::numeric_limits<double>::max();
  EXPECT_EQ(colour_scale({-most, most}, false, {}).part_of(0), 0.5);
  const auto largest = colour_scale({most}, false, {});
  EXPECT_TRUE(std::isfinite(largest.high) && largest.part_of(most));
  EXPECT_FALSE(colour_scale({nan}, false, {}).has_numbers);
  EXPECT_FALSE(colour_scale({-1, 0}, true, {}).has_numbers);
  EXPECT_EQ(colour_scale({5}, false, std::pair(0.0, 1.0)).high, 1);
}

TEST(Colours, RangesThatAreNone) {
  EXPECT_EQ(parse_range("-1:2.5", false), std::pair(-1.0, 2.5));
  const auto message = [](const char* text, bool is_log) {
    return message_of([&] { parse_range(text, is_log); });
  };
  EXPECT_THAT(message("1:1", false), test::Says("the first number is not below the second"));
  EXPECT_THAT(message("2:1", false), test::Says("not below"));
  EXPECT_THAT(message("1", false), HasSubstr("no ':'"));
  EXPECT_THAT(message("nan:1", false), test::Says("'nan' is no finite number"));
  EXPECT_THAT(message("0:inf", false), test::Says("'inf' is no finite number"));
  EXPECT_THAT(message(":", false), test::Says("'' is no finite number"));
  EXPECT_THAT(message("0:1", true), test::Says("logarithmic scale lies above 0"));
}

TEST(Colours, TicksAreRoundAndToldApart) {
  const auto texts = [](double low, double high, bool is_log) {
    std::string all;
    for (const auto& tick : ticks({low, high, is_log}, 5)) all += tick.text + " ";
    return all;
  };
  EXPECT_EQ(texts(0, 1, false), "0 0.2 0.4 0.6 0.8 1 ");
  EXPECT_EQ(texts(-3, 12, false), "0 5 10 ");
  EXPECT_EQ(texts(1e-6, 1, true), "1e-06 1e-05 0.0001 0.001 0.01 0.1 1 ");
  EXPECT_EQ(texts(1, 40, true), "1 2 5 10 20 ");
  EXPECT_EQ(texts(1000001, 1000002, false),
            "1000001 1000001.2 1000001.4 1000001.6 1000001.8 1000002 ");
  for (const auto& [low, high] : {std::pair(5e-324, 1e-323), std::pair(1.0, std::nextafter(1, 2)),
                                  std::pair(-1e308, 1.7e308), std::pair(0.0, 5e-324)}) {
    EXPECT_LT(ticks({low, high}, 5).size(), 20u) << low;
    EXPECT_LT(ticks({std::abs(low) + 5e-324, std::abs(high) + 1e-300, true}, 5).size(), 20u);
  }
}

TEST(Colours, ViridisGrowsLighter) {
  EXPECT_EQ(viridis(0), (Rgb{0x44, 0x01, 0x54}));
  EXPECT_EQ(viridis(1), (Rgb{0xfd, 0xe7, 0x25}));
  EXPECT_EQ(viridis(7), viridis(1));
  EXPECT_EQ(viridis(-7), viridis(0));
  double before = -1;
  for (int i = 0; i <= 64; ++i) {
    const auto colour = viridis(i / 64.0);
    const auto light = 0.2126 * std::pow(colour.red / 255.0, 2.2) +
                       0.7152 * std::pow(colour.green / 255.0, 2.2) +
                       0.0722 * std::pow(colour.blue / 255.0, 2.2);
    EXPECT_GT(light, before) << i;
    before = light;
  }
}

TEST(Draw, EveryPictureHasRoomForItsWords) {
  Plane plane;
  plane.rows = 1;
  plane.columns = 3;
  plane.values = {0, nan, 2};
  plane.row_axis = {"dimension 0", 5, 1};
  plane.column_axis = {"dimension 1", 0, 1};
  plane.scale = colour_scale(plane.values, false, {});
  const std::string very_long(5000, 'w');
  const auto image = draw_plane(plane, {very_long, "\u00e9", {very_long, "note"}});
  EXPECT_LT(image.width(), 1100);
  EXPECT_EQ(cell_colour(plane, 0, 0, 0), viridis(0));
  EXPECT_EQ(cell_colour(plane, 2, 0, 0), viridis(1));
  EXPECT_NE(cell_colour(plane, 1, 0, 0), cell_colour(plane, 1, 4, 0));
  plane.marks = {Mark::same, Mark::no_number, Mark::number};
  EXPECT_NE(cell_colour(plane, 0, 0, 0), viridis(0));
  for (const auto& values : {std::vector<double>{nan}, {1, nan, 2}, {3}, {-infinity, infinity}}) {
    Curve curve;
    curve.values = values;
    for (const bool is_log : {false, true}) {
      curve.scale = colour_scale(values, is_log, {});
      EXPECT_GT(draw_curve(curve, {"t", "", {}}).width(), 500);
    }
  }
}

}  // namespace
}  // namespace cairn::test
