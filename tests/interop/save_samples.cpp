// Saves checkpoints with one of everything, for other readers to open.
// usage: mpirun -np N save_samples [--no-atomic-rename | --mpi-io | --hdf5 | --hdf5-collective]
//        DIRECTORY
// Leaves DIRECTORY/run with steps 10, 20 and 30, the last one overwritten, and
// DIRECTORY/EXPECTED.json that says what is in them (dtypes, shapes, digests of whole tensors and
// of slices).
#include <array>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"
#include "cairn/cairn.hpp"
#include "cairn/mpi.hpp"
#include "support/sample_state.hpp"
#include "support/sha256.hpp"

namespace {

using cairn::Box;
using cairn::cat;
using cairn::DType;
using cairn::Storage;
using cairn::test::Sample;

constexpr int first_dtype = 1, last_dtype = 33;

// A tensor, the pieces in which it is held, and the ranks that hold them.
struct PlannedSave {
  Sample sample;
  std::vector<Box> pieces;
  std::vector<std::vector<Box>> held;  // by rank
  int style = 0;
  Storage storage = Storage::automatic;
  enum { plain, ragged, rank_private, indexed } kind = plain;

  bool sliced() const {
    return pieces.size() > 1 &&
           (storage == Storage::automatic ? cairn::dtype_assembles_in_tensorflow(sample.dtype)
                                          : storage == Storage::sliced);
  }
};

std::vector<Box> grid(const cairn::Dims& shape, const std::vector<int>& parts) {
  std::vector<Box> boxes{Box::whole(shape)};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<Box> cut;
    for (const auto& box : boxes) {
      for (int i = 0; i < parts[d]; ++i) {
        Box part = box;
        part.start[d] = shape[d] * i / parts[d];
        part.extent[d] = shape[d] * (i + 1) / parts[d] - part.start[d];
        cut.push_back(part);
      }
    }
    boxes = std::move(cut);
  }
  return boxes;
}

class Plan {
 public:
  explicit Plan(int ranks) : ranks_(ranks) {
    for (int number = first_dtype; number <= last_dtype; ++number) {
      const auto dtype = cairn::dtype_from_number(number);
      if (!dtype || cairn::dtype_size(*dtype) == 0) continue;
      const auto name = std::string(cairn::dtype_name(*dtype));
      whole({cat("plain/", name), *dtype, {3, 5}});
      whole({cat("scalar/", name), *dtype, {}});
      whole({cat("empty/", name), *dtype, {2, 0, 3}});
      if (cairn::dtype_assembles_in_tensorflow(*dtype)) {
        pieces({cat("grid/", name), *dtype, {2 * ranks + 1, 6}},
               grid({2 * ranks + 1, 6}, {ranks, 2}), false);
        pieces({cat("irregular/", name), *dtype, {9, 11, 4}},
               cairn::test::guillotine({9, 11, 4}, 2 * ranks + 5, random_), true);
        pieces({cat("on request/", name), *dtype, {2 * ranks + 1, 6}},
               grid({2 * ranks + 1, 6}, {ranks, 2}), false, Storage::dense);
      } else {
        pieces({cat("exact/", name), *dtype, {ranks + 3, 2}}, grid({ranks + 3, 2}, {ranks + 1, 1}),
               false, Storage::sliced);
        pieces({cat("dense/", name), *dtype, {2 * ranks + 1, 6}},
               grid({2 * ranks + 1, 6}, {ranks, 2}), false);
        pieces({cat("dense irregular/", name), *dtype, {9, 11, 4}},
               cairn::test::guillotine({9, 11, 4}, 2 * ranks + 5, random_), true);
      }
    }
    // Large enough to begin on a page, after a gap.
    pieces({"rows", DType::float64, {ranks * 400, 30}}, grid({ranks * 400, 30}, {ranks, 1}), false);
    pieces({"dense rows", DType::float16, {ranks * 4000, 30}}, grid({ranks * 4000, 30}, {ranks, 1}),
           false);
    pieces({"dense columns", DType::uint64, {3001, 2 * ranks}}, grid({3001, 2 * ranks}, {1, ranks}),
           false);
    pieces({"deep", DType::int32, {5, 4, 6, 2, 3}}, grid({5, 4, 6, 2, 3}, {2, 1, 3, 1, 1}), true);
    pieces({"replica on every rank", DType::float32, {17}}, {Box::whole({17})}, false);
    tensors.back().held.assign(static_cast<std::size_t>(ranks), {Box::whole({17})});
    // Large enough that its holders share the writing.
    for (const auto dtype : {DType::float32, DType::float16}) {
      const cairn::Dims shape{64, 1 << 15};
      pieces({cat("large replica/", cairn::dtype_name(dtype)), dtype, shape}, {Box::whole(shape)},
             false);
      tensors.back().held.assign(static_cast<std::size_t>(ranks), {Box::whole(shape)});
    }
    rows_by_rank();
    rows_by_id();
    for (int rank = 0; rank < ranks; ++rank) {
      char key[64];
      std::snprintf(key, sizeof key, "private/rank-%05d-of-%05d", rank, ranks);
      pieces({key, DType::uint8, {5 + rank}}, {Box::whole({5 + rank})}, false);
      tensors.back().held.assign(static_cast<std::size_t>(ranks), {});
      tensors.back().held[static_cast<std::size_t>(rank)] = tensors.back().pieces;
      tensors.back().kind = PlannedSave::rank_private;
    }
  }

