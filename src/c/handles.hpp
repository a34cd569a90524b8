#pragma once
/// The types behind the handles of the C interface, and checks of arguments from C programs.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cairn/box.hpp"
#include "cairn/c/bridge.hpp"
#include "cairn/error.hpp"
#include "cairn/indexed.hpp"
#include "cairn/ragged.hpp"
#include "cairn/restore_options.hpp"
#include "cairn/stop.hpp"

struct cairn_stop {
  std::shared_ptr<cairn::StopRequest> request;
};
struct cairn_save_options {
  cairn::SaveOptions options;
};
struct cairn_restore_options {
  cairn::RestoreOptions options;
};
struct cairn_ids {
  cairn::Ids ids;
};
struct cairn_strings {
  std::shared_ptr<std::vector<std::string>> values = std::make_shared<std::vector<std::string>>();
};

namespace cairn::c {

/// Throws invalid_argument for NULL.
template <class T>
T& given(T* pointer, const char* name) {
  if (pointer) return *pointer;
  throw Error(Code::invalid_argument, cat(name, " is NULL"));
}

/// Makes a handle, and stores it at the address that the caller gave.
template <class Handle, class... Args>
void make(Handle** result, Args&&... args) {
  // Checked first: in one statement the new handle would be made before the check, and lost if the
  // check throws.
  auto& place = given(result, "the address for the result");
  place = new Handle{std::forward<Args>(args)...};
}

/// Copies the numbers of a C array. The array may be NULL if `count` is 0.
inline Dims dims_of(int count, const std::int64_t* numbers, const char* name) {
  if (count < 0) throw Error(Code::invalid_argument, cat(name, " has ", count, " dimensions"));
  if (count == 0) return {};
  given(numbers, name);
  return {numbers, numbers + count};
}
/// The same; NULL means none.
inline Dims dims_or_none(int count, const std::int64_t* numbers) {
  return numbers ? dims_of(count, numbers, "strides") : Dims{};
}

DType dtype_of_number(cairn_dtype number);

inline std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> all;
  for (const auto& text : texts) all.push_back(text.c_str());
  return all;
}

}  // namespace cairn::c
