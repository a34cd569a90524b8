#pragma once
/// The proof that the slices of all ranks make up each tensor: same dtype and shape everywhere,
/// nothing twice, nothing missing, nothing outside. Identical slices are replicas.
#include <cstdint>
#include <string>
#include <optional>
#include <utility>
#include <vector>

#include "cairn/box.hpp"
#include "cairn/dtype.hpp"

namespace cairn {

/// What ranks say of one tensor.
struct Declaration {
  std::string key;
  DType dtype{};
  Dims shape;
  int rank = 0;            ///< who says so
  std::vector<Box> boxes;  ///< its slices; empty: it holds none but knows the tensor
};

/// One distinct slice and all who hold it (ascending ranks, with the index of the box in the
/// holder's declaration).
struct HeldSlice {
  struct Holder {
    int rank;
    int box;
  };
  Box box;
  std::vector<Holder> holders;
};

struct CoveredTensor {
  std::string key;
  DType dtype{};
  Dims shape;
  std::vector<HeldSlice> slices;  ///< ascending by box
};

/// Collects declarations (in any order, any number a rank) and checks them. Throws Code::coverage,
/// or Code::disagreement for dtypes and shapes, naming the tensor, the box and the ranks:
/// "tensor 'u' [512 512]: rows 128..255 × 0..511 are held by no rank". Sub-quadratic in boxes. The
/// result is ascending by key. Boxes without elements count as present where the tensor has none.
std::vector<CoveredTensor> check_coverage(std::vector<Declaration> declarations);

/// Chooses a writer for each slice so that bytes balance over ranks: result[t][s] is an index into
/// tensors[t].slices[s].holders. Deterministic. slice_bytes(t, s) may be nullptr: by dtype.
std::vector<std::vector<int>> choose_writers(const std::vector<CoveredTensor>& tensors, int ranks);

/// Any box of `whole` that none of these disjoint boxes touches, as large as it can be grown; an
/// empty optional if they cover it. Shared with the reader's check of stored slices.
std::optional<Box> find_gap(const Box& whole, const std::vector<Box>& boxes);

/// Indices of two boxes that share an element, or nothing.
std::optional<std::pair<std::size_t, std::size_t>> find_overlap(const std::vector<Box>& boxes);

}  // namespace cairn
