#include "cuda_driver.hpp"

#include <dlfcn.h>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::python {
namespace {

// Numbers of the driver's cuda.h.
constexpr int pointer_memory_type = 2, pointer_device_ordinal = 9, memory_of_device = 2,
              capture_relaxed = 2;
constexpr unsigned stream_non_blocking = 1;

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

CudaDriver* CudaDriver::get() {
  static CudaDriver* const driver = []() -> CudaDriver* {
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!library) return nullptr;
    Functions all;
    const bool has_all =
        find(library, "cuPointerGetAttribute", all.pointer_attribute) &&
        find(library, "cuDeviceGet", all.device_get) &&
        find(library, "cuDevicePrimaryCtxRetain", all.primary_context) &&
        find(library, "cuCtxPushCurrent_v2", all.push_context) &&
        find(library, "cuCtxPopCurrent_v2", all.pop_context) &&
        find(library, "cuThreadExchangeStreamCaptureMode", all.exchange_capture_mode) &&
        find(library, "cuStreamCreate", all.make_stream) &&
        find(library, "cuMemcpyDtoHAsync_v2", all.copy) &&
        find(library, "cuStreamSynchronize", all.wait) &&
        find(library, "cuGetErrorString", all.text);
    return has_all ? new CudaDriver(all) : nullptr;  // for as long as the process runs
  }();
  return driver;
}

std::optional<int> CudaDriver::device_of(const void* memory) const {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  unsigned type = 0;
  int device = 0;
  if (call_.pointer_attribute(&type, pointer_memory_type, at) != 0 || type != memory_of_device ||
      call_.pointer_attribute(&device, pointer_device_ordinal, at) != 0) {
    return std::nullopt;
  }
  return device;
}

void CudaDriver::check(int result, const char* what) const {
  if (result == 0) return;
  const char* why = nullptr;
  call_.text(result, &why);
  throw Error(Code::application, cat("CUDA's driver could not ", what), why ? why : cat(result));
}

// The primary context is the one that torch uses. It is kept, as torch keeps it.
void CudaDriver::enter(int number) {
  auto& device = devices_[number];
  if (!device.context) {
    int handle = 0;
    check(call_.device_get(&handle, number), "find a device");
    check(call_.primary_context(&device.context, handle), "use a device");
  }
  check(call_.push_context(device.context), "use a device");
}

// While any thread records a graph, calls of others can fail or spoil it unless their thread says
// that it knows what it does.
CudaDriver::Copies::Copies(CudaDriver& driver, int device)
    : driver_(driver), lock_(driver.mutex_), mode_(capture_relaxed) {
  driver.enter(device);
  const auto& call = driver.call_;
  auto& stream = driver.devices_[device].stream;
  call.exchange_capture_mode(&mode_);
  if (!stream) {
    const int result = call.make_stream(&stream, stream_non_blocking);
    if (result != 0) leave();
    driver.check(result, "make a stream");
  }
  stream_ = stream;
}

// If one could not begin, those before it may still write to memory that serves others next.
CudaDriver::Copies::~Copies() {
  driver_.call_.wait(stream_);
  leave();
}

void CudaDriver::Copies::leave() {
  driver_.call_.exchange_capture_mode(&mode_);
  void* context = nullptr;
  driver_.call_.pop_context(&context);
}

void CudaDriver::Copies::to_host(const std::byte* from, std::byte* to, std::size_t bytes) {
  driver_.check(driver_.call_.copy(to, reinterpret_cast<std::uintptr_t>(from), bytes, stream_),
                "copy from a device");
}

void CudaDriver::Copies::wait() {
  driver_.check(driver_.call_.wait(stream_), "copy from a device");
}

}  // namespace cairn::python
