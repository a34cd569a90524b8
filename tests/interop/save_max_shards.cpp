// Saves a checkpoint under MaxShardSizePolicy, for TensorFlow to read.
// usage: mpirun -np N save_max_shards DIRECTORY
// Leaves DIRECTORY/run/ckpt-1 and DIRECTORY/EXPECTED.json: digests of whole tensors and of the
// slices that the policy made, the limit, and which tensors may not be cut.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"
#include "support/sample_state.hpp"
#include "support/sha256.hpp"

namespace {

using cairn::Box;
using cairn::cat;
using cairn::DType;
using cairn::test::Sample;

constexpr std::int64_t limit = 1000;
constexpr std::uint64_t version = 77;

struct Held {
  Sample sample;
  int rank;  // the rank that holds it whole; -1: all ranks, -2: rows over the ranks
};

std::vector<Held> samples(int ranks) {
  std::vector<Held> all;
  int turn = 0;
  for (int number = 1; number <= 33; ++number) {
    const auto dtype = cairn::dtype_from_number(number);
    if (!dtype || cairn::dtype_size(*dtype) == 0) continue;
    const auto name = std::string(cairn::dtype_name(*dtype));
    all.push_back({{cat("matrix/", name), *dtype, {37, 30}}, turn++ % ranks});
    all.push_back({{cat("small/", name), *dtype, {3, 2}}, turn++ % ranks});
    all.push_back({{cat("scalar/", name), *dtype, {}}, -1});
    all.push_back({{cat("empty/", name), *dtype, {2, 0, 3}}, turn++ % ranks});
    // With several ranks, types that TensorFlow cannot assemble are stored dense.
    if (cairn::dtype_assembles_in_tensorflow(*dtype)) {
      all.push_back({{cat("rows/", name), *dtype, {3 * ranks, 5, 7}}, -2});
    } else {
      all.push_back({{cat("dense/", name), *dtype, {9 * ranks, 5, 7}}, -2});
    }
  }
  all.push_back({{"long row", DType::float64, {1, 1, 900}}, 0});
  all.push_back({{"deep", DType::complex128, {3, 2, 3, 2, 5}}, ranks - 1});
  return all;
}

const std::vector<std::string> long_words{std::string(3000, 'x'), "", "two words"};
const std::vector<std::string> short_words{"cairn", "\xc3\xbc"};

void add(cairn::test::SampleState& mine, const Held& held, int rank, int ranks) {
  const auto whole = Box::whole(held.sample.shape);
  std::vector<Box> boxes;
  if (held.rank == -1 || held.rank == rank) boxes.push_back(whole);
  if (held.rank == -2) {
    boxes.push_back(whole);
    boxes[0].extent[0] = whole.extent[0] / ranks;
    boxes[0].start[0] = rank * boxes[0].extent[0];
  }
  mine.add(held.sample, boxes, rank % 3);
}

std::string bytes_of(const Sample& sample, const Box& box) {
  const auto item = cairn::dtype_size(sample.dtype);
  const auto inner = cairn::row_major_strides(box.extent);
  const auto global = cairn::row_major_strides(sample.shape);
  std::string bytes(static_cast<std::size_t>(box.count()) * item, '\0');
  for (std::int64_t i = 0; i < box.count(); ++i) {
    std::int64_t rest = i, index = 0;
    for (std::size_t d = 0; d < inner.size(); ++d) {
      index += (box.start[d] + rest / inner[d]) * global[d];
      rest %= inner[d];
    }
    cairn::test::element_bytes(
        sample, index, version,
        reinterpret_cast<std::byte*>(&bytes[static_cast<std::size_t>(i) * item]));
  }
  return bytes;
}

nlohmann::json expected_tensor(const Sample& sample, const cairn::StoredTensor& stored) {
  nlohmann::json out{{"key", sample.key},
                     {"dtype", cairn::dtype_name(sample.dtype)},
                     {"dtype_number", static_cast<int>(sample.dtype)},
                     {"shape", sample.shape},
                     {"may_be_cut", cairn::dtype_assembles_in_tensorflow(sample.dtype)},
                     {"sha256", cairn::test::sha256(bytes_of(sample, Box::whole(sample.shape)))}};
  if (!stored.sliced) return out;
  for (const auto& slice : stored.slices) {
    out["slices"].push_back({{"spec", cairn::slice_spec_text(sample.shape, slice.box)},
                             {"sha256", cairn::test::sha256(bytes_of(sample, slice.box))}});
  }
  return out;
}

nlohmann::json expected_strings(const std::string& key, const std::vector<std::string>& values) {
  std::string bytes;
  for (const auto& value : values) {
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(std::uint64_t{value.size()} >> 8 * i);
    bytes += value;
  }
  return {{"key", key},          {"dtype", "string"},
          {"dtype_number", 7},   {"shape", {values.size()}},
          {"may_be_cut", false}, {"sha256", cairn::test::sha256(bytes)}};
}

void write(const std::filesystem::path& directory) {
  const auto group = cairn::mpi(MPI_COMM_WORLD);
  const auto all = samples(group->size());
  cairn::test::SampleState mine(version);
  for (const auto& held : all) add(mine, held, group->rank(), group->size());
  mine.add_string("strings/long", long_words);
  mine.add_string("strings/short", short_words);
  mine.fill();
  cairn::set_log_sink({});  // a tensor that is not cut is a warning
  cairn::ManagerOptions options;
  options.store.policy = std::make_shared<cairn::MaxShardSizePolicy>(limit);
  cairn::CheckpointManager manager(group, directory / "run", options);
  manager.save(1, mine.state());
  const auto contents = manager.open(1);
  if (group->rank() != 0) return;
  nlohmann::json tensors;
  for (const auto& held : all) {
    tensors.push_back(expected_tensor(held.sample, *contents.find(held.sample.key)));
  }
  tensors.push_back(expected_strings("strings/long", long_words));
  tensors.push_back(expected_strings("strings/short", short_words));
  const nlohmann::json expected{{"limit", limit},
                                {"checkpoints", {{{"prefix", "ckpt-1"}, {"tensors", tensors}}}}};
  std::ofstream out(directory / "EXPECTED.json");
  out << expected.dump(1) << '\n';
  if (!out.flush()) throw std::runtime_error("cannot write EXPECTED.json");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    if (argc != 2) throw std::runtime_error("usage: save_max_shards DIRECTORY");
    write(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "save_max_shards: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
