// The conformance suite on processes: the first n ranks of the job, and files of the operating
// system.
#include <filesystem>

#include "mpi/mpi_kit.hpp"
#include "support/conformance.hpp"

namespace cairn::test {
namespace {

class Processes : public Launcher {
 public:
  Processes() : world_(mpi(MPI_COMM_WORLD)) {}
  ~Processes() override { world_->barrier(); }
  void new_disk() override {
    world_->barrier();
    disk_ = std::make_unique<Directory>(*world_, place_for_files());
    world_->barrier();
  }
  std::shared_ptr<io::FileSystem> files() override { return io::posix_file_system(); }
  std::filesystem::path directory() override { return disk_->path(); }
  void run(int ranks, const test::RankBody& body) override {
    if (const auto group = first_ranks(ranks, world_->rank())) body(group);
    world_->barrier();
  }
  void once(const std::function<void()>& function) override {
    world_->barrier();
    if (world_->rank() == 0) function();
    world_->barrier();
  }
  std::vector<int> counts() const override { return {world_->size()}; }
  std::vector<std::pair<int, int>> pairs() const override {
    const int all = world_->size(), half = (all + 1) / 2;
    return {{all, all}, {all, half}, {half, all}, {all, 1}, {1, all}};
  }
  unsigned rounds() const override { return 1; }

 private:
  std::shared_ptr<Group> world_;
  std::unique_ptr<Directory> disk_;
};

}  // namespace

std::vector<LauncherKind> launcher_kinds() {
  return {{"mpi", shared_files | shared_datasets | codecs,
           [](const Combination&) { return std::make_unique<Processes>(); }}};
}

}  // namespace cairn::test
