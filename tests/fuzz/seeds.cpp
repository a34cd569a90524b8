#include "fuzz/seeds.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>

#include "base/checksum.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "foreign/safetensors/header.hpp"
#include "layout/bundle/index.hpp"
#include "layout/bundle/meta.hpp"
#include "layout/bundle/stored_gaps.hpp"
#include "layout/bundle/stored_strings.hpp"
#include "layout/hdf5/hdf5_seal.hpp"
#include "layout/hdf5/holders.hpp"
#include "model/descriptions.hpp"
#include "session/nodes/node_file.hpp"
#include "session/schedule/run_history.hpp"
#include "store/commit/ownership.hpp"
#include "store/commit/state_file.hpp"
#include "store/nodes/save_map.hpp"
#include "support/run_lengths.hpp"
#include "support/torch_files.hpp"
#include "testing/memory.hpp"

using namespace cairn;

namespace {

const std::string uuid(32, 'a');
std::vector<fuzz::Seed> all;

void put(const std::string& target, const std::string& name, std::string_view bytes) {
  all.push_back({target, name, std::string(bytes)});
}

CheckpointMeta meta() {
  CheckpointMeta meta;
  meta.step = 12;
  meta.sequence = 3;
  meta.ranks = 4;
  meta.version = "0.1.0";
  meta.policy = "PerRankPolicy";
  meta.uuid = uuid;
  meta.savers = {{"tables", {"a", "b"}}};
  meta.metric = 0.25;
  auto& save = meta.statistics.emplace();
  save.gap_bytes = 8;
  save.peak_resident_bytes = 4096;
  save.blocking_because = "io_uring is not there";
  save.shares = {{96, 0.5}, {0, 0.25}};
  meta.run.keep = "last 3";
  meta.run.before = {PastSave{.sequence = 2, .parent = 1, .step = 6}};
  meta.name = "ckpt";
  meta.descriptions.attributes = {{"title", "a run"}};
  meta.descriptions.by_key["u"] = {.units = "m",
                                   .dimensions = {"x", "y"},
                                   .coordinates = {"x"},
                                   .attributes = {{"unit", "m/s"}}};
  meta.gaps["v"] =
      std::make_shared<const StoredGaps>(StoredGaps{std::string(4, 0), {Box::whole({1, 6})}});
  return meta;
}

std::vector<StoredTensor> tensors() {
  StoredTensor plain{"u", DType::float32, {4, 6}, false, {}, ""};
  plain.slices.resize(1);
  plain.slices[0].box = Box::whole(plain.shape);
  plain.slices[0].stored_bytes = plain.slices[0].raw_bytes = 96;
  StoredTensor sliced = plain;
  sliced.key = "v";
  sliced.sliced = true;
  sliced.slices.resize(2, sliced.slices[0]);
  for (auto& slice : sliced.slices)
    slice.box.extent[0] = 2, slice.stored_bytes = slice.raw_bytes = 48;
  sliced.slices[1].box.start[0] = 2;
  sliced.slices[1].offset = 128;
  return {plain, sliced};
}

// Encoded with the codec that the targets know. One byte in a file may claim any length.
std::vector<StoredTensor> encoded_tensors() {
  auto all = tensors();
  all[1].slices[0].codec = test::run_lengths_codec;
  all[1].slices[0].stored_bytes = 6;
  return all;
}
std::vector<StoredTensor> more_than_there_is() {
  const std::int64_t all = std::int64_t{1} << 61, most = std::int64_t{1} << 60;
  StoredTensor sliced{"x", DType::float64, {all}, true, {}, ""};
  StoredTensor whole{"y", DType::uint8, {most}, false, {}, ""};
  sliced.slices.push_back({{{0}, {100}}, {}, 0, 0, 800, 800, 1});
  for (std::int64_t at = 100, count = 0; at < all; at += count) {
    count = std::min(most - 1, all - at);
    sliced.slices.push_back({{{at}, {count}}, {}, 0, 0, 1, count * 8, 1, test::run_lengths_codec});
  }
  const auto crc = crc32c(std::string("\0\7", 2));
  whole.slices.push_back({Box::whole({most}), {}, 0, 0, 2, most, crc, test::run_lengths_codec});
  return {sliced, whole};
}

hdf5::Holders holders() {
  hdf5::Holders holders;
  holders.tasks = {"/job:worker/task:1"};
  holders.tensors["u"] = {{Box::whole({4, 6}), 0}};
  return holders;
}

void part() {
  io::MemoryFileSystem disk;
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.f);
  Outgoing out;
  out.entries = {tensors()[0]};
  out.bytes = {{std::as_bytes(std::span(values))}};
  bundle::PartRecord record{uuid, 7, 0, 1, 1, meta(), {}};
  tier::write_part({disk, "/part"}, record, out, false);
  put("tier", "part", io::read_file(disk, "/part", 1 << 20));
  record.uploads = {{0, "run/a", "id", true, "mark", {{1, "tag"}, {2, "tag"}}, 2}};
  put("index", "record", bundle::encode_part_record(record, out.entries));
  put("index", "encoded-record", bundle::encode_part_record(record, encoded_tensors()));
}

