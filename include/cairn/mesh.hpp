#pragma once
/// Ranks as a grid with named dimensions, and how tensors are cut over it, in DTensor's terms.
/// Slices of a Layout are stored in DTensor's spelling, so that a DTensor of the same layout
/// restores them.
#include <string>
#include <string_view>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/state.hpp"

namespace cairn {

struct MeshDimension {
  std::string name;
  int size = 1;
  bool operator==(const MeshDimension&) const = default;
};

/// Ranks 0 … size-1 in a grid, row-major: the last dimension varies fastest, as the devices of a
/// DTensor mesh are numbered. A value, the same on all ranks; nothing here is collective.
class Mesh {
 public:
  /// Mesh({{"x", 2}, {"y", 3}}) has 6 ranks; no dimension: one rank. Throws invalid_argument for
  /// an empty or repeated name, the name "unsharded" and a size below 1.
  explicit Mesh(std::vector<MeshDimension> dimensions);

  int size() const { return size_; }
  const std::vector<MeshDimension>& dimensions() const { return dimensions_; }
  /// Throws invalid_argument if there is none of this name.
  int dimension_size(std::string_view name) const;
  /// One number per dimension. Throws invalid_argument for a rank outside of the mesh.
  std::vector<int> coordinates(int rank) const;
  int rank_at(const std::vector<int>& coordinates) const;
  bool operator==(const Mesh&) const = default;

 private:
  std::vector<MeshDimension> dimensions_;
  int size_ = 1;
};

/// "x=2,y=3"
std::string to_string(const Mesh&);

/// A dimension of a tensor that no mesh dimension cuts.
inline constexpr const char* unsharded = "unsharded";

/// Names for each dimension of a tensor the mesh dimension that cuts it, or `unsharded`. Ranks that
/// differ only in other mesh dimensions hold the same slice: replicas, of which one is stored.
///
/// Of n indices over p ranks each rank gets ceil(n / p) until none are left: the last rank that has
/// any may have fewer, and those after it have none. DTensor only divides without a remainder,
/// where this is the same.
///
/// A Layout only computes boxes. DTensor's spelling, which the index needs, goes with the slice
/// (LocalSlice::dash), so that the stages of a save know no meshes.
class Layout {
 public:
  /// Layout({"x", unsharded}, mesh): rows over x, columns whole. Throws invalid_argument for a name
  /// that the mesh does not have, and for one that cuts two dimensions.
  Layout(std::vector<std::string> sharding, Mesh mesh);
  /// The layout of a tensor that is whole on every rank.
  static Layout replicated(Mesh mesh, std::size_t tensor_rank);

  const Mesh& mesh() const { return mesh_; }
  const std::vector<std::string>& sharding() const { return sharding_; }
  bool fully_replicated() const;

  /// What this rank holds of a tensor of this shape; it may be empty. Throws invalid_argument if
  /// the shape has another number of dimensions, or the mesh has no such rank.
  Box slice(const Dims& shape, int rank) const;
  /// The ranks that hold the same slice as this one, including it, ascending.
  std::vector<int> replicas(int rank) const;
  /// True for each dimension that is stored as "-": the unsharded ones.
  std::vector<bool> dash() const;
  bool operator==(const Layout&) const = default;

 private:
  std::vector<std::string> sharding_;
  Mesh mesh_;
};

/// "x,unsharded on x=2,y=3"
std::string to_string(const Layout&);

/// This rank's part of a tensor under the layout: `data` is the first element of its slice, whose
/// extents are layout.slice(global_shape, rank).extent. Strides are in elements (none: row-major).
/// The tensor is stored sliced, in DTensor's spelling, unless stored(Storage::dense, …) says
/// otherwise: no one spelling serves both a DTensor on a mesh and a plain variable.
LocalTensor slice(DType dtype, void* data, Dims global_shape, const Layout& layout, int rank,
                  Dims strides = {});
LocalTensor slice(DType dtype, const void* data, Dims global_shape, const Layout& layout, int rank,
                  Dims strides = {});

template <Element T>
LocalTensor slice(T* data, Dims global_shape, const Layout& layout, int rank, Dims strides = {}) {
  using Pointer = std::conditional_t<std::is_const_v<T>, const void*, void*>;
  return slice(dtype_of<std::remove_cv_t<T>>::value, static_cast<Pointer>(data),
               std::move(global_shape), layout, rank, std::move(strides));
}

/// A tensor whose slices were made in another way (a View's, say), marked as this rank's part under
/// the layout. State::add refuses it unless it has exactly that slice.
LocalTensor laid_out(LocalTensor tensor, const Layout& layout, int rank);

}  // namespace cairn
