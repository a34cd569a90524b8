// Which task held which slice, as text and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "layout/hdf5/holders.hpp"

namespace cairn::hdf5 {
namespace {

Holders sample() {
  Holders holders;
  holders.tasks = {"/job:worker/replica:0/task:0/device:CPU:0", "/job:a\"b\xff/task:1"};
  holders.tensors["u"] = {{{{0, 0}, {2, 3}}, 1}, {{{2, 0}, {1, 3}}, 0}};
  holders.tensors["a/scalar"] = {{{{}, {}}, 0}};
  holders.tensors[std::string("\xff\x00\n", 3)] = {{{{5}, {0}}, 0}};
  holders.tensors["caf\xc3\xa9"] = {};
  return holders;
}

TEST(Hdf5Holders, ComeBack) {
  auto holders = sample();
  EXPECT_EQ(decode_holders(encode_holders(Holders())), Holders());
  holders.tasks[1] = "/job:b/task:1";  // those are text
  EXPECT_EQ(decode_holders(encode_holders(holders)), holders);
  const auto json = nlohmann::json::parse(encode_holders(sample()));
  EXPECT_EQ(json["tensors"].back()["key_hex"], "ff000a");
  EXPECT_EQ(json["tensors"][0]["slices"][0], nlohmann::json::parse("[[], [], 0]"));
}

TEST(Hdf5Holders, OtherTextIsDamage) {
  const auto one = [](const std::string& key, const std::string& slice) {
    return cat(R"({"tasks": ["t"], "tensors": [{)", key, R"(, "slices": [)", slice, "]}]}");
  };
  EXPECT_NO_THROW(decode_holders(one(R"("key": "u")", "[[0], [1], 0]")));
  EXPECT_NO_THROW(decode_holders(one(R"("key_hex": "7f")", "")));
  for (const auto& text : {std::string(),
                           std::string("[]"),
                           std::string("{"),
                           std::string("{}"),
                           std::string(R"({"tasks": [7], "tensors": []})"),
                           std::string(R"({"tasks": [], "tensors": [7]})"),
                           one(R"("other": "u")", ""),
                           one(R"("key_hex": "7g")", ""),
                           one(R"("key": 7)", ""),
                           one(R"("key": "u")", "[[0], [1], 1]"),
                           one(R"("key": "u")", "[[0], [1], -1]"),
                           one(R"("key": "u")", "[[0], [1, 1], 0]"),
                           one(R"("key": "u")", "[[0], [1]]"),
                           one(R"("key": "u")", "[[-1], [1], 0]"),
                           one(R"("key": "u")", "[[1], [-1], 0]"),
                           one(R"("key": "u")", "[\"a\", [1], 0]"),
                           one(R"("key": "u")", "[[1e29], [1], 0]"),
                           one(R"("key": "u")", "[[0], [1], 1e29]"),
                           one(R"("key": "u")", "[[9223372036854775807], [1], 0]"),
                           one(R"("key": "u")", "7")}) {
    try {
      decode_holders(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::data_loss) << text;
    }
  }
}

}  // namespace
}  // namespace cairn::hdf5