// A whole file, and pieces of one, which the target distinguishes by their first byte.
void hdf5_file() {
  put("hdf5", "words",
      "\3" + bundle::encode_meta(meta()) + std::string(1, '\0') + bundle::encode_statistics({}) +
          std::string(1, '\0') + hdf5::encode_holders(holders()));
  const auto table = bundle::build_index(1, tensors());
  const auto size = static_cast<std::int64_t>(table.size());
  const auto seal =
      hdf5::encode_seal({true, size + hdf5::seal_bytes, 0, size, size, crc32c(table)});
  for (const char mode : {'\0', '\1'}) put("hdf5", cat("table-", int{mode}), mode + table + seal);
  const auto text = bundle::encode_meta(meta());
  const auto stored = bundle::encode_strings({&text, 1});
  auto head =
      hdf5::encode_meta_place({64, static_cast<std::int64_t>(stored.bytes.size()), stored.crc32c});
  head.resize(64);
  for (const char mode : {'\0', '\1'}) {
    put("hdf5", cat("place-", int{mode}), mode + head + stored.bytes);
  }
  put("hdf5", "place-of-much", '\0' + hdf5::encode_meta_place({64, 9'000'000, 1}) + stored.bytes);
  std::ifstream older(CAIRN_OLDER_HDF5, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(older), {}};
  if (file.empty()) throw Error(Code::io, "cannot read " CAIRN_OLDER_HDF5);
  for (const char mode : {'\0', '\1'}) put("hdf5", cat("file-", int{mode}), mode + file);
}

// The examples of the tool's help, one word on each line.
void arguments() {
  int number = 0;
  for (std::string line : {"ls RUN",
                           "ls RUN --json",
                           "show RUN/ckpt-1",
                           "show RUN --values u",
                           "show --graph RUN/ckpt-2",
                           "cat RUN u --slice 0:2,1,:",
                           "cat RUN/ckpt-1 u --format npy -o u.npy",
                           "cat RUN words",
                           "cat RUN/ckpt-2 u --slice 3_4_5_0,2:-:- --format raw -o u.bin",
                           "verify RUN",
                           "verify RUN --repair --json",
                           "verify RUN/ckpt-3 --node a",
                           "gc RUN --dry-run",
                           "gc RUN",
                           "gc RUN --max-to-keep 1 --keep-every-steps 2 --keep-every-hours 0.5",
                           "gc --local DISK/tier",
                           "gc RUN --max-to-keep 2 --keep-best 1 --larger-is-better --name ckpt",
                           "pin RUN 3",
                           "pin RUN 2 --remove",
                           "merge DISK/all RUN/ckpt-1 RUN/ckpt-2",
                           "convert RUN DISK/model",
                           "merge --remove-parts DISK/all RUN/ckpt-1 RUN/ckpt-2",
                           "convert --max-shard-size 1KiB RUN/ckpt-1 DISK/ckpt-1",
                           "convert RUN DISK/m.safetensors",
                           "convert RUN DISK/m.safetensors --under layers",
                           "convert DISK/dcp RUN/ckpt-9",
                           "convert RUN DISK/fields.zarr",
                           "convert RUN DISK/a.h5",
                           "diff RUN/ckpt-1 RUN/ckpt-2",
                           "diff --tolerance 1e-6 RUN/ckpt-1 RUN/ckpt-3 u --picture where.png",
                           "map RUN u --output u.svg",
                           "view RUN u",
                           "view RUN/ckpt-1 u -o u.png --log --range 1e-3:1",
                           "view RUN u --slice 1,:,: -o plane.png",
                           "view RUN u --slice ...,1,2",
                           "xdmf RUN --time step",
                           "xdmf RUN --spacing 0.01 --origin -0.5,-0.5",
                           "xdmf RUN/ckpt-1 --points u -o at.xdmf",
                           "stats RUN --json",
                           "report RUN -o report.html --key u",
                           "flush DISK/tier RUN --node a",
                           "--version",
                           "ls --help",
                           "shwo RUN"}) {
    for (const auto& [from, to] : {std::pair<std::string, std::string>{"RUN", "DISK/run"},
                                   {"DISK", "/cairn-fuzz-disk"},
                                   {" ", "\n"},
                                   {"_", " "}}) {
      for (auto at = line.find(from); at != line.npos; at = line.find(from, at + to.size())) {
        line.replace(at, from.size(), to);
      }
    }
    put("arguments", std::to_string(number++), line);
  }
}