  std::vector<PlannedSave> tensors;
  const std::vector<std::pair<std::string, std::vector<std::string>>> strings{
      {"strings/words",
       {"cairn", "", "two words", "\xc3\xbc", std::string("\0nul", 4), "\xff\xfe"}},
      {"strings/empty", {"", "", ""}},
      {"strings/none", {}},
      {"strings/long",
       {std::string(200000, 'x'), "y", std::string(127, 'a'), std::string(128, 'b')}}};

 private:
  // Ragged: 3, 1, 4, 2, 0, … rows.
  void rows_by_rank() {
    PlannedSave one{{"ragged rows", DType::float64, {0, 3}},
                    {},
                    {},
                    0,
                    Storage::automatic,
                    PlannedSave::ragged};
    one.held.resize(static_cast<std::size_t>(ranks_));
    for (int rank = 0; rank < ranks_; ++rank) {
      const Box box{{one.sample.shape[0], 0}, {(rank + 1) * 3 % 5, 3}};
      if (box.empty()) continue;
      one.sample.shape[0] += box.extent[0];
      one.pieces.push_back(box);
      one.held[static_cast<std::size_t>(rank)] = {box};
    }
    tensors.push_back(std::move(one));
  }
  // Each row is on some rank, the last rows first.
  void rows_by_id() {
    PlannedSave one{
        {"indexed rows", DType::float32, {57, 5}}, {}, {}, 0, Storage::dense, PlannedSave::indexed};
    one.held.resize(static_cast<std::size_t>(ranks_));
    for (std::int64_t id = 56; id >= 0; --id) {
      const Box box{{id, 0}, {1, 5}};
      one.pieces.push_back(box);
      one.held[static_cast<std::size_t>((id * 7 + id / 5) % ranks_)].push_back(box);
    }
    tensors.push_back(std::move(one));
  }
  void whole(Sample sample) {
    const auto all = Box::whole(sample.shape);
    pieces(std::move(sample), {all}, false);
  }
  void pieces(Sample sample, std::vector<Box> boxes, bool dealt_at_random,
              Storage storage = Storage::automatic) {
    PlannedSave one{std::move(sample), std::move(boxes), {}, turn_ % 3, storage};
    if (dealt_at_random) {
      one.held = cairn::test::deal(one.pieces, ranks_, true, random_);
    } else {
      one.held.resize(static_cast<std::size_t>(ranks_));
      for (const auto& box : one.pieces) {
        one.held[static_cast<std::size_t>(turn_++ % ranks_)].push_back(box);
      }
    }
    ++turn_;
    tensors.push_back(std::move(one));
  }

  int ranks_;
  int turn_ = 0;
  std::mt19937 random_{20261121};
};

std::string bytes_of(const Sample& sample, const Box& box, std::uint64_t version) {
  const auto item = cairn::dtype_size(sample.dtype);
  const auto global = cairn::row_major_strides(sample.shape);
  std::string bytes(static_cast<std::size_t>(box.count()) * item, '\0');
  const cairn::test::Elements elements(sample, version);
  cairn::Dims at = box.start;
  for (std::size_t i = 0; i < bytes.size(); i += item) {
    std::int64_t index = 0;
    for (std::size_t d = 0; d < at.size(); ++d) index += at[d] * global[d];
    elements.bytes(index, reinterpret_cast<std::byte*>(&bytes[i]));
    for (auto d = at.size(); d-- > 0;) {
      if (++at[d] < box.end(d)) break;
      at[d] = box.start[d];
    }
  }
  return bytes;
}

nlohmann::json expected_tensor(const PlannedSave& one, std::uint64_t version) {
  const auto& sample = one.sample;
  const auto bytes = bytes_of(sample, Box::whole(sample.shape), version);
  nlohmann::json out{{"key", sample.key},
                     {"dtype", cairn::dtype_name(sample.dtype)},
                     {"dtype_number", static_cast<int>(sample.dtype)},
                     {"shape", sample.shape},
                     {"nbytes", bytes.size()},
                     {"sha256", cairn::test::sha256(bytes)}};
  if (!one.sliced()) return out;
  out["covered"] = true;
  if (!cairn::dtype_assembles_in_tensorflow(sample.dtype)) out["exact_match_only"] = true;
  for (const auto& box : std::set<Box>(one.pieces.begin(), one.pieces.end())) {
    const auto part = bytes_of(sample, box, version);
    out["slices"].push_back({{"spec", cairn::slice_spec_text(sample.shape, box)},
                             {"nbytes", part.size()},
                             {"sha256", cairn::test::sha256(part)}});
  }
  return out;
}

