// Ten things that people do with Cairn, as the pages of docs/howto show them.
// usage: mpirun -np N howto DIRECTORY bundle|hdf5     (again and again, with any N)
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cairn/bundle.hpp"
#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

namespace {

using Ranks = std::shared_ptr<cairn::Group>;
constexpr std::int64_t height = 12, width = 4;  // of a plate

std::int64_t first_row(int rank, int ranks) { return height * rank / ranks; }

void check(bool right, const char* what) {
  if (!right) throw std::runtime_error(what);
}

void save(const Ranks& ranks, const std::string& directory, std::int64_t step) {
  const auto first = first_row(ranks->rank(), ranks->size());
  const auto rows = first_row(ranks->rank() + 1, ranks->size()) - first;
  std::vector<double> u(static_cast<std::size_t>(rows * width));
  for (std::size_t i = 0; i < u.size(); ++i) u[i] = static_cast<double>(first * width) + double(i);

  cairn::State state;
  state.add("step", step);  // the same on every rank
  state.add("u", cairn::slice(&u, {height, width}, {first, 0}, {rows, width}));

  cairn::CheckpointManager manager(ranks, directory, {.keep = {.last = 3}});
  manager.save(step, state);  // durable on return, or all ranks have thrown
}

std::int64_t restore(const Ranks& ranks, const std::string& directory) {
  const auto first = first_row(ranks->rank(), ranks->size());
  const auto rows = first_row(ranks->rank() + 1, ranks->size()) - first;

  std::int64_t step = 0;
  std::vector<double> u(static_cast<std::size_t>(rows * width));
  cairn::State state;
  state.add("step", step);
  state.add("u", cairn::slice(&u, {height, width}, {first, 0}, {rows, width}));

  cairn::CheckpointManager manager(ranks, directory);
  const auto report = manager.restore_latest(state);  // returns nothing without a checkpoint
  if (report && ranks->rank() == 0) std::printf("goes on after step %ld\n", long(report->step));

  check(!report || report->step == step, "another step was restored");
  for (std::size_t i = 0; report && i < u.size(); ++i) {
    check(u[i] == static_cast<double>(first * width) + double(i), "another row was restored");
  }
  return step;
}

void asynchronous(const Ranks& ranks, const std::string& directory) {
  std::vector<double> u(1000, ranks->rank());
  cairn::State state;
  state.add("u", cairn::slice(&u, {ranks->size() * 1000}, {ranks->rank() * 1000}, {1000}));

  cairn::ManagerOptions options;
  options.when.interval.steps = 5;
  cairn::CheckpointManager manager(ranks, directory, options);
  for (std::int64_t step = 1; step <= 20; ++step) {
    for (auto& x : u) x += 1;  // u may be changed while its copy is written
    if (manager.should_save(step)) manager.save_async(step, state);
  }
  manager.wait();  // what is in flight is committed before the job ends

  check(manager.steps().back().step == 20, "the last step is not there");
}

void halos(const Ranks& ranks, const std::string& directory) {
  const auto first = first_row(ranks->rank(), ranks->size());
  const auto rows = first_row(ranks->rank() + 1, ranks->size()) - first;

  const auto stride = width + 2;  // one halo cell on each side
  std::vector<double> u(static_cast<std::size_t>((rows + 2) * stride));
  cairn::State state;
  state.add("u", cairn::slice(u.data() + stride + 1, {height, width}, {first, 0}, {rows, width},
                              {stride, 1}));

  cairn::CheckpointManager(ranks, directory).save(1, state);
}

void particles(const Ranks& ranks, const std::string& directory, std::int64_t total) {
  std::vector<std::array<double, 3>> position;  // of this rank's particles
  if (ranks->rank() == 0) position.resize(static_cast<std::size_t>(total));

  cairn::State state;
  state.add("position", cairn::ragged(position));  // its length is asked for at each save
  cairn::CheckpointManager manager(ranks, directory);
  manager.save(1, state);
  manager.restore(1, state);  // dealt evenly, on any number of ranks: position is resized

  const auto here =
      (ranks->rank() + 1) * total / ranks->size() - ranks->rank() * total / ranks->size();
  check(std::abs(std::int64_t(position.size()) - here) <= 1, "particles are not dealt evenly");
}

void look(const std::string& prefix) {
  const cairn::BundleReader checkpoint(prefix);  // a bundle or HDF5, by Cairn or TensorFlow
  for (const auto& tensor : checkpoint.contents().tensors) {
    std::printf("%s: %zu dimensions\n", tensor.key.c_str(), tensor.shape.size());
  }
  const std::string bytes = checkpoint.read("u", {{2, 0}, {3, width}});  // rows 2, 3 and 4

  check(bytes.size() == 3 * width * sizeof(double), "another box was read");
}

void convert(const Ranks& ranks, const std::string& directory, cairn::Format format) {
  std::vector<double> u(static_cast<std::size_t>(height * width));
  cairn::State state;
  state.add("u", cairn::whole(&u, {height, width}));

  cairn::ManagerOptions options;
  options.store.format = format;  // cairn::Format::hdf5: of what is saved from now on
  cairn::CheckpointManager manager(ranks, directory, options);
  const auto report = manager.restore_latest(state);  // both formats are restored
  manager.save(report->step + 1, state);
}

int under_slurm(const Ranks& ranks, const std::string& directory) {
  std::int64_t step = 0;
  cairn::State state;
  state.add("step", step);

  auto stop = std::make_shared<cairn::StopRequest>();  // SIGTERM, SIGUSR1, the job's time limit
  cairn::ManagerOptions options;
  options.when.interval.steps = 1000;
  options.when.stop = stop;
  cairn::CheckpointManager manager(ranks, directory, options);
  manager.restore_latest(state);
  while (step < 100000) {
    ++step;
    if (step == 3) stop->request();                            // here in place of a signal
    if (manager.should_save(step)) manager.save(step, state);  // also before a stop
    if (const auto reason = manager.should_stop()) return reason->exit_code();
  }
  return 0;
}

void policies(const Ranks& ranks, const std::string& directory) {
  std::vector<float> a(1000), b(1000);
  cairn::State state;
  state.add("a", cairn::slice(&a, {ranks->size(), 1000}, {ranks->rank(), 0}, {1, 1000}));
  state.add("b", cairn::slice(&b, {ranks->size(), 1000}, {ranks->rank(), 0}, {1, 1000}));

  cairn::ManagerOptions options;
  options.store.policy = std::make_shared<cairn::MaxShardSizePolicy>(3000);  // bytes a file
  cairn::CheckpointManager manager(ranks, directory, options);
  manager.save(1, state);

  check(manager.open(1).num_files >= 3 * ranks->size(), "files are too large");
}

void errors(const Ranks& ranks, const std::string& directory) {
  std::int64_t step = 0;
  cairn::State state;
  state.add("step", step);
  cairn::CheckpointManager manager(ranks, directory);

  try {
    manager.restore(77, state);
  } catch (const cairn::Error& error) {  // the same one on all ranks
    if (error.code() != cairn::Code::not_found) throw;
    if (ranks->rank() == 0) {
      std::printf("%s\n%s\n", error.problem().c_str(), error.way_out().c_str());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    check(argc == 3, "usage: howto DIRECTORY bundle|hdf5");
    const std::string directory = argv[1], format = argv[2];
    const auto ranks = cairn::mpi(MPI_COMM_WORLD);
    const auto step = restore(ranks, directory + "/shared") + 1;
    save(ranks, directory + "/shared", step);
    const auto own = directory + "/cpp-" + std::to_string(step);
    asynchronous(ranks, own + "/asynchronous");
    halos(ranks, own + "/halos");
    particles(ranks, own + "/particles", 10);
    look(own + "/halos/ckpt-1");
    convert(ranks, own + "/halos", format == "hdf5" ? cairn::Format::hdf5 : cairn::Format::bundle);
    check(under_slurm(ranks, own + "/slurm") == cairn::exit_on_request, "another exit code");
    policies(ranks, own + "/policies");
    errors(ranks, own + "/errors");
    if (ranks->rank() == 0) std::printf("C++ saved step %ld\n", long(step));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "howto: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
