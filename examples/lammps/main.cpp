// LAMMPS saves through Cairn: a Lennard-Jones melt stores its atoms by tag, on any number of ranks,
// and restores them on any other number.
//
// usage: mpirun -np N lammps_melt DIRECTORY STEPS [hdf5]
//
// Each call goes on from the newest checkpoint, if there is one, for STEPS steps, and saves at the
// end. It prints what LAMMPS measures, with only as many digits as do not depend on the order in
// which ranks add up their atoms.
//
// LAMMPS deals atoms to ranks by their positions, and the order of a rank's atoms has no meaning.
// An atom is known only by its tag. So each array is a tensor with one row for each atom, at the
// atom's tag (cairn::indexed). A restart makes the atoms as the first start did, perhaps on other
// ranks; each rank then asks for the rows of the tags that it happens to have, and LAMMPS moves the
// atoms to where they belong.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#define LAMMPS_LIB_MPI
#include <lammps/library.h>

#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"

namespace {

constexpr const char* setup = R"(
units lj
atom_style atomic
atom_modify map array
lattice fcc 0.8442
region box block 0 8 0 8 0 8
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
timestep 0.005
)";

/// One simulation on all ranks of a communicator.
class Melt {
 public:
  explicit Melt(MPI_Comm ranks) {
    std::array<std::string, 5> words{"lammps", "-screen", "none", "-log", "none"};
    std::array<char*, 5> arguments{};
    for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
    handle_ = lammps_open(static_cast<int>(arguments.size()), arguments.data(), ranks, nullptr);
    if (!handle_) throw std::runtime_error("LAMMPS does not start");
    lammps_commands_string(handle_, setup);
    run(0);
  }
  ~Melt() { lammps_close(handle_); }
  Melt(const Melt&) = delete;
  Melt& operator=(const Melt&) = delete;

  void command(const std::string& line) { lammps_command(handle_, line.c_str()); }
  void run(std::int64_t steps) { command("run " + std::to_string(steps)); }
  double measure(const char* what) { return lammps_get_thermo(handle_, what); }

  /// The number of atoms that this rank owns at the moment. LAMMPS moves and reorders their arrays
  /// while it runs.
  std::int64_t atoms() const { return lammps_extract_setting(handle_, "nlocal"); }
  std::int64_t all_atoms() const { return static_cast<std::int64_t>(lammps_get_natoms(handle_)); }
  std::span<const int> tags() const { return array<int>("id"); }
  int* types() { return array<int>("type").data(); }
  /// Three numbers in one tell in which copy of the box an atom is.
  int* images() { return array<int>("image").data(); }
  double* vectors(const char* name) {
    auto** rows = static_cast<double**>(lammps_extract_atom(handle_, name));
    return atoms() > 0 ? rows[0] : nullptr;  // the rows are contiguous
  }

  /// To be called when atoms have got other positions: each goes to the rank that has its part of
  /// the box.
  void settle(std::int64_t step) {
    command("displace_atoms all move 0 0 0");
    command("reset_timestep " + std::to_string(step));
    run(0);
  }

 private:
  template <class T>
  std::span<T> array(const char* name) const {
    return {static_cast<T*>(lammps_extract_atom(handle_, name)), static_cast<std::size_t>(atoms())};
  }
  void* handle_ = nullptr;
};

/// What a checkpoint has of a melt.
class MeltState {
 public:
  explicit MeltState(Melt& melt) : melt_(melt) {
    state_.add("step", step);
    add<double>("x", {3}, [&melt] { return melt.vectors("x"); });
    add<double>("v", {3}, [&melt] { return melt.vectors("v"); });
    add<int>("type", {}, [&melt] { return melt.types(); });
    add<int>("image", {}, [&melt] { return melt.images(); });
  }

  std::int64_t step = 0;

  void save(cairn::CheckpointManager& manager) {
    note_tags();
    manager.save(step, state_);
  }
  bool restore(cairn::CheckpointManager& manager) {
    note_tags();
    if (!manager.restore_latest(state_)) return false;
    melt_.settle(step);
    return true;
  }

 private:
  // Tags begin at 1, rows at 0.
  void note_tags() {
    rows_.clear();
    for (const int tag : melt_.tags()) rows_.push_back(tag - 1);
  }
  template <class T, class Data>
  void add(const std::string& key, cairn::Dims row_shape, Data data) {
    state_.add(key, cairn::indexed(ids_, cairn::each_time([this, row_shape, data] {
                                     cairn::Dims shape = row_shape;
                                     shape.insert(shape.begin(), melt_.atoms());
                                     return cairn::whole<T>(data(), shape);
                                   })));
  }

  Melt& melt_;
  std::vector<std::int64_t> rows_;
  cairn::Ids ids_ = cairn::ids(&rows_);
  cairn::State state_;
};

void report(const cairn::Group& ranks, Melt& melt) {
  // LAMMPS sums these over ranks, so all ranks must ask.
  const double step = melt.measure("step"), temperature = melt.measure("temp"),
               potential = melt.measure("pe"), total = melt.measure("etotal"),
               pressure = melt.measure("press");
  if (ranks.rank() != 0) return;
  std::printf("step %6.0f  temperature %.8f  potential %.8f  total %.8f  pressure %.8f\n", step,
              temperature, potential, total, pressure);
  std::fflush(stdout);
}

void simulate(int argc, char** argv) {
  if (argc < 3) throw std::runtime_error("usage: lammps_melt DIRECTORY STEPS [hdf5]");
  const auto ranks = cairn::mpi(MPI_COMM_WORLD);
  const std::int64_t steps = std::atoll(argv[2]);
  cairn::ManagerOptions options;
  options.keep.last = 2;
  if (argc > 3 && std::string(argv[3]) == "hdf5") options.store.format = cairn::Format::hdf5;

  Melt melt(MPI_COMM_WORLD);
  MeltState state(melt);
  cairn::CheckpointManager manager(ranks, argv[1], options);
  state.restore(manager);
  report(*ranks, melt);
  constexpr std::int64_t part = 20;
  for (std::int64_t done = 0; done < steps; done += part) {
    melt.run(part);
    state.step += part;
    report(*ranks, melt);
  }
  if (steps > 0) state.save(manager);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    simulate(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lammps_melt: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return status;
}
