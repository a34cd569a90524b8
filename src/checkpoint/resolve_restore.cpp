// What a state wants of a checkpoint, under the options of a restore.
#include "base/text.hpp"
#include "base/wire.hpp"
#include "cairn/error.hpp"
#include "checkpoint/converting_memory.hpp"
#include "checkpoint/resolve.hpp"
#include "group/collectives.hpp"
#include "model/convert.hpp"

namespace cairn {
namespace {

std::string fingerprint(const RestoreOptions& options) {
  std::string text = cat("convert=", static_cast<int>(options.convert),
                         " all_may_be_missing=", options.all_may_be_missing);
  for (const auto& [key, how] : options.convert_keys) {
    text += cat(" convert '", key, "'=", static_cast<int>(how));
  }
  for (const auto& [key, stored] : options.rename) text += cat(" '", key, "' from '", stored, "'");
  for (const auto& [key, offset] : options.offset) {
    text += cat(" offset of '", key, "' ", shape_text(offset));
  }
  for (const auto& key : options.may_be_missing) text += cat(" may be missing: '", key, "'");
  return text;
}

// Collective. Each key that the options name is in the state of some rank.
void require_known(Group& group, const State& state, const RestoreOptions& options) {
  std::vector<std::pair<const char*, std::string_view>> named;
  for (const auto& [key, stored] : options.rename) named.emplace_back("rename", key);
  for (const auto& [key, offset] : options.offset) named.emplace_back("offset", key);
  for (const auto& [key, how] : options.convert_keys) named.emplace_back("convert_keys", key);
  for (const auto& key : options.may_be_missing) named.emplace_back("may_be_missing", key);
  if (named.empty()) return;
  std::vector<std::int64_t> known;
  for (const auto& [option, key] : named) known.push_back(state.find(key) != nullptr);
  group.all_reduce(known, Group::Op::max);
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (known[i] != 0) continue;
    throw Error(Code::invalid_argument,
                cat("RestoreOptions::", named[i].first, " names '", named[i].second,
                    "', which is in no rank's state"),
                "a misspelt key would go unnoticed", "Name keys of the state.")
        .of_tensor(std::string(named[i].second));
  }
}

class Matcher {
 public:
  Matcher(const CheckpointContents& contents, const TensorFinder& finder,
          const RestoreOptions& options)
      : contents_(contents), finder_(finder), options_(options) {}

  // Null: it is not there, and need not be.
  const StoredTensor* find(const std::string& key, const std::string& variable) const {
    const auto renamed = options_.rename.find(key);
    const auto& name = renamed == options_.rename.end() ? key : renamed->second;
    const auto* stored = finder_.find(name, variable);
    if (!stored) {
      if (options_.all_may_be_missing || options_.may_be_missing.count(key)) return nullptr;
      throw Error(
          Code::not_found, cat("tensor '", name, "' is not in the checkpoint ", contents_.prefix),
          name != key       ? cat("RestoreOptions::rename fills '", key, "' from it")
          : contents_.graph ? "the state wants it, and no key, path or variable's name is so"
                            : "the state wants it",
          "Leave it out of the state, allow it in RestoreOptions::may_be_missing, or "
          "restore a checkpoint that has it.")
          .of_tensor(name);
    }
    if (!stored->problem.empty()) {
      throw Error(Code::data_loss, cat("tensor '", name, "' cannot be read"), stored->problem,
                  "Restore an older checkpoint.")
          .at(contents_.prefix)
          .of_tensor(name);
    }
    return stored;
  }

