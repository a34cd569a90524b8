// Tensors on meshes, for DTensor to restore, and back.
// usage: mesh_samples save DIRECTORY     DIRECTORY/MESH/ours for each mesh, the same with an object
//                                        graph as objects-1, and EXPECTED.json
//        mesh_samples restore DIRECTORY  DIRECTORY/MESH/theirs, which DTensor has saved with the
//                                        same layouts, into other meshes and layouts
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "io/file_system.hpp"
#include "store/contents/contents_reader.hpp"
#include "support/sample_state.hpp"
#include "testing/threads.hpp"

namespace {

using cairn::Box;
using cairn::cat;
using cairn::DType;
using cairn::Group;
using cairn::Layout;
using cairn::Mesh;
using cairn::unsharded;
using cairn::test::Sample;

struct OnMesh {
  std::string name;
  Mesh mesh;
};

std::vector<OnMesh> meshes() {
  return {{"line", Mesh({{"x", 4}})},           {"square", Mesh({{"x", 2}, {"y", 2}})},
          {"thin", Mesh({{"x", 1}, {"y", 4}})}, {"cube", Mesh({{"x", 2}, {"y", 2}, {"z", 2}})},
          {"long", Mesh({{"x", 4}, {"y", 2}})}, {"one", Mesh({{"x", 1}})}};
}

// Each way to lay a matrix on the mesh, in each dtype that DTensor saves; extents divide evenly.
std::vector<std::pair<Sample, Layout>> tensors_on(const Mesh& mesh) {
  std::vector<std::pair<Sample, Layout>> all;
  std::vector<std::string> names{unsharded};
  for (const auto& dimension : mesh.dimensions()) names.push_back(dimension.name);
  for (const auto dtype : {DType::float32, DType::float16, DType::int64, DType::bfloat16}) {
    const auto name = std::string(cairn::dtype_name(dtype));
    for (const auto& rows : names) {
      all.push_back({{cat(name, "/", rows), dtype, {8}}, Layout({rows}, mesh)});
      for (const auto& columns : names) {
        if (rows == columns && rows != unsharded) continue;
        all.push_back(
            {{cat(name, "/", rows, ",", columns), dtype, {8, 16}}, Layout({rows, columns}, mesh)});
      }
    }
    all.push_back({{cat(name, "/scalar"), dtype, {}}, Layout::replicated(mesh, 0)});
  }
  return all;
}

std::string whole(const Sample& sample) {
  const auto item = cairn::dtype_size(sample.dtype);
  std::string hex;
  for (std::int64_t i = 0; i < cairn::element_count(sample.shape); ++i) {
    std::byte bytes[16];
    cairn::test::element_bytes(sample, i, 1, bytes);
    for (std::size_t b = 0; b < item; ++b) {
      char two[3];
      std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(bytes[b]));
      hex += two;
    }
  }
  return hex;
}

// The arguments of sharded_save and sharded_restore.
struct Lists {
  std::vector<std::string> names, slices;
  std::vector<cairn::LocalTensor> tensors;

  explicit Lists(const cairn::State& state) {
    for (const auto& [key, tensor] : state.tensors()) {
      names.push_back(key);
      slices.push_back("");
      tensors.push_back(tensor);
    }
  }
};

// Each rank has two rows of a tensor that no layout cuts.
Sample spelled(const Mesh& mesh) { return {"spelled", DType::float16, {2 * mesh.size(), 3}}; }