nlohmann::json expected_strings(const std::string& key, const cairn::Dims& shape,
                                const std::vector<std::string>& values) {
  std::string bytes;
  for (const auto& value : values) {
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(std::uint64_t{value.size()} >> 8 * i);
    bytes += value;
  }
  return {{"key", key},
          {"dtype", "string"},
          {"dtype_number", 7},
          {"shape", shape},
          {"sha256", cairn::test::sha256(bytes)}};
}

std::string title(std::uint64_t version) { return cat("version ", version); }

nlohmann::json expected_checkpoint(const Plan& plan, int step, std::uint64_t version) {
  auto tensors = nlohmann::json::array();
  for (const auto& one : plan.tensors) tensors.push_back(expected_tensor(one, version));
  for (const auto& [key, values] : plan.strings) {
    tensors.push_back(expected_strings(key, {static_cast<std::int64_t>(values.size())}, values));
  }
  tensors.push_back(expected_strings("strings/title", {}, {title(version)}));
  return {{"prefix", cat("ckpt-", step)}, {"tensors", tensors}};
}

void save(cairn::CheckpointManager& manager, int rank, const Plan& plan, int step,
          std::uint64_t version) {
  cairn::test::SampleState mine(version);
  std::deque<std::string> bytes;
  std::vector<std::array<double, 3>> rows;
  std::vector<std::int64_t> ids;
  std::vector<float> values;  // values of the rows with these ids
  for (const auto& one : plan.tensors) {
    const auto& held = one.held[static_cast<std::size_t>(rank)];
    if (one.kind == PlannedSave::plain) {
      mine.add(one.sample, held, one.style,
               [&](cairn::LocalTensor tensor) { return stored(one.storage, std::move(tensor)); });
    } else if (one.kind == PlannedSave::ragged) {
      const auto content = held.empty() ? "" : bytes_of(one.sample, held[0], version);
      rows.resize(content.size() / sizeof rows[0]);
      if (!rows.empty()) std::memcpy(rows.data(), content.data(), content.size());
      mine.state().add(one.sample.key, cairn::ragged(rows));
    } else if (one.kind == PlannedSave::indexed) {
      std::string content;
      for (const auto& box : held) {
        ids.push_back(box.start[0]);
        content += bytes_of(one.sample, box, version);
      }
      values.resize(content.size() / sizeof values[0]);
      if (!values.empty()) std::memcpy(values.data(), content.data(), content.size());
      mine.state().add(one.sample.key, cairn::indexed(cairn::ids(&ids), values, {5}));
    } else if (!held.empty()) {
      bytes.push_back(bytes_of(one.sample, held[0], version));
      mine.state().add("private", cairn::rank_private(bytes.back()));
    }
  }
  for (const auto& [key, values] : plan.strings) mine.add_string(key, values);
  auto words = title(version);
  mine.state().add("strings/title", words);
  mine.fill();
  manager.save(step, mine.state());
}

void write(const std::filesystem::path& directory, std::string_view how) {
  const auto group = cairn::mpi(MPI_COMM_WORLD);
  const Plan plan(group->size());
  cairn::ManagerOptions options{.keep = {.last = 3}, .overwrite = true};
  options.write.atomic_rename = how != "--no-atomic-rename";
  if (how == "--mpi-io") options.write.writer = cairn::Writer::mpi_io;
  options.write.mpi_io.files = 1;
  if (how.starts_with("--hdf5")) options.store.format = cairn::Format::hdf5;
  if (how == "--hdf5-collective") options.write.writer = cairn::Writer::hdf5_collective;
  cairn::CheckpointManager manager(group, directory / "run", options);
  save(manager, group->rank(), plan, 5, 5);  // max_to_keep removes it
  save(manager, group->rank(), plan, 10, 10);
  save(manager, group->rank(), plan, 20, 20);
  save(manager, group->rank(), plan, 30, 30);
  save(manager, group->rank(), plan, 30, 31);
  if (group->rank() != 0) return;
  nlohmann::json expected{{"note", cat(group->size(), " ranks")},
                          {"state",
                           {{"latest_checkpoint", "ckpt-30"},
                            {"model_checkpoint_path", "ckpt-30"},
                            {"all_model_checkpoint_paths", {"ckpt-10", "ckpt-20", "ckpt-30"}}}}};
  expected["checkpoints"].push_back(expected_checkpoint(plan, 10, 10));
  expected["checkpoints"].push_back(expected_checkpoint(plan, 20, 20));
  expected["checkpoints"].push_back(expected_checkpoint(plan, 30, 31));
  std::ofstream out(directory / "EXPECTED.json");
  out << expected.dump(1) << '\n';
  if (!out.flush()) throw std::runtime_error("cannot write EXPECTED.json");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    const std::string_view how = argc == 3 ? argv[1] : "";
    if (argc != 2 && how != "--no-atomic-rename" && how != "--mpi-io" && how != "--hdf5" &&
        how != "--hdf5-collective") {
      throw std::runtime_error(
          "usage: save_samples [--no-atomic-rename | --mpi-io | --hdf5 | --hdf5-collective] "
          "DIRECTORY");
    }
    write(argv[argc - 1], how);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "save_samples: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
