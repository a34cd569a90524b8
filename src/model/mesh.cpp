#include "cairn/mesh.hpp"

#include <algorithm>
#include <limits>

#include "base/text.hpp"
#include "cairn/error.hpp"
#include "model/follow.hpp"

namespace cairn {
namespace {

[[noreturn]] void refuse_mesh(std::string problem, std::string reason = "",
                              std::string way_out = "") {
  throw Error(Code::invalid_argument, std::move(problem), std::move(reason), std::move(way_out));
}

std::string names_text(const Mesh& mesh) {
  std::string text;
  for (const auto& one : mesh.dimensions()) text += cat(text.empty() ? "" : ", ", one.name);
  return text.empty() ? "none" : text;
}

}  // namespace

Mesh::Mesh(std::vector<MeshDimension> dimensions) : dimensions_(std::move(dimensions)) {
  for (std::size_t i = 0; i < dimensions_.size(); ++i) {
    const auto& [name, size] = dimensions_[i];
    if (name.empty()) refuse_mesh(cat("dimension ", i, " of a mesh has no name"));
    if (name == unsharded) {
      refuse_mesh("a mesh dimension is called 'unsharded'", "a Layout says so where nothing cuts");
    }
    if (size < 1) refuse_mesh(cat("mesh dimension '", name, "' has size ", size));
    for (std::size_t j = 0; j < i; ++j) {
      if (dimensions_[j].name == name)
        refuse_mesh(cat("a mesh has two dimensions called '", name, "'"));
    }
    if (size_ > std::numeric_limits<int>::max() / size) {
      refuse_mesh(cat("a mesh has more ranks than fit an int"));
    }
    size_ *= size;
  }
}

int Mesh::dimension_size(std::string_view name) const {
  for (const auto& one : dimensions_) {
    if (one.name == name) return one.size;
  }
  refuse_mesh(cat("the mesh has no dimension '", name, "'"), cat("it has ", names_text(*this)));
}

// Ranks are numbered row-major: the last dimension of the mesh changes fastest.
std::vector<int> Mesh::coordinates(int rank) const {
  if (rank < 0 || rank >= size_) {
    refuse_mesh(cat("rank ", rank, " is not in the mesh ", to_string(*this)),
                cat("it has ", size_, " ranks"), "Make a mesh of as many ranks as the job has.");
  }
  std::vector<int> at(dimensions_.size());
  for (auto d = at.size(); d-- > 0;) {
    at[d] = rank % dimensions_[d].size;
    rank /= dimensions_[d].size;
  }
  return at;
}

int Mesh::rank_at(const std::vector<int>& coordinates) const {
  if (coordinates.size() != dimensions_.size()) {
    refuse_mesh(cat(coordinates.size(), " coordinates are given for the mesh ", to_string(*this)));
  }
  int rank = 0;
  for (std::size_t d = 0; d < dimensions_.size(); ++d) {
    if (coordinates[d] < 0 || coordinates[d] >= dimensions_[d].size) {
      refuse_mesh(cat("coordinate ", coordinates[d], " lies outside of mesh dimension '",
                      dimensions_[d].name, "'"),
                  cat("its size is ", dimensions_[d].size));
    }
    rank = rank * dimensions_[d].size + coordinates[d];
  }
  return rank;
}

std::string to_string(const Mesh& mesh) {
  std::string text;
  for (const auto& one : mesh.dimensions()) {
    text += cat(text.empty() ? "" : ",", one.name, "=", one.size);
  }
  return text.empty() ? "of one rank" : text;
}

Layout::Layout(std::vector<std::string> sharding, Mesh mesh)
    : sharding_(std::move(sharding)), mesh_(std::move(mesh)) {
  for (std::size_t d = 0; d < sharding_.size(); ++d) {
    if (sharding_[d] == unsharded) continue;
    mesh_.dimension_size(sharding_[d]);
    if (std::count(sharding_.begin(), sharding_.end(), sharding_[d]) > 1) {
      refuse_mesh(
          cat("a layout cuts two dimensions of a tensor along mesh dimension '", sharding_[d], "'"),
          "a rank would hold the diagonal only");
    }
  }
}

Layout Layout::replicated(Mesh mesh, std::size_t tensor_rank) {
  return Layout(std::vector<std::string>(tensor_rank, unsharded), std::move(mesh));
}

bool Layout::fully_replicated() const {
  return std::all_of(sharding_.begin(), sharding_.end(), [&](const auto& name) {
    return name == unsharded || mesh_.dimension_size(name) == 1;
  });
}

// Cuts each dimension of the tensor that the layout names into blocks, one for each coordinate of
// the rank along that mesh dimension.
Box Layout::slice(const Dims& shape, int rank) const {
  if (shape.size() != sharding_.size()) {
    refuse_mesh(
        cat("the layout ", to_string(*this), " is used for a tensor of shape ", shape_text(shape)),
        cat("it is one of ", sharding_.size(), " dimensions"));
  }
  element_count(shape);
  const auto at = mesh_.coordinates(rank);
  Box box = Box::whole(shape);
  for (std::size_t m = 0; m < at.size(); ++m) {
    const auto& [name, parts] = mesh_.dimensions()[m];
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (sharding_[d] != name) continue;
      // All blocks are equally long, except the last ones, which may be shorter or empty.
      const auto block = shape[d] / parts + (shape[d] % parts != 0);
      // Avoids overflow: at[m] blocks may be more than there are indices.
      box.start[d] = block != 0 && at[m] > shape[d] / block ? shape[d] : at[m] * block;
      box.extent[d] = std::min(block, shape[d] - box.start[d]);
    }
  }
  return box;
}