  WantedTensor match(const std::string& key, const StoredTensor& stored,
                     const LocalTensor& tensor) const {
    const auto how = conversion_of(key);
    const auto offset = options_.offset.find(key);
    const bool converts = stored.dtype != tensor.dtype && how != Conversion::refuse;
    if ((stored.dtype != tensor.dtype && how == Conversion::refuse) ||
        (stored.shape != tensor.shape && offset == options_.offset.end())) {
      throw Error(Code::invalid_argument,
                  cat("tensor '", key, "' is ", dtype_name(stored.dtype), " ",
                      shape_text(stored.shape), " in the checkpoint ", contents_.prefix, " and ",
                      dtype_name(tensor.dtype), " ", shape_text(tensor.shape), " in the state"),
                  "a restore changes neither unless it is asked to",
                  "Give the state the checkpoint's dtype and shape, or set "
                  "RestoreOptions::convert for the dtype, offset for a part.")
          .of_tensor(key);
    }
    if (converts && !(is_convertible(stored.dtype) && is_convertible(tensor.dtype))) {
      throw Error(Code::unsupported,
                  cat("tensor '", key, "' cannot be converted from ", dtype_name(stored.dtype),
                      " to ", dtype_name(tensor.dtype)),
                  "only booleans, integers of 8 to 64 bits, float16, bfloat16, float32, float64 "
                  "and complex numbers of these are converted",
                  "Give the state the checkpoint's dtype.")
          .of_tensor(key);
    }
    for (const auto& slice : tensor.slices) {
      if (slice.memory->writable()) continue;
      throw Error(Code::invalid_argument, cat("the memory of tensor '", key, "' is const"),
                  "it was given for saving only", "Restore into memory that may be written.")
          .of_tensor(key);
    }
    WantedTensor wanted;
    wanted.stored = static_cast<int>(&stored - contents_.tensors.data());
    wanted.tensor = tensor;
    if (offset != options_.offset.end()) move(key, stored, offset->second, wanted.tensor);
    if (converts) {
      wanted.tensor.dtype = stored.dtype;
      for (auto& slice : wanted.tensor.slices) {
        slice.memory = converting_memory(key, stored.dtype, tensor.dtype, how, slice.box.start,
                                         std::move(slice.memory));
      }
    }
    return wanted;
  }

 private:
  Conversion conversion_of(const std::string& key) const {
    const auto own = options_.convert_keys.find(key);
    return own == options_.convert_keys.end() ? options_.convert : own->second;
  }

  // The state's tensor becomes the part of the stored one that it is.
  void move(const std::string& key, const StoredTensor& stored, const Dims& offset,
            LocalTensor& tensor) const {
    const auto refuse = [&](std::string reason) {
      throw Error(Code::invalid_argument,
                  cat("tensor '", key, "' ", shape_text(tensor.shape), " at offset ",
                      shape_text(offset), " is no part of the stored ", shape_text(stored.shape)),
                  std::move(reason), "Set RestoreOptions::offset to where the part begins.")
          .of_tensor(key);
    };
    if (tensor.strings) refuse("strings are restored whole");
    if (offset.size() != stored.shape.size() || tensor.shape.size() != stored.shape.size()) {
      refuse("all three need the same number of dimensions");
    }
    for (std::size_t d = 0; d < offset.size(); ++d) {
      const auto room = stored.shape[d] - tensor.shape[d];
      if (offset[d] < 0 || offset[d] > room) {
        refuse(room < 0 ? cat("dimension ", d, " is longer than the stored one")
                        : cat("in dimension ", d, " it must lie in 0..", room));
      }
    }
    tensor.shape = stored.shape;
    for (auto& slice : tensor.slices) {
      for (std::size_t d = 0; d < offset.size(); ++d) slice.box.start[d] += offset[d];
    }
  }

  const CheckpointContents& contents_;
  const TensorFinder& finder_;
  const RestoreOptions& options_;
};

}  // namespace

WantedState resolve(Group& group, const CheckpointContents& contents, const TensorFinder& finder,
                    const State& state, const RestoreOptions& options) {
  require_same(group, "the options of the restore", fingerprint(options));
  require_known(group, state, options);
  const Matcher matcher(contents, finder, options);
  return together(group, [&] {
    WantedState wanted;
    const auto& names = state.objects().names;
    for (const auto& [key, tensor] : state.tensors()) {
      const auto name = names.find(key);
      if (const auto* stored = matcher.find(key, name == names.end() ? "" : name->second)) {
        wanted.tensors.push_back(matcher.match(key, *stored, tensor));
      } else {
        wanted.kept.push_back(key);
      }
    }
    return wanted;
  });
}

}  // namespace cairn
