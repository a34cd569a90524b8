// A manager with the application's own file system: it wraps POSIX files, counts what is created
// and renamed, and acts like a full disk when told so. The save that meets this fails, and the
// older checkpoint stays.
// usage: file_system DIRECTORY
#include <cairn/checkpoint_manager.hpp>
#include <cairn/file_system.hpp>

#include <atomic>
#include <cstdio>
#include <filesystem>

namespace {

class CountedFiles : public cairn::io::FileSystemWrapper {
 public:
  CountedFiles() : FileSystemWrapper(cairn::io::posix_file_system()) {}

  std::unique_ptr<cairn::io::File> create(const cairn::io::Path& path) override {
    if (full) throw cairn::Error(cairn::Code::no_space, "told to be full").at(path.string());
    ++created;
    return FileSystemWrapper::create(path);
  }
  void rename(const cairn::io::Path& from, const cairn::io::Path& to) override {
    ++renamed;
    FileSystemWrapper::rename(from, to);
  }

  std::atomic<bool> full = false;  // operations come from several threads
  std::atomic<int> created = 0, renamed = 0;
};

void run(const std::filesystem::path& directory) {
  const auto files = std::make_shared<CountedFiles>();
  cairn::CheckpointManager manager(cairn::serial_group(), directory,
                                   {.write = {.file_system = files}});
  std::vector<double> u(1000, 1.0);
  cairn::State state;
  state.add("u", u);
  manager.save(1, state);
  std::printf("step 1: created %d files, renamed %d\n", files->created.load(),
              files->renamed.load());

  files->full = true;
  u.assign(u.size(), 2.0);
  try {
    manager.save(2, state);
  } catch (const cairn::Error& error) {
    std::printf("step 2: %s\n", error.what());
  }
  files->full = false;
  const auto report = manager.restore_latest(state);
  std::printf("restored step %d: u is %g\n", static_cast<int>(report->step), u[0]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: file_system DIRECTORY\n");
    return 2;
  }
  try {
    run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "file_system: %s\n", error.what());
    return 1;
  }
}
