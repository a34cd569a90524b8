#include "foreign/torch/metadata.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/json.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "foreign/torch/pickle.hpp"
#include "foreign/torch/saved_tensor.hpp"
#include "model/box_in_shape.hpp"

namespace cairn::torch {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view metadata_module = "torch.distributed.checkpoint.metadata";
constexpr std::string_view files_module = "torch.distributed.checkpoint.filesystem";

// The classes and functions that DCP's metadata refers to. None of them is ever called.
bool known_in_metadata(std::string_view module, std::string_view name) {
  if (module == metadata_module) {
    for (const auto* one :
         {"Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "TensorProperties",
          "ChunkStorageMetadata", "MetadataIndex", "StorageMeta", "_MEM_FORMAT_ENCODING"}) {
      if (name == one) return true;
    }
    return false;
  }
  if (module == "torch") return name == "Size" || dtype_of_torch(name);
  // The path of the directory that DCP saved to, which is not used.
  if (module == "pathlib" || module == "pathlib._local") {
    return name == "PosixPath" || name == "WindowsPath";
  }
  return (module == files_module && name == "_StorageInfo") ||
         (module == "torch.serialization" && name == "_get_layout") ||
         (module == "collections" && name == "OrderedDict");
}

[[noreturn]] void other(std::string_view what) {
  torch_refused(cat("its .metadata has no ", what, " where one should be"));
}

using Place = std::pair<std::string_view, Dims>;  // key, and where a piece begins

// Reads the tree of values that the pickle describes, as instances of DCP's classes.
class Reader {
 public:
  explicit Reader(std::string_view bytes)
      : pickle_(bytes, known_in_metadata), left_(16 * std::ssize(bytes) + 1024) {
    const auto& metadata = instance(pickle_.root(), "Metadata");
    read_places(field(metadata, "storage_data"));
    read_tensors(field(metadata, "state_dict_metadata"));
    if (const auto* paths = pickle_.find(metadata, "planner_data")) read_paths(*paths);
  }
  DcpMetadata take() { return std::move(found_); }

 private:
  // Limits what is copied, since a few bytes may name the same value any number of times.
  void spend(std::size_t bytes) {
    left_ -= static_cast<std::ptrdiff_t>(bytes);
    if (left_ < 0) torch_refused("its .metadata says the same too often");
  }
  // The fields of an object of one of DCP's classes.
  const PickleValue& instance(const PickleValue& value, std::string_view name,
                              std::string_view module = metadata_module) {
    if (!pickle_.made_by(value, module, name)) other(name);
    const auto* state = pickle_.state(value);
    // The limit keeps find() fast, since any number of objects may share one dict of fields.
    if (!state || state->kind != Kind::dict || state->members.size() > 32) other(name);
    return *state;
  }
  const PickleValue& field(const PickleValue& object, std::string_view name) {
    const auto* found = pickle_.find(object, name);
    if (!found) other(name);
    return *found;
  }
  const PickleValue& dict(const PickleValue& value, std::string_view what) {
    if (value.kind != Kind::dict) other(what);
    return value;
  }
  std::string_view text(const PickleValue& value, std::string_view what) {
    if (value.kind != Kind::text) other(what);
    spend(value.text.size());
    return value.text;
  }
  std::int64_t count(const PickleValue& value, std::string_view what) {
    if (value.kind != Kind::integer) other(what);
    if (value.integer < 0) torch_damaged(cat("a ", what, " is negative"));
    return value.integer;
  }
  // torch.Size((4, 6)).
  Dims size(const PickleValue& value) {
    if (!pickle_.made_by(value, "torch", "Size")) other("torch.Size");
    const auto& arguments = pickle_.member(value, 1);
    if (arguments.members.size() != 1) other("torch.Size");
    const auto& numbers = pickle_.member(arguments, 0);
    if (numbers.kind != Kind::tuple) other("torch.Size");
    if (numbers.members.size() > 254) torch_damaged("a tensor has more than 254 dimensions");
    spend(numbers.members.size());
    Dims all;
    for (std::size_t i = 0; i < numbers.members.size(); ++i) {
      all.push_back(count(pickle_.member(numbers, i), "number of a torch.Size"));
    }
    return all;
  }

  // Reads where each piece and each object lies, before it is known which tensors there are.
  void read_places(const PickleValue& value) {
    const auto& places = dict(value, "dict of places");
    for (std::size_t i = 0; i + 1 < places.members.size(); i += 2) {
      const auto& index = instance(pickle_.member(places, i), "MetadataIndex");
      const auto key = text(field(index, "fqn"), "key");
      const auto* offset = pickle_.find(index, "offset");
      // Objects that are no tensors have no offset.
      const bool piece = offset && offset->kind != Kind::none;
      auto archive =
          archive_of(instance(pickle_.member(places, i + 1), "_StorageInfo", files_module));
      const bool is_new = piece
                              ? pieces_.try_emplace({key, size(*offset)}, std::move(archive)).second
                              : objects_.try_emplace(key, std::move(archive)).second;
      if (!is_new) torch_damaged(cat("'", key, "' is in two places"));
    }
  }
  // Names of files come from the pickle, so only those of files in the same directory are taken.
  StoredArchive archive_of(const PickleValue& info) {
    const auto name = text(field(info, "relative_path"), "name of a file");
    if (!is_name_of_neighbour(name)) {
      torch_damaged(cat("'", name, "' is not the name of a file beside its .metadata"));
    }
    const auto* transforms = pickle_.find(info, "transform_descriptors");
    if (transforms && transforms->kind != Kind::none &&
        !(transforms->kind == Kind::list && transforms->members.empty())) {
      torch_refused("DCP compressed or encrypted its files");
    }
    StoredArchive archive{std::string(name), count(field(info, "offset"), "offset"),
                          count(field(info, "length"), "length")};
    std::int64_t end = 0;
    if (__builtin_add_overflow(archive.offset, archive.size, &end)) {
      torch_damaged("a piece ends behind any file");
    }
    return archive;
  }

