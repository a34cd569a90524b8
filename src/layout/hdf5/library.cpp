#include "layout/hdf5/library.hpp"

#include "base/text.hpp"

namespace cairn::hdf5 {
namespace {

// One for the process: libhdf5 has global state, and may have been built without locks.
std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

// The innermost frames say what went wrong, the outermost only which call it was.
herr_t add_frame(unsigned n, const H5E_error2_t* frame, void* out) noexcept {
  constexpr unsigned most_frames = 3;
  if (n >= most_frames || !frame->desc) return 0;
  try {
    auto& text = *static_cast<std::string*>(out);
    if (!text.empty()) text += ", in ";
    if (frame->func_name) text += cat(frame->func_name, ": ");
    text += frame->desc;
  } catch (...) {  // no memory: the text ends here
  }
  return 0;
}

}  // namespace

Session::Session() : lock_(library_mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Session::~Session() {
  H5Eclear2(H5E_DEFAULT);
  H5Eset_auto2(H5E_DEFAULT, print_, print_data_);
}

Error failure(const std::string& what, Code code) {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, add_frame, &reason);
  H5Eclear2(H5E_DEFAULT);
  return Error(code, what, reason.empty() ? "HDF5 does not say why" : cat("HDF5: ", reason));
}

}  // namespace cairn::hdf5
