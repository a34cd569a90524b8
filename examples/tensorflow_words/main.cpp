// TensorFlow's terms in Cairn: Checkpoint and its status, a sharding callback, a registered saver,
// a mesh. docs/for-tensorflow-users.md explains.
// usage: mpirun -np N tensorflow_words DIRECTORY
#include <cairn/cairn.hpp>
#include <cairn/mpi.hpp>
#include <cstdio>
#include <stdexcept>

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

void run(const std::string& directory) {
  const auto ranks = cairn::mpi(MPI_COMM_WORLD);
  const auto rank = ranks->rank();

  // A state like tf.train.Checkpoint(model=..., step=...): here rows of w are cut over the ranks.
  std::int64_t epoch = 3;
  const cairn::Mesh mesh({{"x", ranks->size()}});
  const cairn::Layout rows({"x", cairn::unsharded}, mesh);
  const cairn::Dims shape{10, 4};
  std::vector<float> w(static_cast<std::size_t>(rows.slice(shape, rank).count()),
                       1.5f + static_cast<float>(rank));
  cairn::State model, state;
  model.add("w", cairn::slice(w.data(), shape, rows, rank));
  state.add("model", model).add("epoch", epoch);

  // checkpoint = tf.train.Checkpoint(...); path = checkpoint.save(prefix)
  cairn::CheckpointOptions options;
  options.store.policy = std::make_shared<cairn::MaxShardSizePolicy>(64);
  options.hooks.before_save.push_back([&](std::int64_t) { epoch = 4; });
  options.hooks.savers.push_back({"notes",
                                  [rank](const std::string& prefix) -> std::vector<std::string> {
                                    if (rank != 0) return {};
                                    cairn::BundleWriter writer(prefix + "-notes");
                                    writer.add_strings("notes", {1},
                                                       {{"written by the application"}});
                                    writer.finish();
                                    return {prefix + "-notes"};
                                  },
                                  [](const std::string& prefix) {
                                    const cairn::BundleReader reader(prefix);
                                    require(reader.read_strings("notes").size() == 1, "the notes");
                                  }});
  cairn::Checkpoint checkpoint(ranks, state, options);
  const auto path = checkpoint.save(directory + "/ckpt");
  require(path == cairn::latest_checkpoint(ranks, directory), "the newest is what was saved");

  // status = checkpoint.restore(path); status.assert_consumed()
  const auto before = w;
  w.assign(w.size(), 0), epoch = 0;
  checkpoint.restore(path).assert_consumed();
  require(w == before && epoch == 4, "what was saved comes back");

  // Another Checkpoint of the same name and state. It saves in the background, with another policy:
  // checkpoint.save(prefix, options=CheckpointOptions(experimental_enable_async_checkpoint=True))
  cairn::Checkpoint other(ranks, state, options);
  other.restore(path).assert_consumed();
  const auto alone = cairn::sharding_policy("a file a tensor", [](const auto& tensors) {
    std::vector<cairn::Shard> shards;
    for (const auto& tensor : tensors) cairn::add_to(shards.emplace_back(), tensor);
    return shards;
  });
  other.save_async(directory + "/ckpt", {.policy = alone});
  other.wait();
  require(other.save_counter() == 2, "numbering goes on");

  // for path in tf.train.checkpoints_iterator(directory, timeout=...)
  int evaluated = 0;
  const cairn::IteratorOptions waiting{.timeout_seconds = 0.01, .poll_seconds = 0.005};
  for (const auto& newest : cairn::checkpoints_iterator(ranks, directory, waiting)) {
    checkpoint.restore(newest).assert_consumed();
    ++evaluated;
  }
  require(evaluated == 1 && checkpoint.save_counter() == 2, "the newest comes once");

  // Part of it is restored now, the rest when there is memory for it.
  std::int64_t late_epoch = 0;
  cairn::State late;
  cairn::Checkpoint partial(ranks, late);
  auto status = partial.read(path);
  late.add("epoch", late_epoch);
  status.fill().assert_existing_objects_matched();
  status.expect_partial();
  require(late_epoch == 4, "what is added later is filled");

  // sharded_save(mesh, file_prefix, tensor_names, shape_and_slices, tensors)
  cairn::sharded_save(ranks, mesh, directory + "/export", {"w"}, {""},
                      {cairn::slice(w.data(), shape, rows, rank)});
  w.assign(w.size(), 0);
  cairn::sharded_restore(ranks, mesh, directory + "/export", {"w"}, {""},
                         {cairn::slice(w.data(), shape, rows, rank)});
  require(w == before, "the export comes back");
  if (rank == 0) std::printf("saved %s and %s/export\n", path.c_str(), directory.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int exit_code = 0;
  try {
    require(argc == 2, "usage: tensorflow_words DIRECTORY");
    run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensorflow_words: %s\n", error.what());
    exit_code = 1;
  }
  if (exit_code) MPI_Abort(MPI_COMM_WORLD, exit_code);
  MPI_Finalize();
}
