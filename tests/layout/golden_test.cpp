/// Checkpoints that TensorFlow wrote, read back bit by bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/bundle/index.hpp"
#include "support/bundle_files.hpp"
#include "support/rounds.hpp"
#include "support/sha256.hpp"

namespace cairn::test {
namespace fs = std::filesystem;
using Json = nlohmann::json;

// Prefixes of all checkpoints of all themes. Their contents are parsed by the tests alone, because
// each test is a process.
const std::vector<fs::path>& goldens() {
  static const auto all = [] {
    std::vector<fs::path> found;
    for (const auto& folder : fs::directory_iterator(CAIRN_GOLDEN_DIR)) {
      const auto theme = folder.path().filename();
      if (!folder.is_directory() || theme == "bad" || theme == "state_files") continue;
      for (const auto& file : fs::directory_iterator(folder)) {
        if (file.path().extension() == ".index")
          found.push_back(file.path().parent_path() / file.path().stem());
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }();
  return all;
}

Json expected_of(const fs::path& prefix) {
  const auto expected = Json::parse(read_file(prefix.parent_path() / "expected.json"));
  for (const auto& checkpoint : expected["checkpoints"]) {
    if (checkpoint["prefix"] == prefix.filename().string()) return checkpoint;
  }
  throw std::runtime_error("expected.json lacks " + prefix.string());
}

std::string test_name(const testing::TestParamInfo<fs::path>& info) {
  auto name =
      cat(info.param.parent_path().filename().string(), '_', info.param.filename().string());
  for (auto& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

std::string key_of(const Json& tensor) {
  if (tensor.contains("key_hex")) return from_hex(tensor["key_hex"].get<std::string>());
  return tensor["key"].get<std::string>();
}

// Compares elements with those in expected.json.
void expect_elements(const std::string& bytes, const Json& expected) {
  EXPECT_EQ(sha256(bytes), expected["sha256"].get<std::string>());
  if (expected.contains("nbytes")) {
    EXPECT_EQ(bytes.size(), expected["nbytes"]);
  }
  if (expected.contains("hex")) {
    EXPECT_EQ(to_hex(bytes), expected["hex"].get<std::string>());
  }
}

class GoldenTest : public testing::TestWithParam<fs::path> {
 protected:
  const Json golden = expected_of(GetParam());
  CheckpointContents contents = open_bundle(GetParam());
};

TEST_P(GoldenTest, keys_and_files) {
  std::vector<std::string> keys, found;
  for (const auto& tensor : golden["tensors"]) keys.push_back(key_of(tensor));
  for (const auto& tensor : contents.tensors) found.push_back(tensor.key);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(found, keys);
  EXPECT_EQ(contents.num_files, golden["num_shards"]);
}

TEST_P(GoldenTest, every_tensor_and_slice_to_the_bit) {
  const auto& tensors = golden["tensors"];
  for (std::size_t n = 0; n<tensors.size(); n += tensors.size()> 200 ? test::stride(41) : 1) {
    const auto& expected = tensors[n];
    SCOPED_TRACE(expected.dump().substr(0, 200));
    const auto* tensor = contents.find(key_of(expected));
    ASSERT_TRUE(tensor);
    EXPECT_EQ(tensor->problem, "");
    EXPECT_EQ(static_cast<int>(tensor->dtype), expected["dtype_number"]);
    EXPECT_EQ(dtype_name(tensor->dtype), expected["dtype"].get<std::string>());
    EXPECT_EQ(tensor->shape, expected["shape"].get<Dims>());
    EXPECT_EQ(tensor->sliced, expected.contains("slices"));
    if (expected.contains("sha256")) {
      expect_elements(read_tensor(contents, *tensor), expected);
    } else if (tensor->dtype == DType::variant) {
      EXPECT_THROW(read_tensor(contents, *tensor), Error);
    } else {
      ASSERT_FALSE(expected["covered"]);
      try {
        read_tensor(contents, *tensor);
        ADD_FAILURE() << "a tensor with gaps was read";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::coverage);
      }
    }
    if (!tensor->sliced) continue;
    const auto& slices = expected["slices"];
    if (slices.is_number()) {
      EXPECT_EQ(tensor->slices.size(), slices);
      continue;
    }
    ASSERT_EQ(tensor->slices.size(), slices.size());
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const auto& slice = tensor->slices[i];
      EXPECT_EQ(to_string(SliceSpec{tensor->shape, slice.box, slice.dash, false}),
                slices[i]["spec"].get<std::string>());
      expect_elements(read_slice(contents, *tensor, slice), slices[i]);
    }
  }
}

TEST_P(GoldenTest, own_index_of_the_same_contents_says_the_same) {
  const auto again = bundle::parse_index(bundle::build_index(contents.num_files, contents.tensors));
  ASSERT_EQ(again.tensors.size(), contents.tensors.size());
  auto expected = contents;
  expected.big_endian = false;
  for (auto& tensor : expected.tensors) {
    std::sort(tensor.slices.begin(), tensor.slices.end(),
              [](const auto& a, const auto& b) { return a.box < b.box; });
    // A single slice that is the whole tensor becomes plain.
    if (tensor.slices.size() == 1 && tensor.slices[0].box == Box::whole(tensor.shape)) {
      tensor.sliced = false;
    }
  }
  EXPECT_EQ(dump(again), dump(expected));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, testing::ValuesIn(goldens()), test_name);

TEST(GoldenList, is_all_there) {
  std::size_t tensors = 0, sliced = 0, same_bytes = 0;
  for (const auto& prefix : goldens()) {
    const auto contents = open_bundle(prefix);
    tensors += contents.tensors.size();
    bool plain = true;
    for (const auto& tensor : contents.tensors) {
      sliced += tensor.sliced;
      plain = plain && !tensor.sliced;
    }
    // If TensorFlow wrote one block of plain entries, our file is the same to the byte.
    const auto bytes = read_file(prefix.string() + ".index");
    const auto theme = prefix.parent_path().filename();
    if (!plain || theme == "hand_made" || theme == "snappy_index_case" || bytes.size() > 262144) {
      continue;
    }
    EXPECT_EQ(to_hex(bundle::build_index(contents.num_files, contents.tensors)), to_hex(bytes))
        << prefix;
    ++same_bytes;
  }
  EXPECT_EQ(goldens().size(), CAIRN_GOLDENS);
  EXPECT_GE(tensors, 3500u);
  EXPECT_EQ(sliced, 72u);
  EXPECT_GE(same_bytes, 10u);
}

TEST(Sha256, of_known_texts) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace cairn::test
