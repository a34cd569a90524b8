// Ragged and rank-private tensors of a save, as the plain ones that are stored.
#include <cstdio>
#include <map>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "cairn/ragged.hpp"
#include "group/collectives.hpp"
#include "job/messages.hpp"
#include "model/follow.hpp"
#include "model/keys.hpp"
#include "save/resolve.hpp"

namespace cairn {
namespace {

// What all ranks together say of one ragged tensor.
struct Gathered {
  DType dtype{};
  Dims shape;  // of the whole; [0] grows
  int first_rank = 0;
  std::int64_t start = 0;  // of this rank's rows
};

std::int64_t rows_of(const std::string& key, const Rows& rows) {
  try {
    return rows.count();
  } catch (const Error& error) {
    throw named(error, key);
  }
}

std::map<std::string, Gathered> gather_rows(Group& group, const State& state) {
  WireWriter mine;
  together(group, [&] {
    for (const auto& [key, tensor] : state.tensors()) {
      if (!tensor.unresolved || tensor.unresolved->kind != Unresolved::Kind::ragged) continue;
      Dims shape = tensor.shape;
      shape[0] = rows_of(key, *tensor.unresolved->rows);
      put(mine.put(key).put(tensor.dtype), shape);
    }
  });
  const auto all = all_gather(group, mine.take());
  std::map<std::string, Gathered> tensors;
  for (int rank = 0; rank < group.size(); ++rank) {
    for (WireReader reader(all[static_cast<std::size_t>(rank)]); !reader.empty();) {
      const auto key = reader.get<std::string>();
      const auto dtype = reader.get<DType>();
      auto shape = get_dims(reader);
      const auto rows = shape[0];
      shape[0] = 0;
      auto& one = tensors.try_emplace(key, Gathered{dtype, shape, rank, 0}).first->second;
      const auto start = one.shape[0];
      shape[0] = start;
      if (dtype != one.dtype || shape != one.shape) {
        const auto rows_text = [](DType of, const Dims& whole) {
          return cat(dtype_name(of), " ", shape_text(Dims(whole.begin() + 1, whole.end())));
        };
        throw Error(Code::disagreement,
                    cat("ragged tensor '", key, "' has rows of ", rows_text(one.dtype, one.shape),
                        " on rank ", one.first_rank, " and of ", rows_text(dtype, shape),
                        " on rank ", rank),
                    "only their number may differ between ranks")
            .of_tensor(key);
      }
      if (rank == group.rank()) one.start = start;
      one.shape[0] += rows;
    }
  }
  return tensors;
}

// All of these rows, as a slice of the tensor that begins there.
LocalTensor with_rows(LocalTensor tensor, const Rows& rows, Dims shape, std::int64_t start) {
  tensor.shape = std::move(shape);
  Box box = Box::whole(tensor.shape);
  box.start[0] = start;
  box.extent[0] = rows.count();
  if (!box.empty()) tensor.slices = {{std::move(box), rows.memory()}};
  return tensor;
}

}  // namespace

std::optional<State> resolve(Group& group, const Look& look) {
  const State& state = look.state;
  enum : std::int64_t { plain, unresolved, failed };
  std::int64_t most = look.error() ? failed : plain;
  for (const auto& [key, tensor] : state.tensors()) {
    if (tensor.unresolved && most == plain) most = unresolved;
  }
  most = all_reduce(group, most, Group::Op::max);
  if (most == failed) agree(group, look.error());
  if (most == plain) return std::nullopt;
  const auto gathered = gather_rows(group, state);
  return together(group, [&] {
    State plain;
    plain.store(state.storage());
    const auto& notes = state.objects();
    if (notes.graph) plain.carry(notes.graph);
    for (const auto& [path, target] : notes.aliases) plain.alias(path, target);
    for (const auto& [key, variable] : notes.names) {
      const auto* tensor = state.find(key);
      const bool is_private = tensor && tensor->unresolved &&
                              tensor->unresolved->kind == Unresolved::Kind::rank_private;
      plain.name(is_private ? private_key(key, group.rank(), group.size()) : key, variable);
    }
    for (const auto& [key, given] : state.tensors()) {
      const auto what = given.unresolved;
      auto tensor = given;
      tensor.unresolved = nullptr;
      tensor.source = nullptr;
      if (!what) {
        plain.add(key, std::move(tensor));
      } else if (what->kind == Unresolved::Kind::ragged) {
        const auto& all = gathered.at(key);
        plain.add(key, with_rows(std::move(tensor), *what->rows, all.shape, all.start));
      } else {
        if (what->rows) {
          auto shape = tensor.shape;
          shape[0] = rows_of(key, *what->rows);
          tensor = with_rows(std::move(tensor), *what->rows, std::move(shape), 0);
        }
        plain.add(private_key(key, group.rank(), group.size()), std::move(tensor));
      }
    }
    return plain;
  });
}

}  // namespace cairn
