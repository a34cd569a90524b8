/// Writes a checkpoint with the bundle codec alone, and what is in it, for
/// check_with_tensorflow.py: every dtype plain and sliced, strings, scalars, empty tensors, odd
/// keys, several data files.
///   write_sample PREFIX EXPECTED.json
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "support/bundle_files.hpp"
#include "support/sha256.hpp"

namespace cairn::test {
namespace {

using Json = nlohmann::ordered_json;

class Sample {
 public:
  static constexpr int num_files = 3;

  void add(std::string key, DType dtype, const Dims& shape,
           const std::vector<SliceSpec>& cuts = {}) {
    const auto unit = static_cast<std::int64_t>(dtype_size(dtype));
    std::string whole(static_cast<std::size_t>(unit * element_count(shape)), '\0');
    // TensorFlow keeps any bits, but bool and 4- and 2-bit types may only have these.
    const int mask = dtype == DType::boolean                                 ? 1
                     : dtype == DType::int2 || dtype == DType::uint2         ? 3
                     : dtype >= DType::int4 && dtype <= DType::float4_e2m1fn ? 15
                                                                             : 255;
    for (auto& byte : whole) byte = static_cast<char>(random_() & static_cast<unsigned>(mask));
    StoredTensor tensor{key, dtype, shape, !cuts.empty(), {}, ""};
    auto& expected = describe(tensor);
    expected["nbytes"] = whole.size();
    expected["sha256"] = sha256(whole);
    if (cuts.empty()) place(tensor, Box::whole(shape), {}, whole);
    bool assembles = dtype_assembles_in_tensorflow(dtype);
    std::int64_t covered = 0;
    for (const auto& cut : cuts) {
      const auto bytes = part(whole, unit, shape, cut.box);
      place(tensor, cut.box, cut.dash, bytes);
      covered += cut.box.count();
      expected["slices"].push_back({{"spec", to_string(cut)}, {"sha256", sha256(bytes)}});
    }
    if (!cuts.empty()) {
      expected["covered"] = covered == element_count(shape);
      expected["exact_match_only"] = !assembles;
    }
    tensors_.push_back(tensor);
  }

  void add_strings(std::string key, const Dims& shape, const std::vector<std::string>& values) {
    StoredTensor tensor{std::move(key), DType::string, shape, false, {}, ""};
    const auto encoded = bundle::encode_strings(values);
    place(tensor, Box::whole(shape), {}, encoded.bytes);
    tensor.slices[0].crc32c = encoded.crc32c;
    std::string counted;
    for (const auto& value : values) {
      for (int i = 0; i < 8; ++i)
        counted += static_cast<char>(std::uint64_t{value.size()} >> 8 * i);
      counted += value;
    }
    describe(tensor)["sha256"] = sha256(counted);
    tensors_.push_back(tensor);
  }

  void write(const std::string& prefix, const std::string& expected) {
    std::shuffle(tensors_.begin(), tensors_.end(), random_);
    for (int i = 0; i < num_files; ++i) write_file(data_file(prefix, i, num_files), data_[i]);
    write_file(prefix + ".index", bundle::build_index(num_files, tensors_));
    const auto name = std::filesystem::path(prefix).filename().string();
    const Json checkpoint = {{"prefix", name}, {"num_shards", num_files}, {"tensors", expected_}};
    write_file(expected, Json{{"checkpoints", {checkpoint}}}.dump(1) + "\n");
  }

 private:
  Json& describe(const StoredTensor& tensor) {
    expected_.push_back({{"key", tensor.key},
                         {"dtype", dtype_name(tensor.dtype)},
                         {"dtype_number", static_cast<int>(tensor.dtype)},
                         {"shape", tensor.shape}});
    return expected_.back();
  }

  void place(StoredTensor& tensor, const Box& box, const std::vector<bool>& dash,
             const std::string& bytes) {
    const auto file = static_cast<int>(random_() % num_files);
    auto& data = data_[file];
    const auto size = static_cast<std::int64_t>(bytes.size());
    tensor.slices.push_back(
        {box, dash, file, static_cast<std::int64_t>(data.size()), size, size, crc32c(bytes)});
    data += bytes + std::string(random_() % 3, '\0');
  }

  static std::string part(const std::string& whole, std::int64_t unit, const Dims& shape,
                          const Box& box) {
    const auto strides = row_major_strides(shape);
    std::string bytes;
    Dims at = box.start;
    for (auto n = box.count(); n > 0; --n) {
      std::int64_t position = 0;
      for (std::size_t d = 0; d < at.size(); ++d) position += at[d] * strides[d];
      bytes +=
          whole.substr(static_cast<std::size_t>(unit * position), static_cast<std::size_t>(unit));
      for (auto d = at.size(); d-- > 0;) {
        if (++at[d] < box.end(d)) break;
        at[d] = box.start[d];
      }
    }
    return bytes;
  }

  std::mt19937 random_{42};
  std::string data_[num_files];
  std::vector<StoredTensor> tensors_;
  Json expected_ = Json::array();
};

void run(const std::string& prefix, const std::string& expected) {
  Sample sample;
  const auto cuts = [](std::vector<std::string> specs) {
    std::vector<SliceSpec> parsed;
    for (const auto& spec : specs) parsed.push_back(parse_slice_spec(spec));
    return parsed;
  };
  for (int number = 1; number <= 33; ++number) {
    const auto dtype = dtype_from_number(number);
    if (!dtype || !dtype_size(*dtype)) continue;
    const std::string name(dtype_name(*dtype));
    sample.add("plain/" + name, *dtype, {3, 5});
    sample.add("scalar/" + name, *dtype, {});
    sample.add("empty/" + name, *dtype, {0, 2});
    sample.add("sliced/" + name, *dtype, {4, 6},
               cuts({"4 6 2,2:0,3", "4 6 0,2:0,6", "4 6 2,2:3,3"}));
  }
  sample.add("dash", DType::float32, {4, 6}, cuts({"4 6 0,1:-", "4 6 1,3:-"}));
  sample.add("gaps", DType::float64, {10}, cuts({"10 1,2", "10 7,3"}));
  sample.add("one_slice", DType::float16, {7}, cuts({"7 0,7"}));
  sample.add("deep", DType::int32, Dims(20, 2), {});
  sample.add("long", DType::int32, {100000}, {});
  std::vector<std::string> many;
  for (int i = 0; i < 300; ++i) many.push_back(cat("300 ", i, ",1"));
  sample.add("many_slices", DType::float32, {300}, cuts(many));
  sample.add("k\xc3\xa9y with / . and blanks", DType::uint8, {1});
  sample.add_strings("strings/scalar", {}, {std::string("a\0b", 3)});
  sample.add_strings("strings/grid", {2, 3},
                     {"", "b", std::string(5000, 'c'), "d", "", "\xff\xfe"});
  sample.add_strings("strings/none", {0}, {});
  const CheckpointMeta meta{7, 1, 1.5, "0.1.0", 2, "by task", "uuid"};
  sample.add_strings(std::string(bundle::meta_key), {}, {bundle::encode_meta(meta)});
  sample.write(prefix, expected);

  // Our own reader checks the file before TensorFlow does.
  const auto contents = open_bundle(prefix);
  for (const auto& tensor : contents.tensors) {
    if (tensor.key != "gaps") read_tensor(contents, tensor);
  }
}

}  // namespace
}  // namespace cairn::test

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: write_sample PREFIX EXPECTED.json\n";
    return 2;
  }
  try {
    cairn::test::run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
