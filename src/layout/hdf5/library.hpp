#pragma once
/// Safe use of libhdf5: one thread at a time, each identifier closed, each return code checked,
/// HDF5's own text in the error. Only files of this folder include libhdf5.
#include <hdf5.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "cairn/error.hpp"

namespace cairn::hdf5 {

/// While a Session lives, no other thread of Cairn calls libhdf5, and HDF5 prints nothing. A thread
/// may nest Sessions.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::lock_guard<std::recursive_mutex> lock_;
  // How HDF5 printed errors before; the destructor restores it.
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

/// The error of a call that just failed; HDF5's error stack becomes its reason.
Error failure(const std::string& what, Code code = Code::data_loss);

/// An identifier of libhdf5, which the destructor closes.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  /// Throws failure(what) if id is negative.
  Handle(hid_t id, Close close, const std::string& what, Code code = Code::data_loss)
      : id_(id), close_(close) {
    if (id < 0) throw failure(what, code);
    ++open_;
  }
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ < 0) return;
    close_(id_);
    --open_;
  }
  /// How many identifiers are open in this process.
  static int open_count() { return open_; }
  hid_t get() const { return id_; }
  /// Closes now, and throws Code::io if that fails.
  void close(const std::string& what) {
    const auto id = std::exchange(id_, H5I_INVALID_HID);
    if (id < 0) return;
    --open_;
    if (close_(id) < 0) throw failure(what, Code::io);
  }

 private:
  inline static std::atomic<int> open_ = 0;
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

/// Returns the result of a call; throws failure(what) if it is negative.
template <class T>
T check(T result, const char* what, Code code = Code::data_loss) {
  if (result < 0) throw failure(what, code);
  return result;
}

}  // namespace cairn::hdf5