void write_all() {
  arguments();
  put("metadata", "meta", bundle::encode_meta(meta()));
  put("metadata", "descriptions", descriptions::encode(meta().descriptions));
  put("metadata", "gaps", R"({"u": {"fill": "0000803f", "boxes": [[0, 0, 2, 6]]}})");
  put("metadata", "statistics", bundle::encode_statistics(*meta().statistics, meta().run));
  put("metadata", "holders", hdf5::encode_holders(holders()));
  hdf5_file();

  commit::OwnerRecord owner;
  owner.token = uuid;
  put("directory", "owner", commit::print_owner(owner));
  put("directory", "state", commit::print_state_file({"ckpt-2", {"ckpt-1", "ckpt-2"}, {1, 2}, 2}));
  RunHistory history;
  history.begin(100, 0);
  history.end_well(200);
  put("directory", "history", history.print());
  history.in_vain[3] = {10, 2, false};
  history.restored = {7, 30, 9, RunHistory::Restored::End::stopped, "1234.0"};
  history.heard = "a-record";
  put("directory", "history-2", history.print());
  int kind = 0;  // of the small file, by the first byte
  for (const auto& small :
       {std::string("0\n"), uuid, std::string("\nwhy"), std::string("why"), uuid, uuid,
        commit::print_state_file({"ckpt-2", {"ckpt-1", "ckpt-2"}, {1, 2}, 2}), history.print(),
        commit::print_owner(owner)}) {
    put("small", cat("listed-", kind), static_cast<char>(kind) + small);
    put("small", cat("opened-", kind), static_cast<char>(135 + kind) + small);  // a multiple of 9
    ++kind;
  }
  put("directory", "seal", hdf5::encode_seal({true, 100'000, 2048, 4096, 4000, 1}));
  put("directory", "place", hdf5::encode_meta_place({64, 100, 5}));
  for (const auto* name :
       {"ckpt-12.index", "ckpt-12.data-00000-of-00001", "ckpt-12.h5", "2026-11-25T08:00:00Z"}) {
    put("directory", std::string("name-") + name, name);
  }

  safetensors::Header header;
  header.tensors = {{"u", DType::float32, {4, 6}, 0, 96}, {"v", DType::int64, {}, 96, 8}};
  header.metadata = {{"format", "pt"}};
  const auto encoded = safetensors::encode_header(header);
  put("safetensors", "file", encoded + std::string(104, 'x'));
  put("safetensors", "index", safetensors::encode_index({{"u", "a-00001-of-00001"}}, 96));

  const auto dcp = test::dcp_files();
  put("torch", "metadata", dcp.metadata);
  put("torch", "two", dcp.first);
  put("torch", "wide", dcp.second);
  put("torch", "value", test::PickleWriter(2).raw("](K\x01\x88Ne").end());

  tier::SaveMap map;
  map.uuid = uuid;
  map.set_nodes = 4;
  map.parity = 1;
  map.node_of = {0, 0, 1, 1, 2, 2, 3, 3};
  map.part_bytes = {100, 100, 4096, 0, 7, 8, 9, 1 << 20};
  put("tier", "map", tier::encode(map));
  put("tier", "home", "/scratch/run\n1234");
  put("tier", "home-id", cat(uuid, " 1234 5678"));
  part();

  int number = 0;
  for (const auto* text :
       {"4 6 0,2:-", "/job:worker/replica:0/task:1/device:GPU:3", "1:3,...,::2", "0.1:1e9",
        "layer/.ATTRIBUTES/VARIABLE_VALUE", "keep.last=3", "store.format=hdf5",
        "write.mpi_io.hints.cb_nodes=4", "when.interval.seconds=600:node", "store.xdmf=true"}) {
    put("text", std::to_string(number++), text);
  }

  const auto index = bundle::build_index(1, tensors());
  put("index", "index", index);
  put("checkpoint", "index", index);
  for (const auto* target : {"index", "checkpoint"}) {
    put(target, "encoded", bundle::build_index(1, encoded_tensors()));
    put(target, "more-than-there-is", bundle::build_index(1, more_than_there_is()));
  }
  const std::string words[] = {"two", "words"};
  put("index", "strings", bundle::encode_strings(words).bytes);
}

}  // namespace

namespace cairn::fuzz {

std::vector<Seed> seeds() {
  all.clear();
  write_all();
  return std::move(all);
}

}  // namespace cairn::fuzz
