// Preloaded, it gives a program a global C++ locale and a C locale in which 1.234,5 is a number.
// What builds and starts tests is left alone.
#include <clocale>
#include <iostream>
#include <string_view>

#include "support/comma_locale.hpp"

extern char* program_invocation_short_name;

namespace {

[[gnu::constructor]] void begin() {
  for (const std::string_view name :
       {"cmake", "ctest", "ninja", "gmake", "make", "mpirun", "mpiexec", "orterun", "orted"}) {
    if (name == program_invocation_short_name) return;
  }
  const std::locale commas(std::locale::classic(), new cairn::test::Commas);
  std::locale::global(commas);
  const std::ios_base::Init streams;
  for (auto* stream : {&std::cout, &std::cerr, &std::clog}) stream->imbue(commas);
  std::cin.imbue(commas);
  cairn::test::with_c_locale(",", [](const char* name) { std::setlocale(LC_NUMERIC, name); });
}

}  // namespace
