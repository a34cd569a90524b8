#include "cairn/c/process.h"

#include <string>

#include "base/face_words.hpp"
#include "c/handles.hpp"
#include "cairn/log.hpp"

void cairn_set_log(void (*sink)(void* context, int level, const char* message), void* context) {
  (void)cairn::c::call([&] {
    if (!sink) return cairn::set_log_sink({});
    cairn::set_log_sink([=](cairn::LogLevel level, std::string_view message) {
      sink(context, static_cast<int>(level), cairn::in_words_of(cairn::Face::c, message).c_str());
    });
  });
}

int cairn_set_wait_limits(double log_seconds, double end_seconds) {
  return cairn::c::call([&] { cairn::set_wait_limits({log_seconds, end_seconds}); });
}
