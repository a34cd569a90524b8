// To be preloaded (LD_PRELOAD): symbols that TensorFlow brings into a process, and an allocator.
#include <stdlib.h>

extern "C" {
void free_of_the_system(void* memory) __asm__("__libc_free");

__attribute__((visibility("default"))) void free(void* memory) noexcept {
  free_of_the_system(memory);
}
}

namespace google::protobuf {

class __attribute__((visibility("default"))) MessageLite {
 public:
  bool ParseFromArray(const void* data, int size);
};
// A function of another version: a call of it would crash.
bool MessageLite::ParseFromArray(const void*, int) { abort(); }

}  // namespace google::protobuf
