#include "store/nodes/erasure.hpp"

#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/text.hpp"
#include "cairn/error.hpp"

namespace cairn::protect {
namespace {

using Matrix = std::vector<std::uint8_t>;

std::size_t at(int row, int columns, int column = 0) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
         static_cast<std::size_t>(column);
}

// A row of the matrix for each place of the code: how its block is computed from the data.
Matrix generator(const Code& code) {
  if (code.nodes > most_nodes || code.data() < 1) {
    throw Error(cairn::Code::internal,
                cat("no code has ", code.nodes, " blocks a row, ", code.parity, " of them parity"));
  }
  Matrix all(at(code.nodes, code.data()));
  gf_gen_cauchy1_matrix(all.data(), code.nodes, code.data());
  const auto parity = static_cast<std::ptrdiff_t>(at(code.data(), code.data()));
  // A single parity block is the sum (XOR) of the data.
  if (code.parity == 1) std::fill(all.begin() + parity, all.end(), std::uint8_t{1});
  return all;
}

}  // namespace

Transform::Transform(int from, int to, const std::uint8_t* rows)
    : from_(from), to_(to), tables_(32 * at(to, from)) {
  is_sum_ =
      to == 1 && std::all_of(rows, rows + at(to, from), [](auto factor) { return factor == 1; });
  auto copy = Matrix(rows, rows + at(to, from));
  ec_init_tables(from, to, copy.data(), tables_.data());
}

Transform Transform::encode(const Code& code, int parity) {
  const auto all = generator(code);
  return {code.data(), 1, all.data() + at(code.data() + parity, code.data())};
}

// The rows of the blocks that are there give these from the data. The inverse of that matrix gives
// the data back, and the generator's rows then give the wanted blocks.
Transform Transform::decode(const Code& code, const std::vector<int>& there,
                            const std::vector<int>& wanted) {
  const int data = code.data();
  const auto all = generator(code);
  Matrix known, back(at(data, data));
  for (const int place : there) {
    known.insert(known.end(), all.begin() + static_cast<std::ptrdiff_t>(at(place, data)),
                 all.begin() + static_cast<std::ptrdiff_t>(at(place + 1, data)));
  }
  if (static_cast<int>(there.size()) != data ||
      gf_invert_matrix(known.data(), back.data(), data) != 0) {
    throw Error(cairn::Code::internal, cat("blocks cannot be computed from ", there.size(),
                                           " others of a row that has ", data, " of data"));
  }
  // The rows for the wanted places, expressed in the blocks that are there.
  Matrix rows;
  for (const int place : wanted) {
    for (int column = 0; column < data; ++column) {
      std::uint8_t sum = 0;
      for (int k = 0; k < data; ++k) {
        sum = static_cast<std::uint8_t>(sum ^
                                        gf_mul(all[at(place, data, k)], back[at(k, data, column)]));
      }
      rows.push_back(sum);
    }
  }
  return {data, static_cast<int>(wanted.size()), rows.data()};
}

void Transform::apply(std::int64_t bytes, std::span<const std::byte* const> from,
                      std::span<std::byte* const> to) const {
  // The summing functions of ISA-L need aligned addresses: others would end the process.
  const auto begins_well = [](const std::byte* block) {
    return reinterpret_cast<std::uintptr_t>(block) % 64 == 0;
  };
  if (static_cast<int>(from.size()) != from_ || static_cast<int>(to.size()) != to_ ||
      bytes > std::numeric_limits<int>::max() ||
      !std::all_of(from.begin(), from.end(), begins_well) ||
      !std::all_of(to.begin(), to.end(), begins_well)) {
    throw Error(cairn::Code::internal, "blocks that do not fit their code");
  }
  if (is_sum_ && from_ == 1) {
    std::memcpy(to[0], from[0], static_cast<std::size_t>(bytes));
    return;
  }
  // ISA-L takes both arrays without const, but changes only the blocks of `to`.
  if (is_sum_) {
    std::vector<void*> all;
    for (const auto* one : from) all.push_back(const_cast<std::byte*>(one));
    all.push_back(to[0]);
    if (xor_gen(from_ + 1, static_cast<int>(bytes), all.data()) != 0) {
      throw Error(cairn::Code::internal, "blocks cannot be added up");
    }
    return;
  }
  std::vector<std::uint8_t*> in, out;
  for (const auto* one : from)
    in.push_back(reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(one)));
  for (auto* one : to) out.push_back(reinterpret_cast<std::uint8_t*>(one));
  auto* tables = const_cast<std::uint8_t*>(tables_.data());
  ec_encode_data(static_cast<int>(bytes), from_, to_, tables, in.data(), out.data());
}

}  // namespace cairn::protect
