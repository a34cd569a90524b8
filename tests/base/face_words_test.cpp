// The library's errors in the words of each language interface.
#include "base/face_words.hpp"

#include <gtest/gtest.h>

namespace cairn {
namespace {

std::string all_of(std::string_view text) {
  const auto c = in_words_of(Face::c, text);
  EXPECT_EQ(in_words_of(Face::cpp, text), text);
  return c + " | " + in_words_of(Face::fortran, c, Face::c) + " | " +
         in_words_of(Face::python, text);
}

TEST(FaceWords, FunctionsAreThoseOfTheFace) {
  EXPECT_EQ(
      all_of("Rows are given with cairn::ragged, others with cairn::rank_private."),
      "Rows are given with cairn_state_add_ragged(), others with cairn_state_add_private(). | "
      "Rows are given with state%add_rows(), others with state%add_private(). | "
      "Rows are given with cairn.ragged, others with cairn.private.");
  EXPECT_EQ(
      all_of("Restore on 3 ranks, give cairn::rank_private a deal, make it optional, or not."),
      "Restore on 3 ranks, give cairn_state_add_private() a deal or `optional`, or not. | "
      "Restore on 3 ranks, give state%add_private() optional_=.true., or not. | "
      "Restore on 3 ranks, give cairn.private optional=True, or not.");
  EXPECT_EQ(all_of("Give several slices with patches()."),
            "Give several slices with cairn_state_add_patches(). | "
            "Give several slices with state%add_patch(). | "
            "Give several slices with cairn.patches.");
  EXPECT_EQ(in_words_of(Face::python, "Give several slices of one tensor with patches()."),
            "Give each value a key of its own: a '/' in a key makes the path that a dict in a dict "
            "makes, and 1 and '1' are one key.");
  EXPECT_EQ(all_of("CheckpointManager::save_async was called"),
            "cairn_manager_save_async was called | manager%save_async was called | "
            "manager.save_async was called");
}

TEST(FaceWords, OptionsHaveTheNameThatAllFacesSet) {
  const auto python = [](std::string_view text) { return in_words_of(Face::python, text); };
  EXPECT_EQ(python("or set ManagerOptions::overwrite."), "or set 'overwrite'.");
  EXPECT_EQ(python("Retention::last is -1"), "'keep.last' is -1");
  EXPECT_EQ(python("(TierOptions::node, CAIRN_NODE)"), "('tier.node', CAIRN_NODE)");
  EXPECT_EQ(python("set IdOptions::rows to 0"), "set 'rows' to 0");
  EXPECT_EQ(python("is meant: RestoreOptions::unused = Unused::silent"),
            "is meant: 'unused' = 'silent'");
  EXPECT_EQ(python("or set RestartOptions::verify_first."), "or set 'restore.verify_first'.");
  EXPECT_EQ(python("with SaveOptions::reach = Reach::home."), "with 'reach' = 'home'.");
  EXPECT_EQ(python("or use Writer::posix: the files"), "or use 'posix': the files");
}

TEST(FaceWords, CallsAndOptionsAsTheFaceHasThem) {
  const auto* text = "steps() lists what restore(step) takes: FrozenOptions::read_every is -1";
  EXPECT_EQ(in_words_of(Face::c, text),
            "cairn_manager_steps() lists what cairn_manager_restore() "
            "takes: 'frozen.read_every' is -1");
  EXPECT_EQ(in_words_of(Face::fortran, text),
            "manager%steps() lists what manager%restore() takes: "
            "'frozen.read_every' is -1");
  EXPECT_EQ(in_words_of(Face::python, "cairn::mpi on ranks"), "a communicator on ranks");
  EXPECT_EQ(in_words_of(Face::c, "cairn::mpi() of"), "cairn_group_mpi() of");
}

TEST(FaceWords, FortranTellsShapesAndBoxesInItsOrderAndFromOne) {
  const auto fortran = [](std::string_view text) {
    EXPECT_EQ(in_words_of(Face::c, text), text);
    EXPECT_EQ(in_words_of(Face::python, text), text);
    return in_words_of(Face::fortran, text, Face::c);
  };
  EXPECT_EQ(fortran("tensor 'u' [2 3]: rows 1..1 × 0..2 are held by no rank"),
            "tensor 'u' [3 2]: elements (1:3, 2:2) are held by no rank");
  EXPECT_EQ(fortran("rows 0..9 and rows -1..0 × 5..6 × 7..8"),
            "elements (1:10) and elements (8:9, 6:7, 0:1)");
  EXPECT_EQ(fortran("with start [-1 0] and extent [2 3]"), "with start [1 0] and extent [3 2]");
  EXPECT_EQ(fortran("the empty box at [4 0]"), "the empty box at [1 5]");
  EXPECT_EQ(fortran("0.5 at [3 1] has no place"), "0.5 at [2 4] has no place");
  EXPECT_EQ(fortran("[2 1] at offset [2 0] is no part of [3 2]"),
            "[1 2] at offset [0 2] is no part of [2 3]");
  EXPECT_EQ(fortran("with start [9223372036854775807]"), "with start [9223372036854775807]");
  for (const auto* text : {"[]", "[1 2", "[a 1]", "options[1 2]", "'u [1 2]'", "rows 3", "rows 1..",
                           "arrows 1..2", "[99999999999999999999]"}) {
    EXPECT_EQ(fortran(text), text);
  }
}

// Keys and paths belong to the application and stay as they are.
TEST(FaceWords, WhatIsQuotedStays) {
  for (const auto* text : {"tensor 'ManagerOptions::overwrite' is not there", "('Writer::posix')",
                           "a tensor's cairnish patches", "dispatches()", "it is Other::member",
                           "'unfinished Writer::posix", "Rows::count() says so", ""}) {
    EXPECT_EQ(in_words_of(Face::python, text), text);
    EXPECT_EQ(in_words_of(Face::c, text), text);
  }
  EXPECT_EQ(in_words_of(Face::python, "tensor 'a' is Writer::posix"), "tensor 'a' is 'posix'");
}

}  // namespace
}  // namespace cairn
