#include "store/commit/names.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "io/expect_error.hpp"
#include "support/rounds.hpp"

namespace cairn::commit {
namespace {

using Kind = ParsedName::Kind;

const std::string uuid = "0123456789abcdef0123456789abcdef";
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

ParsedName expected(Kind kind, std::int64_t step = -1, std::int64_t number = -1,
                    std::int64_t count = -1, std::string id = "") {
  ParsedName parsed;
  parsed.kind = kind;
  parsed.step = step;
  parsed.number = number;
  parsed.count = count;
  parsed.uuid = std::move(id);
  return parsed;
}

ParsedName direct(std::int64_t step, std::string id) {
  auto parsed = expected(Kind::temp_directory, step, -1, -1, std::move(id));
  parsed.direct = true;
  return parsed;
}

TEST(Names, AreTensorFlows) {
  EXPECT_EQ(prefix_name("ckpt", 12), "ckpt-12");
  EXPECT_EQ(index_name("ckpt-12"), "ckpt-12.index");
  EXPECT_EQ(hdf5_name("ckpt-12"), "ckpt-12.h5");
  EXPECT_EQ(data_name("ckpt-12", 3, 16), "ckpt-12.data-00003-of-00016");
  EXPECT_EQ(data_name("a", 123456, 1234567), "a.data-123456-of-1234567");
  EXPECT_EQ(temp_directory_name("ckpt-12", uuid), "ckpt-12_temp_" + uuid);
  EXPECT_EQ(part_directory_name("ckpt-12", uuid), "ckpt-12.part_" + uuid);
  EXPECT_EQ(part_name(0, 2), "part-00000-of-00002");
  EXPECT_EQ(record_name(1, 2), "record-00001-of-00002");
  EXPECT_EQ(owner_temporary_name(uuid), "owner.tmp-" + uuid);
}

TEST(Names, BuildersRefuseWhatCannotBe) {
  EXPECT_CAIRN_ERROR(prefix_name("a", -1), Code::internal, "step -1");
  EXPECT_CAIRN_ERROR(data_name("a-1", 2, 2), Code::internal, "number 2 of 2");
  EXPECT_CAIRN_ERROR(data_name("a-1", -1, 2), Code::internal, "number -1 of 2");
  EXPECT_CAIRN_ERROR(part_name(0, 0), Code::internal, "number 0 of 0");
  EXPECT_CAIRN_ERROR(temp_directory_name("a-1", "xyz"), Code::internal, "uuid 'xyz'");
  EXPECT_CAIRN_ERROR(part_directory_name("a-1", uuid + "0"), Code::internal, "uuid '0123");
  EXPECT_CAIRN_ERROR(owner_temporary_name(""), Code::internal, "uuid ''");
}

TEST(Names, ParseFixedOnes) {
  EXPECT_EQ(parse_name("checkpoint", "a"), expected(Kind::state_file));
  EXPECT_EQ(xdmf_name("a"), "a.xdmf");
  EXPECT_EQ(parse_name("a.xdmf", "a"), expected(Kind::xdmf));
  EXPECT_EQ(parse_name("a.xdmf", Naming("a", false)), expected(Kind::xdmf));
  EXPECT_EQ(xdmf_temporary_name("a", uuid), "a.xdmf.tmp_0123456789abcdef");
  EXPECT_EQ(parse_name("a.xdmf.tmp_0123456789abcdef", "a"), expected(Kind::xdmf_temporary));
  for (const char* other : {"a-1.xdmf", "b.xdmf", "a.xdmf.tmp", "a.xdmf.tmp_0123456789abcdeg",
                            "a.xdmf.tmp_0123456789abcdef0", "a.xdmfx"}) {
    EXPECT_EQ(parse_name(other, "a"), expected(Kind::foreign)) << other;
  }
  EXPECT_EQ(state_temporary_name("a"), "checkpoint.tmp-a");
  EXPECT_EQ(parse_name("checkpoint.tmp-a", "a"), expected(Kind::state_temporary));
  const std::string uuid = "0123456789abcdef0123456789abcdef";
  EXPECT_EQ(state_temporary_name("a", uuid), "checkpoint.tmp-a_0123456789abcdef");
  EXPECT_EQ(parse_name("checkpoint.tmp-a_0123456789abcdef", "a"), expected(Kind::state_temporary));
  EXPECT_EQ(parse_name("checkpoint.tmp-a_0123456789abcde", "a"), expected(Kind::foreign));
  EXPECT_EQ(parse_name("checkpoint.tmp-a_0123456789abcdeg", "a"), expected(Kind::foreign));
  EXPECT_EQ(parse_name("checkpoint.tmp-a", "b"), expected(Kind::foreign)) << "in use, perhaps";
  EXPECT_EQ(parse_name("checkpoint.tmp-a", Naming("a", false)), expected(Kind::foreign));
  EXPECT_EQ(parse_name("checkpoint.tmp", "a"), expected(Kind::state_temporary)) << "as once";
  EXPECT_EQ(parse_name(".cairn", "a"), expected(Kind::private_directory));
  EXPECT_EQ(parse_temp_name("index"), expected(Kind::prepared_index));
  EXPECT_EQ(parse_temp_name("old-index"), expected(Kind::old_index));
  EXPECT_EQ(parse_temp_name("part.h5"), expected(Kind::hdf5_part));
  EXPECT_EQ(parse_name("a-7.h5", "a"), expected(Kind::hdf5, 7));
  EXPECT_EQ(parse_private_name("no-atomic-rename"), expected(Kind::no_rename));
  EXPECT_EQ(parse_private_name("lock"), expected(Kind::lock));
  EXPECT_EQ(parse_private_name("owner"), expected(Kind::owner));
  EXPECT_EQ(parse_private_name("damaged"), expected(Kind::damaged_directory));
  EXPECT_EQ(parse_private_name("pinned"), expected(Kind::pinned_directory));
  EXPECT_EQ(parse_private_name("pinned.lock"), expected(Kind::pin_lock));
  EXPECT_EQ(parse_private_name("saved"), expected(Kind::saved_directory));
  EXPECT_EQ(parse_private_name("repair"), expected(Kind::repair_directory));
  EXPECT_EQ(parse_private_name("pieces"), expected(Kind::pieces_directory));
  EXPECT_EQ(parse_private_name("owner.tmp-" + uuid),
            expected(Kind::owner_temporary, -1, -1, -1, uuid));
}

TEST(Names, OfTheSharedPointersThatMpiLeavesBesideItsFiles) {
  const std::string uuid = "0123456789abcdef0123456789abcdef";
  const auto pointer_of = [](const std::string& file) {
    return parse_temp_name(file + "-2156986369-471.lock");
  };
  EXPECT_EQ(pointer_of("part.h5"), expected(Kind::file_pointer));
  EXPECT_EQ(pointer_of(part_name(1, 2)), expected(Kind::file_pointer));
  EXPECT_EQ(pointer_of(staged_name(uuid, part_name(1, 2))),
            expected(Kind::file_pointer, -1, -1, -1, uuid));
  for (const char* other : {"other", "index", ""}) {
    EXPECT_EQ(pointer_of(other), expected(Kind::foreign)) << other;
  }
  for (const char* other : {"part.h5.lock", "part.h5-1.lock", "part.h5-1-a.lock", "-1-2.lock",
                            "part.h5-1-2.lock-1-2.lock"}) {
    EXPECT_EQ(parse_temp_name(other), expected(Kind::foreign)) << other;
  }
}

TEST(Names, OfWhatAnOwnerSavesFrom) {
  const auto staging = staging_directory_name("a", uuid);
  EXPECT_EQ(staging, "a-9223372036854775807_temp_" + uuid);
  EXPECT_TRUE(is_staging(parse_name(staging, "a")));
  const auto kept = kept_directory_name("a-9223372036854775807", uuid, uuid);
  EXPECT_TRUE(is_staging(parse_name(kept, "a"))) << "a successor's";
  EXPECT_FALSE(is_staging(parse_name("a-1_temp_" + uuid, "a")));
  EXPECT_FALSE(is_staging(parse_name(part_directory_name("a-9223372036854775807", uuid), "a")));
  EXPECT_CAIRN_ERROR(staging_directory_name(Naming("a", false), uuid), Code::internal, "number");
  EXPECT_EQ(parse_temp_name(staged_name(uuid, part_name(1, 2))),
            expected(Kind::part, -1, 1, 2, uuid));
  EXPECT_EQ(parse_temp_name(staged_part_name(uuid, 1, 2, false)),
            parse_temp_name(staged_name(uuid, part_name(1, 2))));
  EXPECT_EQ(parse_temp_name(staged_part_name(uuid, 1, 2, true)),
            parse_temp_name(staged_name(uuid, part_name(1, 2))));
  const auto record = parse_temp_name(staged_record_name(1, 3, 4));
  EXPECT_EQ(record.kind, ParsedName::Kind::record);
  EXPECT_EQ(record.slot, 1);
  EXPECT_EQ(record.number, 3);
  EXPECT_EQ(parse_temp_name(record_name(3, 4)).slot, -1);
  EXPECT_EQ(parse_temp_name(staged_name(uuid, "index")),
            expected(Kind::prepared_index, -1, -1, -1, uuid));
  EXPECT_EQ(parse_temp_name(staged_name(uuid, "state")),
            expected(Kind::state_temporary, -1, -1, -1, uuid));
  EXPECT_EQ(retired_name(17), "retired-17");
  EXPECT_EQ(parse_temp_name("retired-17"), expected(Kind::retired_index, 17));
  for (const std::string entry : {"retired-", "retired-07", "retired-1x", "retired--1"}) {
    EXPECT_EQ(parse_temp_name(entry), ParsedName()) << entry;
  }
  for (const std::string name : {"", "part-00002-of-00002", "old-index", "record-00000-of-00001"}) {
    EXPECT_EQ(parse_temp_name(uuid + "." + name), ParsedName()) << name;
  }
}

TEST(Names, OfWhatAnOwnerHasInItsHands) {
  const auto token = uuid.substr(0, 16);
  const auto kept = kept_directory_name("a-17", uuid, uuid);
  EXPECT_EQ(kept, "a-17_kept_" + uuid + "_" + token);
  auto parsed = expected(Kind::temp_directory, 17, -1, -1, uuid);
  parsed.keeper = token;
  EXPECT_EQ(parse_name(kept, "a"), parsed);
  EXPECT_EQ(parse_name(kept + "0", "a"), ParsedName());
  EXPECT_EQ(parse_name("a-17_kept_" + uuid, "a"), ParsedName());
  EXPECT_CAIRN_ERROR(kept_directory_name("a-17", uuid, "0123"), Code::internal, "token '0123'");
  for (const std::string entry : {"a-17.index", "a-17.h5", "a-17.data-00000-of-00002"}) {
    const auto aside = aside_name(entry, uuid);
    EXPECT_EQ(aside, entry + ".aside_" + token);
    EXPECT_EQ(parse_aside_name(aside, "a"), entry);
    EXPECT_EQ(parse_name(aside, "a"), ParsedName());
    for (const auto& other : {aside + "0", "b" + aside, entry, aside.substr(0, aside.size() - 1)}) {
      EXPECT_FALSE(parse_aside_name(other, "a")) << other;
    }
  }
  EXPECT_FALSE(parse_aside_name("checkpoint.aside_" + token, "a"));
  EXPECT_EQ(sequences_name(1048576), "sequences.1048576");
  EXPECT_EQ(parse_private_name("sequences.1048576"), expected(Kind::sequences, -1, 1048576));
  EXPECT_EQ(parse_private_name("sequences.0012"), ParsedName());
  EXPECT_EQ(room_name(1), "room.1");
  EXPECT_EQ(parse_private_name("room.1"), expected(Kind::room, -1, 1));
  for (const char* other : {"room.", "room.2", "room.00", "room.1x"}) {
    EXPECT_EQ(parse_private_name(other), ParsedName()) << other;
  }
  EXPECT_EQ(parse_private_name("sequences."), ParsedName());
}

TEST(Names, RecycledFiles) {
  EXPECT_EQ(parse_private_name("recycled"), expected(Kind::recycled_directory));
  EXPECT_EQ(parse_private_name(runs_name("ckpt")), expected(Kind::runs));
  EXPECT_EQ(parse_private_name("new-runs.ckpt"), expected(Kind::runs_temporary));
  EXPECT_EQ(parse_private_name("marked"), expected(Kind::marked_directory));
  EXPECT_EQ(parse_private_name("ended"), expected(Kind::ended));
  EXPECT_EQ(recycled_name("a", 3), "steps.a.00003");
  EXPECT_EQ(recycled_name(Naming("a.1", false), 123456), "single.a.1.123456");
  for (const Naming& naming :
       {Naming("a"), Naming("a", false), Naming("a.00001"), Naming("b.c-1")}) {
    const auto parsed = parse_recycled_name(recycled_name(naming, 42));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->naming.name, naming.name);
    EXPECT_EQ(parsed->naming.numbered, naming.numbered);
    EXPECT_EQ(parsed->number, 42);
  }
  for (const char* entry : {"", "steps.", "steps.a", "steps.a.", "steps.a.0001", "steps.a.000001",
                            "steps.a.00001x", "steps..00001", "steps.00001", "Steps.a.00001",
                            "a.00001", "single.a.-0001", "steps.a.99999999999999999999"}) {
    EXPECT_FALSE(parse_recycled_name(entry)) << entry;
  }
  EXPECT_CAIRN_ERROR(recycled_name("a", -1), Code::internal, "data file -1");
}

TEST(Names, NeighboursAreForeign) {
  for (const std::string entry : {"",
                                  "a",
                                  "a-",
                                  "a-1",
                                  "a-1.",
                                  "a-1.index ",
                                  "a-1.Index",
                                  "a-1.h5x",
                                  "a-1.hdf5",
                                  "a-01.h5",
                                  "a-01.index",
                                  "a--1.index",
                                  "a-+1.index",
                                  "a-1x.index",
                                  "a-1.index.tmp",
                                  "xa-1.index",
                                  "A-1.index",
                                  "a-9223372036854775808.index",
                                  "a-1.data-0000-of-00001",
                                  "a-1.data-00000-of-0001",
                                  "a-1.data-000000-of-00001",
                                  "a-1.data-00000-of-000001",
                                  "a-1.data-00001-of-00001",
                                  "a-1.data-00000-of-00000",
                                  "a-1.data-00000-of-00001.tempstate123",
                                  "a-1.data-00000-of-99999999999999999999",
                                  "a-1.data-00000of00001",
                                  "a-1.data-",
                                  "a-1.data-00000-of-",
                                  "a-1_temp_",
                                  "a-1_temp_0123",
                                  "a-1.part_",
                                  "a-1.part_0123",
                                  "a-1.part",
                                  "a-1part_0123456789abcdef0123456789abcdef",
                                  "checkpoint.tmp1",
                                  "checkpoint-1",
                                  "Checkpoint",
                                  ".cairn2",
                                  "cairn",
                                  "a.index",
                                  "a.data-00000-of-00001",
                                  "lock",
                                  "index"}) {
    EXPECT_EQ(parse_name(entry, "a"), ParsedName{}) << entry;
  }
  EXPECT_EQ(parse_name("a-1_temp_0123456789ABCDEF0123456789abcdef", "a"), ParsedName{});
  EXPECT_EQ(parse_name("a-1_temp_" + uuid + "0", "a"), ParsedName{});
  EXPECT_EQ(parse_name("a-1.part_0123456789ABCDEF0123456789abcdef", "a"), ParsedName{});
  EXPECT_EQ(parse_name("a-1.part_" + uuid + "-index", "a"), ParsedName{});
  EXPECT_EQ(parse_name("a-1_temp_" + uuid + "/part", "a"), ParsedName{});
  for (const std::string entry :
       {"", "part-00000-of-00001x", "part-0-of-1", "record-00001-of-00001", "index.tmp", "Index",
        "part", "parts-00000-of-00001"}) {
    EXPECT_EQ(parse_temp_name(entry), ParsedName{}) << entry;
  }
  for (const std::string entry : {"", "owner.tmp", "owner.tmp-", "owner.tmp-xyz", "lock1"}) {
    EXPECT_EQ(parse_private_name(entry), ParsedName{}) << entry;
  }
}

TEST(Names, OneNameMayBeginAnother) {
  EXPECT_EQ(parse_name("a-1-5.index", "a"), ParsedName{});
  EXPECT_EQ(parse_name("a-1-5.index", "a-1"), expected(Kind::index, 5));
  EXPECT_EQ(parse_name("a-1.index", "a"), expected(Kind::index, 1));
  EXPECT_EQ(parse_name("a-1.index", "a-1"), ParsedName{});
  EXPECT_EQ(parse_name("a-12.index", "a-1"), ParsedName{});
  const Naming alone("a", false);
  EXPECT_EQ(prefix_name(alone, 0), "a");
  EXPECT_EQ(parse_name("a.index", alone), expected(Kind::index, 0));
  EXPECT_EQ(parse_name("a.index", "a"), ParsedName{});
  EXPECT_EQ(parse_name("a-1.index", alone), ParsedName{});
  EXPECT_EQ(parse_name("a-1.index", Naming("a-1", false)), expected(Kind::index, 0));
  EXPECT_EQ(parse_prefix("a", alone), 0);
  EXPECT_EQ(parse_prefix("a-1", alone), std::nullopt);
  EXPECT_EQ(parse_prefix("a-1-5", "a-1"), 5);
  EXPECT_EQ(parse_prefix("a-1-5", "a"), std::nullopt);
  EXPECT_EQ(parse_prefix("a-1", "a-1"), std::nullopt);
  EXPECT_EQ(parse_prefix("a-05", "a"), std::nullopt);
  EXPECT_EQ(parse_prefix("a-1.index", "a"), std::nullopt);
}

// Each name that is built is parsed to the parts from which it was built.
TEST(Names, ParseIsTheInverseOfBuild) {
  const std::vector<std::string> names = {
      "a",    "a-1",        "a-1-",      "ckpt",  "x y.z",          "é",         "7", "a-",
      "a--2", "model.data", "a-1.index", "index", "x_temp_" + uuid, "checkpoint"};
  std::mt19937_64 random(1);
  const auto any_number = [&] {
    const auto shift = random() % 63;
    return static_cast<std::int64_t>((random() >> 1) >> shift);
  };
  for (int i = 0; i < test::rounds(20000); ++i) {
    const auto& name = names[random() % names.size()];
    const auto step = i == 0 ? 0 : i == 1 ? largest : any_number();
    const auto prefix = prefix_name(name, step);
    const auto count = std::max<std::int64_t>(any_number(), 1);
    const auto number = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
    const auto id = new_uuid();
    const std::vector<std::pair<std::string, ParsedName>> built = {
        {index_name(prefix), expected(Kind::index, step)},
        {data_name(prefix, number, count), expected(Kind::data, step, number, count)},
        {temp_directory_name(prefix, id), expected(Kind::temp_directory, step, -1, -1, id)},
        {part_directory_name(prefix, id), direct(step, id)}};
    for (const auto& [entry, meaning] : built) {
      EXPECT_EQ(parse_name(entry, name), meaning) << entry;
      for (const auto& other : names) {
        if (other != name) {
          EXPECT_EQ(parse_name(entry, other).kind, Kind::foreign) << entry << " as " << other;
        }
      }
    }
    EXPECT_EQ(parse_prefix(prefix, name), step);
    EXPECT_EQ(parse_temp_name(part_name(number, count)), expected(Kind::part, -1, number, count));
    EXPECT_EQ(parse_temp_name(record_name(number, count)),
              expected(Kind::record, -1, number, count));
  }
}

// What is parsed is what would be built: randomly edited names are foreign or round-trip.
TEST(Names, BuildIsTheInverseOfParse) {
  std::mt19937_64 random(2);
  const std::string characters = "0123456789-._acdeftmpinxof ";
  const std::vector<std::string> seeds = {"a-17.index", "a-17.data-00003-of-00012",
                                          "a-17_temp_" + uuid, "a-17.part_" + uuid};
  int good = 0;
  for (int i = 0; i < test::rounds(60000); ++i) {
    std::string entry = seeds[random() % seeds.size()];
    for (auto edits = random() % 3; edits-- > 0;) {
      const auto at = random() % entry.size();
      const char c = characters[random() % characters.size()];
      switch (random() % 3) {
        case 0:
          entry[at] = c;
          break;
        case 1:
          entry.insert(at, 1, c);
          break;
        default:
          entry.erase(at, 1);
      }
    }
    const auto parsed = parse_name(entry, "a");
    if (parsed.kind == Kind::foreign) continue;
    ++good;
    const auto prefix = prefix_name("a", parsed.step);
    const auto again = parsed.kind == Kind::index  ? index_name(prefix)
                       : parsed.kind == Kind::data ? data_name(prefix, parsed.number, parsed.count)
                       : parsed.direct             ? part_directory_name(prefix, parsed.uuid)
                                                   : temp_directory_name(prefix, parsed.uuid);
    EXPECT_EQ(again, entry);
  }
  EXPECT_GT(good, test::rounds(20000));
}

TEST(Names, UuidsDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto id = new_uuid();
    EXPECT_TRUE(is_uuid(id)) << id;
    EXPECT_TRUE(seen.insert(id).second);
  }
}

TEST(Names, CheckpointNames) {
  for (const std::string name : {"ckpt", "a-1", "x.y", "run 7", "é", "7", "-"}) {
    EXPECT_NO_THROW(check_checkpoint_name(name)) << name;
  }
  EXPECT_NO_THROW(check_checkpoint_name(std::string(180, 'x')));
  const auto refused = [](const std::string& name, const std::string& reason) {
    EXPECT_CAIRN_ERROR(check_checkpoint_name(name), Code::invalid_argument, reason);
  };
  refused("", "checkpoints cannot be called '' (the name is empty). Use letters");
  refused(".hidden", "begin with '.'");
  refused("a/b", "it contains '/'");
  for (const char* name : {"a*", "a?", "[a", "a]", "a\\b"}) {
    refused(name, "TensorFlow finds the files by pattern");
  }
  refused("a\nb", "control character");
  refused("a\x7f", "control character");
  refused(std::string("a\0b", 3), "control character");
  refused("a\xff", "not UTF-8");
  refused(std::string(181, 'x'), "it has 181 bytes, at most 180");
}

}  // namespace
}  // namespace cairn::commit
