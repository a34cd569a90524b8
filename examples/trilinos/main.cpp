// A Tpetra vector on an unstructured mesh, saved by global id: the nodes of the mesh are dealt to
// ranks in one way, and after a restart in another.
//
// usage: mpirun -np N tpetra_mesh DIRECTORY STEPS strips|scattered [hdf5]
//
// Heat spreads over a mesh of triangles. Each call goes on from the newest checkpoint, if there is
// one, for STEPS steps, and saves at the end. The last word of a line is a digest of all values
// with their ids, which does not depend on which rank has them: a restart prints the digest that
// was printed before.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <Teuchos_DefaultMpiComm.hpp>
#include <Tpetra_Core.hpp>
#include <Tpetra_CrsMatrix.hpp>
#include <Tpetra_Map.hpp>
#include <Tpetra_MultiVector.hpp>
#include <Tpetra_Vector.hpp>

#include "cairn/cairn.hpp"
#include "cairn/kokkos.hpp"
#include "cairn/mpi.hpp"

namespace {

using Id = long long;
using Map = Tpetra::Map<int, Id>;
using Matrix = Tpetra::CrsMatrix<double, int, Id>;
using Vector = Tpetra::Vector<double, int, Id>;

/// Triangles in a square of SIDE times SIDE nodes. As with a mesh generator, the id of a node does
/// not tell its position.
struct Mesh {
  static constexpr Id side = 61, nodes = side * side;
  static constexpr Id stride = 1000;  // coprime to `nodes`

  static Id id_at(Id row, Id column) { return (row * side + column) * stride % nodes; }
  static Id place_of(Id id) {
    static const std::vector<Id> places = [] {
      std::vector<Id> all(nodes);
      for (Id place = 0; place < nodes; ++place) {
        all[static_cast<std::size_t>(place * stride % nodes)] = place;
      }
      return all;
    }();
    return places[static_cast<std::size_t>(id)];
  }
  static std::vector<Id> neighbours(Id id) {
    const Id row = place_of(id) / side, column = place_of(id) % side;
    std::vector<Id> all;
    const Id around[6][2] = {{0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, -1}};
    for (const auto& [down, right] : around) {
      const Id r = row + down, c = column + right;
      if (r >= 0 && r < side && c >= 0 && c < side) all.push_back(id_at(r, c));
    }
    return all;
  }
};

/// The ids of a rank's nodes: in strips of the square, or dealt by a hash.
std::vector<Id> deal(const std::string& partition, int rank, int ranks) {
  if (partition != "strips" && partition != "scattered") {
    throw std::runtime_error("a partition is strips or scattered, not " + partition);
  }
  std::vector<Id> mine;
  for (Id id = 0; id < Mesh::nodes; ++id) {
    const Id owner = partition == "strips"
                         ? Mesh::place_of(id) * ranks / Mesh::nodes
                         : static_cast<Id>((static_cast<std::uint64_t>(id) * 2654435761u >> 7) %
                                           static_cast<std::uint64_t>(ranks));
    if (owner == rank) mine.push_back(id);
  }
  return mine;
}

Teuchos::RCP<Matrix> step_matrix(const Teuchos::RCP<const Map>& map) {
  auto matrix = Teuchos::rcp(new Matrix(map, 7));
  constexpr double rate = 0.1;
  for (std::size_t i = 0; i < map->getNodeNumElements(); ++i) {
    const Id id = map->getGlobalElement(static_cast<int>(i));
    auto columns = Mesh::neighbours(id);
    std::vector<double> values(columns.size(), rate);
    values.push_back(1 - rate * static_cast<double>(columns.size()));
    columns.push_back(id);
    matrix->insertGlobalValues(id, static_cast<int>(columns.size()), values.data(), columns.data());
  }
  matrix->fillComplete();
  return matrix;
}

std::uint64_t digest(const Vector& u) {
  std::uint64_t sum = 0;
  const auto values = u.getLocalViewHost(Tpetra::Access::ReadOnly);
  for (std::size_t i = 0; i < values.extent(0); ++i) {
    const auto id = static_cast<std::uint64_t>(u.getMap()->getGlobalElement(static_cast<int>(i)));
    auto bits = std::bit_cast<std::uint64_t>(values(i, 0)) ^ id * 0x9e3779b97f4a7c15u;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    sum += bits ^ bits >> 27;
  }
  std::uint64_t all = 0;
  MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

void report(const cairn::Group& ranks, std::int64_t step, const Vector& u) {
  const double norm = u.norm2(), mean = u.meanValue();
  const auto all = digest(u);
  if (ranks.rank() != 0) return;
  std::printf("step %4lld  norm %.10f  mean %.10f  digest %016llx\n", static_cast<long long>(step),
              norm, mean, static_cast<unsigned long long>(all));
}

void simulate(int argc, char** argv) {
  if (argc < 4) {
    throw std::runtime_error("usage: tpetra_mesh DIRECTORY STEPS strips|scattered [hdf5]");
  }
  const auto ranks = cairn::mpi(MPI_COMM_WORLD);
  const auto mine = deal(argv[3], ranks->rank(), ranks->size());
  const auto map = Teuchos::rcp(
      new Map(Mesh::nodes, Teuchos::ArrayView<const Id>(mine.data(), static_cast<int>(mine.size())),
              0, Tpetra::getDefaultComm()));
  const auto matrix = step_matrix(map);
  Vector u(map), next(map);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    u.replaceLocalValue(static_cast<int>(i), std::sin(0.05 * static_cast<double>(mine[i])));
  }

  std::int64_t step = 0;
  cairn::State state;
  state.add("step", step);
  // Tpetra gives a View of the vector's values at each save and restore. While the View lives, the
  // vector may not be used in another memory space.
  const std::vector<std::int64_t> ids(mine.begin(), mine.end());
  state.add("u",
            cairn::indexed(cairn::ids(&ids), cairn::each_time([&u] {
                             return cairn::whole(Kokkos::subview(
                                 u.getLocalViewHost(Tpetra::Access::ReadWrite), Kokkos::ALL(), 0));
                           })));
  cairn::ManagerOptions options;
  options.keep.last = 2;
  if (argc > 4 && std::string(argv[4]) == "hdf5") options.store.format = cairn::Format::hdf5;
  cairn::CheckpointManager manager(ranks, argv[1], options);
  manager.restore_latest(state);
  report(*ranks, step, u);
  for (const auto end = step + std::atoll(argv[2]); step < end;) {
    matrix->apply(u, next);
    Tpetra::deep_copy(u, next);
    if (++step % 20 == 0 || step == end) report(*ranks, step, u);
  }
  manager.save(step, state);
}

}  // namespace

int main(int argc, char** argv) {
  const Tpetra::ScopeGuard scope(&argc, &argv);
  try {
    simulate(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tpetra_mesh: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}
