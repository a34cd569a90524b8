// Restores from HDF5 files of other programs. What the state wants is resolved as in any restore;
// then libhdf5 reads each rank's boxes.
#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/hdf5.hpp"
#include "exchange/exchange.hpp"
#include "exchange/messages.hpp"
#include "group/call_group.hpp"
#include "group/collectives.hpp"
#include "io/file_system.hpp"
#include "io/local_path.hpp"
#include "layout/hdf5/foreign.hpp"
#include "layout/hdf5/lay_out.hpp"
#include "session/restore/indexed_wants.hpp"
#include "session/restore/resolve_restore.hpp"
#include "session/restore/ties.hpp"
#include "store/address.hpp"

namespace cairn {
namespace {

// A box is read through a buffer of this size, since the application's memory may be of any layout.
constexpr std::int64_t chunk_bytes = std::int64_t{16} << 20;

// Lets libhdf5 read through the io room, so that it never opens the path itself.
class ReadOnly : public hdf5::ByteFile {
 public:
  explicit ReadOnly(std::unique_ptr<io::File> file) : file_(std::move(file)) {}
  void read(std::int64_t offset, std::span<std::byte> bytes) const override {
    file_->read_at(offset, bytes);
  }
  void write(std::int64_t, std::span<const std::byte>) override { refuse(); }
  void truncate(std::int64_t) override { refuse(); }
  void flush() override {}
  std::int64_t size() const override { return file_->size(); }

