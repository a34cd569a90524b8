#pragma once
/// Copies from the memory of CUDA's devices by the driver that torch has loaded. This module is
/// built without CUDA, so the driver's functions are looked up in the process.
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace cairn::python {

/// Thread-safe, and needs no lock of the interpreter.
class CudaDriver {
 public:
  /// Null: the process has no driver, as without CUDA.
  static CudaDriver* get();
  /// The number of the device that has this memory; nothing: it is not a device's.
  std::optional<int> device_of(const void* memory) const;

  /// Copies from one device, one after the other, on a stream of their own. They begin at once: who
  /// makes them has waited for what computes the bytes.
  class Copies {
   public:
    Copies(CudaDriver&, int device);
    Copies(const Copies&) = delete;
    Copies& operator=(const Copies&) = delete;
    ~Copies();
    void to_host(const std::byte* from, std::byte* to, std::size_t bytes);
    void wait();  ///< returns when all are complete; to be called last

   private:
    void leave();

    CudaDriver& driver_;
    const std::unique_lock<std::mutex> lock_;
    void* stream_ = nullptr;
    int mode_;  // the thread's own, which is set again
  };

 private:
  // As in the driver's cuda.h: a CUresult is an int, a CUcontext and a CUstream are pointers.
  struct Functions {
    int (*pointer_attribute)(void*, int attribute, unsigned long long);
    int (*device_get)(int*, int);
    int (*primary_context)(void**, int);
    int (*push_context)(void*);
    int (*pop_context)(void**);
    int (*exchange_capture_mode)(int*);
    int (*make_stream)(void**, unsigned flags);
    int (*copy)(void* to, unsigned long long from, std::size_t bytes, void* stream);
    int (*wait)(void* stream);
    int (*text)(int, const char**);
  };
  struct Device {
    void* context = nullptr;
    void* stream = nullptr;
  };
  explicit CudaDriver(const Functions& functions) : call_(functions) {}
  void check(int result, const char* what) const;
  void enter(int device);  // its context becomes this thread's

  const Functions call_;
  std::mutex mutex_;
  std::map<int, Device> devices_;
};

}  // namespace cairn::python
