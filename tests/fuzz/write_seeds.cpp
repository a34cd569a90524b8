//   fuzz_seeds DIRECTORY    writes DIRECTORY/TARGET/NAME
#include <filesystem>
#include <fstream>
#include <iostream>

#include "fuzz/seeds.hpp"

int main(int count, char** arguments) {
  if (count != 2) return 2;
  try {
    const std::filesystem::path place = arguments[1];
    for (const auto& seed : cairn::fuzz::seeds()) {
      std::filesystem::create_directories(place / seed.target);
      std::ofstream out(place / seed.target / seed.name, std::ios::binary);
      out.write(seed.bytes.data(), static_cast<std::streamsize>(seed.bytes.size()));
      if (!out.flush()) {
        std::cerr << "cannot write " << (place / seed.target / seed.name).string() << "\n";
        return 1;
      }
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
