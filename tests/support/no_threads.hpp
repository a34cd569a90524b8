#pragma once
/// While it lives, this process can start no thread: their stacks would not fit the address space.
#include <pthread.h>

#include <stdexcept>

namespace cairn::test {

class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t huge;
    if (pthread_getattr_default_np(&before_) != 0 || pthread_attr_init(&huge) != 0 ||
        pthread_attr_setstacksize(&huge, std::size_t{1} << 47) != 0 ||
        pthread_setattr_default_np(&huge) != 0) {
      throw std::runtime_error("the stack size of threads cannot be set");
    }
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace cairn::test
