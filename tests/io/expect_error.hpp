#pragma once
/// Runs a statement that must throw cairn::Error with this code and this text in its message.
#include <gmock/gmock.h>

#include "cairn/error.hpp"

#define EXPECT_CAIRN_ERROR(statement, expected_code, text)                             \
  do {                                                                                 \
    try {                                                                              \
      static_cast<void>(statement);                                                    \
      ADD_FAILURE() << #statement " did not throw";                                    \
    } catch (const ::cairn::Error& error) {                                            \
      EXPECT_STREQ(code_name(error.code()), code_name(expected_code)) << error.what(); \
      EXPECT_THAT(error.what(), ::testing::HasSubstr(text));                           \
    }                                                                                  \
  } while (false)