 private:
  [[noreturn]] static void refuse() {
    throw Error(Code::internal, "HDF5 writes to a file that is only read");
  }
  std::unique_ptr<io::File> file_;
};

// Adds the path of the file to any error that `function` throws.
template <class F>
auto at_file(const io::Path& path, F&& function) {
  try {
    return function();
  } catch (Error& error) {
    throw error.at(path.string());
  }
}

// Collective. Returns on rank 0 each name that any rank has, once. Duplicates are removed on the
// way, so messages stay small: most ranks have the same names.
std::string names_on_root(Group& group, const std::vector<std::string>& mine) {
  using Names = std::set<std::string>;
  return reduce_to_root(group, pack(Names(mine.begin(), mine.end())),
                        [](const std::string& low, const std::string& high) {
                          auto both = unpack<Names>(low);
                          both.merge(unpack<Names>(high));
                          return pack(both);
                        });
}

// Collective. Rank 0 looks up the datasets that the state of any rank may mean.
// The file may have very many datasets, so only names that some rank asks for are looked up.
CheckpointContents find_datasets(Group& group, const io::Path& path, hdf5::ForeignFile& file,
                                 const State& state, const RestoreOptions& options) {
  std::vector<std::string> mine;
  const auto add = [&](const std::string& key) {
    const auto renamed = options.rename.find(key);
    mine.push_back(renamed == options.rename.end() ? key : renamed->second);
  };
  for (const auto& [key, tensor] : state.tensors()) {
    add(key);
    const auto* ids = tensor.unresolved ? tensor.unresolved->ids.get() : nullptr;
    if (ids && !ids->options.ids_key.empty()) add(ids->options.ids_key);
  }
  const auto all = names_on_root(group, mine);
  const auto message = from_root(group, [&] {
    std::vector<StoredTensor> found;
    for (const auto& name : unpack<std::vector<std::string>>(all)) {
      const auto dataset = at_file(path, [&] { return file.find(name); });
      if (!dataset) continue;
      found.push_back({name, dataset->dtype, dataset->shape, false, {Piece{}}, ""});
    }
    return pack(found);
  });
  CheckpointContents contents;
  contents.prefix = path.string();
  contents.format = Format::hdf5;
  contents.tensors = unpack<std::vector<StoredTensor>>(message);
  return contents;
}

// In chunks through the buffer. Returns the bytes read.
std::int64_t read_slice(hdf5::ForeignFile& file, const StoredTensor& stored,
                        const LocalSlice& slice, std::vector<std::byte>& buffer) {
  const auto item = static_cast<std::int64_t>(dtype_size(stored.dtype));
  std::int64_t bytes = 0;
  for (const auto& chunk : plan::cut_into_chunks(slice.box, item, chunk_bytes)) {
    buffer.resize(static_cast<std::size_t>(chunk.bytes));
    file.read(stored.key, {stored.dtype, stored.shape}, chunk.box, buffer.data());
    slice.memory->write(chunk.box.relative_to(slice.box.start), buffer.data());
    bytes += chunk.bytes;
  }
  return bytes;
}

// Checks that both places that fill tied memory have the same bytes.
std::int64_t read_tied(hdf5::ForeignFile& file, const CheckpointContents& contents,
                       const std::vector<Tie>& ties, std::vector<std::byte>& buffer) {
  const TieProbe probe(contents, ties);
  const auto stored = [&](int number) -> const StoredTensor& {
    return contents.tensors[static_cast<std::size_t>(number)];
  };
  std::int64_t bytes = 0;
  for (const auto& one : probe.wanted().tensors) {
    for (const auto& slice : one.tensor().slices) {
      bytes += read_slice(file, stored(one.stored), slice, buffer);
    }
  }
  const auto strings = [&](int number) {
    return file.read_strings(stored(number).key, {stored(number).dtype, stored(number).shape});
  };
  probe.require_equal([&](int a, int b) { return strings(a) == strings(b); });
  return bytes;
}

}  // namespace

RestoreReport restore_hdf5(const std::shared_ptr<Group>& shared, const PathText& given,
                           State& state, const RestoreOptions& options,
                           std::shared_ptr<io::FileSystem> file_system) {
  if (!shared) throw Error(Code::invalid_argument, "the group of restore_hdf5 is null");
  const auto calls = CallGroup::of(shared);
  Group& group = *calls;
  const auto files = files_for(std::move(file_system), given);
  return collective_call(group, "restore_hdf5", [&] {
    calls->check_entry();
    require_same(group, "the HDF5 file", given.string());
    const auto path = run_and_agree(group, [&] { return io::local_path(given); });
    // Each rank opens the file by itself: libhdf5 is not used collectively here.
    const auto file = run_and_agree(group, [&] {
      return at_file(path, [&] {
        hdf5::require_available();
        return std::make_shared<hdf5::ForeignFile>(
            std::make_unique<ReadOnly>(files->open_read(path)));
      });
    });
    const auto contents = find_datasets(group, path, *file, state, options);
    const TensorFinder finder(contents);
    const RefreshedState seen(state);
    auto mine = resolve(group, contents, finder, seen, options, nullptr);
    RestoreReport report;
    report.prefix = path.string();
    // Such a file has no checksums of ours.
    report.unchecked = true;
    report.bytes_read = run_and_agree(group, [&] {
      return at_file(path, [&] {
        std::vector<std::byte> buffer;
        return read_tied(*file, contents, mine.ties, buffer);
      });
    });
    report.bytes_read += run_and_agree(group, [&] {
      return at_file(path, [&] {
        std::vector<std::byte> buffer;
        std::int64_t bytes = 0;
        for (auto& one : mine.tensors) {
          const auto& stored = contents.tensors[static_cast<std::size_t>(one.stored)];
          if (one.make_room) one.make_room(one.change());
          if (one.tensor().strings) {
            one.tensor().strings->set(file->read_strings(stored.key, {stored.dtype, stored.shape}));
          }
          for (const auto& slice : one.tensor().slices) {
            bytes += read_slice(*file, stored, slice, buffer);
          }
        }
        return bytes;
      });
    });
    if (mine.indexed) mine.indexed->deliver(group);
    group.all_reduce({&report.bytes_read, 1}, Group::Op::sum);
    const auto kept = broadcast_text(group, names_on_root(group, mine.kept));
    report.kept_keys = unpack<std::vector<std::string>>(kept);
    return report;
  });
}

}  // namespace cairn
