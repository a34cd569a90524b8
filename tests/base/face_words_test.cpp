// The library's errors in the words of each face.
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
  EXPECT_EQ(all_of("Give several slices with patches()."),
            "Give several slices with cairn_state_add_patches(). | "
            "Give several slices with state%add_patch(). | "
            "Give several slices with cairn.patches.");
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
  EXPECT_EQ(python("with SaveOptions::reach = Reach::home."), "with 'reach' = 'home'.");
  EXPECT_EQ(python("or use Writer::posix: the files"), "or use 'posix': the files");
}

// Keys and paths are the application's.
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