void save(const std::filesystem::path& directory) {
  auto expected = nlohmann::json::array();
  for (const auto& [name, mesh] : meshes()) {
    const auto tensors = tensors_on(mesh);
    cairn::run_threads(mesh.size(), [&, name = name, mesh = mesh](std::shared_ptr<Group> group) {
      cairn::test::SampleState mine(1);
      for (const auto& [sample, layout] : tensors) {
        mine.add(sample, {layout.slice(sample.shape, group->rank())}, 0,
                 [&, layout = layout](cairn::LocalTensor tensor) {
                   return laid_out(std::move(tensor), layout, group->rank());
                 });
      }
      mine.fill();
      Lists lists(mine.state());
      const auto rows = spelled(mesh);
      std::vector<std::byte> two_rows(6 * 2);
      for (int i = 0; i < 6; ++i) {
        cairn::test::element_bytes(rows, group->rank() * 6 + i, 1, &two_rows[2 * std::size_t(i)]);
      }
      lists.names.push_back(rows.key);
      lists.slices.push_back(cat(rows.shape[0], " 3 ", 2 * group->rank(), ",2:-"));
      lists.tensors.push_back(
          cairn::slice(rows.dtype, static_cast<void*>(two_rows.data()), {2, 3}, {0, 0}, {2, 3}));
      sharded_save(group, mesh, directory / name / "ours", lists.names, lists.slices,
                   lists.tensors);
      cairn::ManagerOptions options;
      options.name = "objects";
      options.store.object_graph = true;
      cairn::CheckpointManager(group, directory / name, options).save(1, mine.state());
    });
    nlohmann::json one{{"name", name}, {"dimensions", nlohmann::json::array()}};
    for (const auto& dimension : mesh.dimensions()) {
      one["dimensions"].push_back({dimension.name, dimension.size});
    }
    for (const auto& [sample, layout] : tensors) {
      one["tensors"].push_back({{"key", sample.key},
                                {"dtype", cairn::dtype_name(sample.dtype)},
                                {"shape", sample.shape},
                                {"sharding", layout.sharding()},
                                {"hex", whole(sample)}});
    }
    one["spelled"] = whole(spelled(mesh));
    expected.push_back(one);
  }
  std::ofstream out(directory / "EXPECTED.json");
  out << expected.dump(1) << '\n';
  if (!out.flush()) throw std::runtime_error("cannot write EXPECTED.json");
}

std::set<std::string> spelling(const cairn::StoredTensor& tensor) {
  std::set<std::string> all;
  for (const auto& slice : tensor.slices) {
    all.insert(tensor.sliced
                   ? to_string(cairn::SliceSpec{tensor.shape, slice.box, slice.dash, false})
                   : "plain");
  }
  return all;
}

// The same layouts must give the same slices in the same notation.
void compare(const cairn::CheckpointContents& ours, const cairn::CheckpointContents& theirs) {
  for (const auto& tensor : theirs.tensors) {
    const auto* other = ours.find(tensor.key);
    if (!other) throw std::runtime_error(tensor.key + " is missing");
    if (spelling(tensor) == spelling(*other)) continue;
    std::string text = cat(theirs.prefix, ": ", tensor.key, ":");
    for (const auto& one : spelling(*other)) text += " ours " + one;
    for (const auto& one : spelling(tensor)) text += " theirs " + one;
    throw std::runtime_error(text);
  }
}

void restore(const std::filesystem::path& directory) {
  std::mt19937 random(20261121);
  int restored = 0;
  const auto files = cairn::io::posix_file_system();
  for (const auto& [name, mesh] : meshes()) {
    compare(cairn::read_contents(*files, directory / name / "ours"),
            cairn::read_contents(*files, directory / name / "theirs"));
    const auto tensors = tensors_on(mesh);
    for (const auto& [other_name, other] : meshes()) {
      std::vector<Layout> wanted;
      for (const auto& [sample, layout] : tensors) {
        std::vector<std::string> sharding(sample.shape.size(), unsharded);
        for (const auto& dimension : other.dimensions()) {
          const auto d = random() % (sharding.size() + 1);
          if (d < sharding.size()) sharding[d] = dimension.name;
        }
        wanted.emplace_back(sharding, other);
      }
      cairn::run_threads(other.size(), [&, name = name,
                                        other = other](std::shared_ptr<Group> group) {
        cairn::test::SampleState mine(1);
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          const auto& sample = tensors[i].first;
          mine.add(sample, {wanted[i].slice(sample.shape, group->rank())}, static_cast<int>(i % 3));
        }
        const Lists lists(mine.state());
        sharded_restore(group, other, directory / name / "theirs", lists.names, lists.slices,
                        lists.tensors);
        const auto wrong = mine.check(1);
        if (!wrong.empty()) throw std::runtime_error(wrong);
      });
      restored += static_cast<int>(tensors.size());
    }
  }
  std::cout << "restored " << restored << " tensors that DTensor saved\n";
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string command = argc == 3 ? argv[1] : "";
  if (command != "save" && command != "restore") {
    throw std::runtime_error("usage: mesh_samples save|restore DIRECTORY");
  }
  command == "save" ? save(argv[2]) : restore(argv[2]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "mesh_samples: %s\n", error.what());
  return 1;
}