std::vector<int> Layout::replicas(int rank) const {
  // Coordinates along mesh dimensions that cut nothing do not matter: ranks that differ only in
  // these hold the same slice.
  const auto fixed = [&](int other) {
    auto at = mesh_.coordinates(other);
    for (std::size_t m = 0; m < at.size(); ++m) {
      const auto& name = mesh_.dimensions()[m].name;
      if (std::find(sharding_.begin(), sharding_.end(), name) == sharding_.end()) at[m] = 0;
    }
    return at;
  };
  const auto mine = fixed(rank);
  std::vector<int> ranks;
  for (int other = 0; other < mesh_.size(); ++other) {
    if (fixed(other) == mine) ranks.push_back(other);
  }
  return ranks;
}

std::vector<bool> Layout::dash() const {
  std::vector<bool> dash;
  for (const auto& name : sharding_) dash.push_back(name == unsharded);
  return dash;
}

std::string to_string(const Layout& layout) {
  std::string text;
  for (const auto& name : layout.sharding()) text += cat(text.empty() ? "" : ",", name);
  return cat(text.empty() ? "of a scalar" : text, " on ", to_string(layout.mesh()));
}

// Checks that a tensor's slice is the one that the layout gives the rank, and marks the dimensions
// that nothing cuts.
LocalTensor laid_out(LocalTensor tensor, const Layout& layout, int rank) {
  if (tensor.refused) return tensor;
  // The tensor may be another at each save, so it is laid out anew each time.
  if (tensor.source) {
    return each_time([=] { return laid_out(looked_at(tensor), layout, rank); });
  }
  return or_refused([&] {
    const auto box = layout.slice(tensor.shape, rank);
    if (tensor.slices.size() != 1 || tensor.slices.front().box != box) {
      refuse_mesh(cat("rank ", rank, " holds ",
                      tensor.slices.size() == 1 ? box_text(tensor.slices.front().box)
                                                : cat(tensor.slices.size(), " slices"),
                      " of a tensor of shape ", shape_text(tensor.shape)),
                  cat("the layout ", to_string(layout), " gives it ", box_text(box)));
    }
    tensor.slices.front().dash = layout.dash();
    tensor.storage = Storage::sliced;
    return std::move(tensor);
  });
}

namespace {

template <class Data>
LocalTensor slice_of(DType dtype, Data* data, Dims shape, const Layout& layout, int rank,
                     Dims strides) {
  return or_refused([&] {
    auto box = layout.slice(shape, rank);
    return laid_out(slice(dtype, data, std::move(shape), std::move(box.start),
                          std::move(box.extent), std::move(strides)),
                    layout, rank);
  });
}

}  // namespace

LocalTensor slice(DType dtype, void* data, Dims shape, const Layout& layout, int rank,
                  Dims strides) {
  return slice_of(dtype, data, std::move(shape), layout, rank, std::move(strides));
}

LocalTensor slice(DType dtype, const void* data, Dims shape, const Layout& layout, int rank,
                  Dims strides) {
  return slice_of(dtype, data, std::move(shape), layout, rank, std::move(strides));
}

}  // namespace cairn