  void read_tensors(const PickleValue& value) {
    const auto& all = dict(value, "dict of tensors");
    std::set<std::string_view> keys;
    for (std::size_t i = 0; i + 1 < all.members.size(); i += 2) {
      const auto key = text(pickle_.member(all, i), "key");
      if (!keys.insert(key).second) torch_damaged(cat("it has the key '", key, "' twice"));
      const auto& one = pickle_.member(all, i + 1);
      try {
        if (pickle_.made_by(one, metadata_module, "BytesStorageMetadata")) {
          read_object(key);
        } else {
          read_tensor(key, instance(one, "TensorStorageMetadata"));
        }
      } catch (Error& error) {
        throw error.of_tensor(std::string(key));
      }
    }
  }
  void read_object(std::string_view key) {
    const auto found = objects_.find(key);
    if (found == objects_.end()) torch_damaged(cat("it does not say where '", key, "' is"));
    found_.objects.push_back({std::string(key), found->second});
  }
  // The entry of a tensor lists its pieces; places were read before.
  void read_tensor(std::string_view key, const PickleValue& said) {
    DcpTensor tensor;
    tensor.key = key;
    tensor.shape = size(field(said, "size"));
    tensor.type = dtype(field(said, "properties"));
    check_size(tensor);
    const auto& chunks = field(said, "chunks");
    if (chunks.kind != Kind::list) other("list of chunks");
    for (std::size_t i = 0; i < chunks.members.size(); ++i) {
      const auto& chunk = instance(pickle_.member(chunks, i), "ChunkStorageMetadata");
      const Box box{size(field(chunk, "offsets")), size(field(chunk, "sizes"))};
      check_inside(box, tensor.shape);
      const auto found = pieces_.find({key, box.start});
      if (found == pieces_.end()) {
        torch_damaged(cat("it does not say where '", key, "', ", box_text(box), ", is"));
      }
      // Each piece is a copy, though many may refer to one value of the pickle.
      spend(found->second.file.size() + sizeof(DcpPiece) / 8);
      tensor.pieces.push_back({box, found->second});
    }
    found_.tensors.push_back(std::move(tensor));
  }
  // The bytes must be countable. An extent of 0 counts as 1, so that the others are checked all the
  // same.
  static void check_size(const DcpTensor& tensor) {
    auto bytes = static_cast<std::int64_t>(dtype_size(tensor.type.dtype));
    for (const auto extent : tensor.shape) {
      if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes)) {
        torch_damaged(cat("it has the shape ", shape_text(tensor.shape)));
      }
    }
  }
  static void check_inside(const Box& box, const Dims& shape) {
    if (!lies_inside(box, shape)) torch_damaged("a piece reaches outside its tensor");
  }
  // The state of TensorProperties is a tuple: dtype, layout, requires_grad, …
  StoredDType dtype(const PickleValue& properties) {
    if (!pickle_.made_by(properties, metadata_module, "TensorProperties")) {
      other("TensorProperties");
    }
    const auto* state = pickle_.state(properties);
    if (!state || state->kind != Kind::tuple || state->members.size() < 2) {
      other("TensorProperties");
    }
    const auto& layout = pickle_.member(*state, 1);
    if (!pickle_.made_by(layout, "torch.serialization", "_get_layout")) other("layout");
    const auto& words = pickle_.member(layout, 1);
    if (words.members.size() != 1 || pickle_.member(words, 0).text != "torch.strided") {
      torch_refused("it is a sparse tensor");
    }
    const auto& dtype = pickle_.member(*state, 0);
    const auto found = dtype_of_torch(dtype.kind == Kind::global ? dtype.name : "");
    if (!found || dtype.text != "torch") other("dtype");
    return *found;
  }

  // Paths are only for nested dicts, so what is no dict of tuples is passed over.
  void read_paths(const PickleValue& value) {
    if (value.kind != Kind::dict) return;  // another planner wrote it
    auto all = nlohmann::json::object();
    for (std::size_t i = 0; i + 1 < value.members.size(); i += 2) {
      const auto& path = pickle_.member(value, i + 1);
      if (pickle_.member(value, i).kind != Kind::text || path.kind != Kind::tuple) return;
      auto& words = all[std::string(text(pickle_.member(value, i), "key"))];
      words = nlohmann::json::array();
      spend(path.members.size());
      for (std::size_t k = 0; k < path.members.size(); ++k) {
        const auto& word = pickle_.member(path, k);
        if (word.kind == Kind::integer) {
          words.push_back(word.integer);
        } else {
          words.push_back(text(word, "name in a path"));
        }
      }
    }
    found_.paths = dump_json(all, NotUtf8::throws);
  }

  Pickle pickle_;
  // How many bytes may still be copied; see spend().
  std::ptrdiff_t left_;
  // Where each piece lies, by key and start; filled before the tensors are read.
  std::map<Place, StoredArchive> pieces_;
  // Likewise for values that are no tensors, by key.
  std::map<std::string_view, StoredArchive> objects_;
  DcpMetadata found_;
};

}  // namespace

DcpMetadata parse_dcp_metadata(std::string_view bytes) { return Reader(bytes).take(); }

}  // namespace cairn::torch
