// How libFuzzer changes an input that is JSON: mostly as JSON.
#include <cstdint>
#include <cstring>

#include "fuzz/json_changes.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  if (seed % 4 == 0) return LLVMFuzzerMutate(data, size, most);
  const cairn::fuzz::JsonChanges changes({reinterpret_cast<const char*>(data), size});
  if (changes.count() == 0) return LLVMFuzzerMutate(data, size, most);
  const auto text = changes.at(seed / 4 % changes.count());
  if (text.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
