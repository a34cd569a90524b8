// The tool needs no MPI: libhdf5, which needs it, is loaded with a module.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "base/text.hpp"
#include "cli/tool.hpp"
#include "support/says.hpp"

namespace cairn::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* golden = CAIRN_GOLDEN_DIR "/sliced_merged/ckpt";

// The libraries that the dynamic linker would load for it, one on each line.
std::string libraries_of(const std::string& program) {
  setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
  const auto ran = run_program({program});
  unsetenv("LD_TRACE_LOADED_OBJECTS");
  EXPECT_EQ(ran.status, 0) << ran.err;
  return ran.out;
}

TEST(Module, TheToolLoadsNeitherMpiNorHdf5) {
  EXPECT_THAT(libraries_of(CAIRN_TOOL),
              AllOf(HasSubstr("libstdc++"), Not(HasSubstr("libmpi")), Not(HasSubstr("libhdf5")),
                    Not(HasSubstr("libcairn"))));
}

TEST(Module, WithoutItOnlyWhatNeedsLibhdf5Fails) {
  const ScratchDirectory scratch;
  const auto at = [&](const char* name) { return (scratch.path() / name).string(); };
  fs::create_directory(at("bin"));
  fs::copy_file(CAIRN_TOOL, at("bin/cairn"));
  ASSERT_EQ(run_tool({"convert", golden, at("x.h5")}).status, 0);

  auto ran = run_program({at("bin/cairn"), "convert", golden, at("y.h5")});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, AllOf(test::Says("module for HDF5"), HasSubstr(scratch.path().string()),
                             HasSubstr("libcairn_hdf5.so"), HasSubstr("Install")));
  EXPECT_FALSE(fs::exists(at("y.h5")));
  EXPECT_EQ(run_program({at("bin/cairn"), "verify", at("x.h5")}).status, 0);
  EXPECT_EQ(run_program({at("bin/cairn"), "show", at("x.h5")}).status, 0);
  ran = run_program({at("bin/cairn"), "convert", at("x.h5"), at("back")});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(run_program({at("bin/cairn"), "diff", golden, at("back")}).status, 0);
}

// libhdf5 is not safe with hostile files, so the tool never gives it a file that the tool has not
// laid out itself: it needs no module for such a file, and finds no checkpoint in it.
TEST(Module, IsNotAskedAboutFilesOfOthers) {
  const ScratchDirectory scratch;
  const auto at = [&](const char* name) { return (scratch.path() / name).string(); };
  fs::create_directory(at("bin"));
  fs::copy_file(CAIRN_TOOL, at("bin/cairn"));
  ASSERT_EQ(run_tool({"convert", golden, at("x.h5")}).status, 0);
  auto bytes = read_bytes(at("x.h5"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);  // of Cairn's seal, which HDF5 ignores
  write_bytes(at("x.h5"), bytes);
  const std::vector<std::vector<std::string>> calls = {{"show", at("x.h5")},
                                                       {"verify", at("x.h5")},
                                                       {"cat", at("x.h5"), "s"},
                                                       {"diff", at("x.h5"), golden},
                                                       {"convert", at("x.h5"), at("y")},
                                                       {"stats", at("x.h5")},
                                                       {"convert", at("x"), at("y")},
                                                       {"show", at("x")}};
  for (const auto& call : calls) {
    SCOPED_TRACE(call.front());
    std::vector<std::string> words = {at("bin/cairn")};
    words.insert(words.end(), call.begin(), call.end());
    const auto ran = run_program(words);
    EXPECT_NE(ran.status, 0);
    EXPECT_THAT(ran.out + ran.err, AllOf(HasSubstr("x"), Not(HasSubstr("module"))));
  }
  EXPECT_FALSE(fs::exists(at("y.index")));
}

// Several processes that do not know of each other would write the same files.
TEST(Module, WithoutItSeveralProcessesAreRefused) {
  const ScratchDirectory scratch;
  const auto at = [&](const char* name) { return (scratch.path() / name).string(); };
  fs::create_directory(at("bin"));
  fs::copy_file(CAIRN_TOOL, at("bin/cairn"));
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  const auto ran = run_program({at("bin/cairn"), "convert", golden, at("x")});
  const auto alone = run_program({at("bin/cairn"), "convert", "--alone", golden, at("y")});
  unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("MPI"), test::Says("one process only")));
  EXPECT_FALSE(fs::exists(at("x.index")));
  EXPECT_EQ(alone.status, 0) << alone.err;
}

TEST(Module, ThatIsNoneIsNamed) {
  const ScratchDirectory scratch;
  const auto program = scratch.path() / "bin" / "cairn";
  const auto module = (program.parent_path() / CAIRN_MODULE).lexically_normal();
  fs::create_directory(program.parent_path());
  fs::create_directories(module.parent_path());
  fs::copy_file(CAIRN_TOOL, program);
  write_bytes(module, "no library");
  const auto file = (scratch.path() / "x.h5").string();
  auto ran = run_program({program, "convert", golden, file});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr(module.string()));
  fs::remove(module);
  fs::copy_file(fs::path(CAIRN_TOOL).parent_path() / CAIRN_MODULE, module);
  ran = run_program({program, "convert", golden, file});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(run_program({program, "diff", golden, file}).status, 0);
}

}  // namespace
}  // namespace cairn::test
