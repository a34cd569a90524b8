// main of MPI tests: all ranks run all tests. Rank 0 reports; other ranks report only their
// failures. A failure on any rank fails the program on all.
#include <gtest/gtest.h>
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>

namespace {

int rank_of_world = 0;
char where[256] = "before the first test";
unsigned seconds_a_test = 0;  // 0: no limit

/// A rank that waits for ever prints where, before the launcher is killed from outside.
void on_alarm(int) {
  char text[400];
  // This is not async-signal-safe, but the process ends here in any case.
  const int length =
      std::snprintf(text, sizeof text, "rank %d still hangs: %s\n", rank_of_world, where);
  if (length > 0 && write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0) _exit(4);
  _exit(3);
}

class RememberWhere : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& info) override {
    std::snprintf(where, sizeof where, "%s.%s", info.test_suite_name(), info.name());
    // A limit for each test: on cores that other programs use, all tests together may take many
    // times as long.
    if (seconds_a_test > 0) alarm(seconds_a_test);
  }
};

class OnlyFailures : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::ostringstream text;
    text << "[rank " << rank_of_world << "] " << where << ": "
         << (result.file_name() ? result.file_name() : "?") << ":" << result.line_number() << "\n"
         << result.message() << "\n";
    std::cerr << text.str() << std::flush;
  }
};

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  // Libraries behave differently if nobody asks for threads.
  const int threads =
      std::getenv("CAIRN_TEST_WITHOUT_THREADS") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE;
  if (MPI_Init_thread(&argc, &argv, threads, &provided) != MPI_SUCCESS) return 2;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_of_world);
  if (const char* seconds = std::getenv("CAIRN_TEST_SECONDS")) {
    signal(SIGALRM, on_alarm);
    seconds_a_test = static_cast<unsigned>(std::atoi(seconds));
    alarm(seconds_a_test);
  }
  ::testing::InitGoogleTest(&argc, argv);
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  listeners.Append(new RememberWhere);
  if (rank_of_world != 0) {
    delete listeners.Release(listeners.default_result_printer());
    delete listeners.Release(listeners.default_xml_generator());
    listeners.Append(new OnlyFailures);
  }

  int failed = RUN_ALL_TESTS() != 0 ? 1 : 0;
  std::snprintf(where, sizeof where, "after the last test");
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (failed && rank_of_world == 0) std::cerr << "at least one rank failed" << std::endl;
  MPI_Finalize();
  return failed;
}
