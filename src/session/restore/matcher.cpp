// Which stored tensor fills a tensor of the state, and whether the two fit.
#include "session/restore/matcher.hpp"

#include <algorithm>

#include "base/nearest.hpp"
#include "base/text.hpp"
#include "cairn/error.hpp"
#include "cairn/ragged.hpp"
#include "model/convert.hpp"
#include "session/restore/converting_memory.hpp"

namespace cairn {
namespace {

// Changes the state's tensor into the part of the stored tensor that it is.
void move_into(const std::string& key, const StoredTensor& stored, const Dims& offset,
               LocalTensor& tensor) {
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
  Dims room;
  bool fits = true, is_there = true;
  for (std::size_t d = 0; d < offset.size(); ++d) {
    room.push_back(stored.shape[d] - tensor.shape[d]);
    fits = fits && room[d] >= 0;
    is_there = is_there && offset[d] >= 0 && offset[d] <= room[d];
  }
  if (!fits) refuse("it is longer than the stored one");
  if (!is_there) {
    refuse(cat("the offset is at least ", shape_text(Dims(room.size(), 0)), " and at most ",
               shape_text(room)));
  }
  tensor.shape = stored.shape;
  for (auto& slice : tensor.slices) {
    for (std::size_t d = 0; d < offset.size(); ++d) slice.box.start[d] += offset[d];
  }
}

void require_writable(const std::string& key, bool writable) {
  if (writable) return;
  throw Error(Code::invalid_argument, cat("the memory of tensor '", key, "' is const"),
              "it was given for saving only", "Restore into memory that may be written.")
      .of_tensor(key);
}

// Names of tensors that are in the checkpoint but not in the state.
std::vector<std::string> names_of_others(const CheckpointContents& contents,
                                         const RefreshedState& state) {
  std::vector<std::string> names;
  for (const auto& tensor : contents.tensors) {
    if (tensor.key == object_graph_key || state.find(tensor.key)) continue;
    auto name = shown_name(tensor.key);
    if (!state.find(name)) names.push_back(std::move(name));
  }
  return names;
}

std::string others_text(const CheckpointContents& contents, const RefreshedState& state) {
  constexpr std::size_t most_told = 8;
  const auto names = names_of_others(contents, state);
  if (names.empty()) return "";
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), most_told); ++i) {
    list += cat(i > 0 ? ", '" : "'", names[i], "'");
  }
  if (names.size() > most_told) list += cat(" and ", names.size() - most_told, " more");
  return cat("; it holds besides: ", list);
}

const std::shared_ptr<Rows>& rows_of(const LocalTensor& tensor) {
  return tensor.resizes ? tensor.resizes : tensor.unresolved->rows;
}

// Without the number of rows; empty for a scalar, which has none.
Dims row_shape(const Dims& shape) { return {shape.begin() + !shape.empty(), shape.end()}; }

}  // namespace

std::string name_of(const CheckpointContents& contents) {
  return contents.prefix.empty() ? "what is redistributed"
                                 : cat("the checkpoint ", contents.prefix);
}

const std::string& Matcher::stored_name(const std::string& key) const {
  const auto renamed = options_.rename.find(key);
  return renamed == options_.rename.end() ? key : renamed->second;
}

bool is_named_as_missing(const RestoreOptions& options, std::string_view key) {
  const auto& names = options.may_be_missing;
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    return name == key || (name.ends_with('*') && key.starts_with(name.substr(0, name.size() - 1)));
  });
}

bool Matcher::may_be_missing(const std::string& key) const {
  return options_.all_may_be_missing || is_named_as_missing(options_, key);
}

const StoredTensor* Matcher::find(const std::string& key, const std::string& variable) const {
  const auto& name = stored_name(key);
  // A key that the application renamed on purpose is not looked up under its variable's name.
  if (const auto* stored = finder_.find(name, name == key ? variable : "")) {
    require_sound(*stored);
    return stored;
  }
  return nullptr;
}

// Lists the missing keys, what may have been meant instead, and what the checkpoint has that the
// state lacks.
void Matcher::refuse_missing(const std::vector<std::string>& keys) const {
  constexpr std::size_t most_told = 10;
  std::string list, reason, meant;
  // A name is not suggested if the state has it itself, or if it was suggested for another key.
  auto others = names_of_others(contents_, state_);
  for (std::size_t i = 0; i < std::min(keys.size(), most_told); ++i) {
    const auto& name = stored_name(keys[i]);
    Nearest nearest(name);
    if (name != keys[i]) offer_keys(contents_, nearest);
    for (const auto& other : others) nearest.offer(other);
    std::erase(others, nearest.word());
    list += cat(i > 0 ? ", '" : "'", name, "'");
    if (name != keys[i]) list += cat(" for '", keys[i], "'");
    if (keys.size() > 1 && !nearest.word().empty()) list += cat(" (", did_you_mean(nearest), ")");
    if (keys.size() == 1) meant = did_you_mean(nearest);
  }
  if (keys.size() > most_told) list += cat(" and ", keys.size() - most_told, " more");
  const auto& first = stored_name(keys.front());
  reason = first != keys.front() ? cat("RestoreOptions::rename fills '", keys.front(), "' from it")
           : contents_.graph     ? "the state wants it, and no key, path or variable's name is so"
                                 : "the state wants it";
  if (keys.size() > 1) reason = "the state wants them";
  throw Error(
      Code::not_found,
      keys.size() == 1 ? cat("tensor '", first, "' is not in ", name_of(contents_))
                       : cat(keys.size(), " tensors are not in ", name_of(contents_), ": ", list),
      cat(reason, others_text(contents_, state_)),
      cat(meant, meant.empty() ? "" : " ",
          "Leave what is missing out of the state, fill it from another key "
          "(RestoreOptions::rename), ",
          contents_.prefix.empty() ? "or allow it in RestoreOptions::may_be_missing."
                                   : "allow it in RestoreOptions::may_be_missing, or restore a "
                                     "checkpoint that has it."))
      .of_tensor(first);
}

void Matcher::require_sound(const StoredTensor& stored) const {
  if (stored.problem.empty()) return;
  throw Error(Code::data_loss, cat("tensor '", stored.key, "' cannot be read"), stored.problem,
              "Restore an older checkpoint.")
      .at(contents_.prefix)
      .of_tensor(stored.key);
}

void Matcher::refuse_unlike(const std::string& key, const StoredTensor& stored,
                            const LocalTensor& tensor) const {
  // For the way out of the error: such a vector could be given as a resizable one.
  const bool is_vector = stored.dtype == tensor.dtype && state_.follows(key) &&
                         tensor.shape.size() == 1 && stored.shape.size() == 1;
  throw Error(Code::invalid_argument,
              cat("tensor '", key, "' is ", dtype_name(stored.dtype), " ", shape_text(stored.shape),
                  " in ", name_of(contents_), " and ", dtype_name(tensor.dtype), " ",
                  shape_text(tensor.shape), " in the state"),
              is_vector ? "a restore resizes ragged, rank-private and resizable vectors only"
                        : "a restore changes neither unless it is asked to",
              is_vector ? cat("Resize it to ", stored.shape[0],
                              " before the restore, give it as cairn::resizable, or set "
                              "RestoreOptions::offset for a part.")
                        : "Give the state this dtype and shape, or set "
                          "RestoreOptions::convert for the dtype, offset for a part.")
      .of_tensor(key);
}

// The result is in the dtype and coordinates of the stored tensor. Offsets move its boxes, and
// memory of another dtype is wrapped so that it converts what is written to it.
WantedTensor Matcher::match(const std::string& key, const StoredTensor& stored,
                            const LocalTensor& tensor) const {
  if (tensor.resizes) {
    auto wanted = match_rows(key, stored, tensor);
    if (!tensor.strings) place_rows(key, wanted, tensor, 0, stored.shape[0]);
    return wanted;
  }
  const auto how = conversion_of(key);
  const auto offset = options_.offset.find(key);
  if ((stored.dtype != tensor.dtype && how == Conversion::refuse) ||
      (stored.shape != tensor.shape && offset == options_.offset.end())) {
    refuse_unlike(key, stored, tensor);
  }
  check_dtypes(key, stored.dtype, tensor.dtype);
  for (const auto& slice : tensor.slices) require_writable(key, slice.memory->writable());
  WantedTensor wanted(number_of(stored), tensor);
  if (tensor.unresolved) wanted.change().unresolved = nullptr;
  if (offset != options_.offset.end()) move_into(key, stored, offset->second, wanted.change());
  if (stored.dtype != tensor.dtype) {
    auto& own = wanted.change();
    own.dtype = stored.dtype;
    wanted.converts = true;
    for (auto& slice : own.slices) {
      slice.memory = converting_memory(key, stored.dtype, tensor.dtype, how, slice.box.start,
                                       std::move(slice.memory));
    }
  }
  return wanted;
}

// The result has no slices yet, since only the ids or the other ranks tell which rows this rank
// gets.
WantedTensor Matcher::match_rows(const std::string& key, const StoredTensor& stored,
                                 const LocalTensor& tensor) const {
  if (options_.offset.count(key)) {
    throw Error(Code::invalid_argument, cat("tensor '", key, "' of rows has an offset"),
                "its shape is the stored one",
                tensor.resizes ? "Give whole() of a vector that is as long as the part."
                : tensor.unresolved->kind == Unresolved::Kind::indexed
                    ? "Give the ids of the rows that are wanted."
                    : "Deal the rows with a distribution.")
        .of_tensor(key);
  }
  if ((stored.dtype != tensor.dtype && conversion_of(key) == Conversion::refuse) ||
      stored.shape.size() != tensor.shape.size() ||
      row_shape(stored.shape) != row_shape(tensor.shape)) {
    throw Error(
        Code::invalid_argument,
        cat("tensor '", key, "' is ", dtype_name(stored.dtype), " ", shape_text(stored.shape),
            " in ", name_of(contents_), " and of rows of ", dtype_name(tensor.dtype), " ",
            shape_text(row_shape(tensor.shape)), " in the state"),
        "a restore changes the number of rows only",
        "Give the state rows of this dtype and shape, or set "
        "RestoreOptions::convert for the dtype.")
        .of_tensor(key);
  }
  check_dtypes(key, stored.dtype, tensor.dtype);
  if (const auto& rows = rows_of(tensor)) {
    require_writable(key, rows->resizable());
  } else {
    for (const auto& slice : tensor.slices) require_writable(key, slice.memory->writable());
  }
  WantedTensor wanted(number_of(stored), tensor);
  auto& own = wanted.change();
  own.unresolved = nullptr;
  own.slices.clear();
  own.dtype = stored.dtype;
  own.shape = stored.shape;
  return wanted;
}

void Matcher::place_rows(const std::string& key, WantedTensor& wanted, const LocalTensor& given,
                         std::int64_t start, std::int64_t count) const {
  Box box = Box::whole(wanted.tensor().shape);
  box.start[0] = start;
  box.extent[0] = count;
  if (!box.empty()) wanted.change().slices = {{std::move(box), nullptr}};
  // Called when everything has been checked and the application's memory may change.
  wanted.make_room = [=, rows = rows_of(given), to = given.dtype,
                      how = conversion_of(key)](LocalTensor& tensor) {
    rows->resize(count);
    for (auto& slice : tensor.slices) {
      slice.memory = rows->memory();
      if (tensor.dtype == to) continue;
      slice.memory =
          converting_memory(key, tensor.dtype, to, how, slice.box.start, std::move(slice.memory));
    }
  };
}

std::function<std::shared_ptr<SliceMemory>(std::shared_ptr<SliceMemory>)> Matcher::conversion(
    const std::string& key, DType stored, DType wanted, std::size_t dimensions) const {
  if (stored == wanted) return nullptr;
  return [=, how = conversion_of(key)](std::shared_ptr<SliceMemory> memory) {
    // A rank's rows may lie anywhere in the tensor, so messages give the place in its own memory.
    return converting_memory(key, stored, wanted, how, Dims(dimensions), std::move(memory));
  };
}

Conversion Matcher::conversion_of(const std::string& key) const {
  const auto own = options_.convert_keys.find(key);
  return own == options_.convert_keys.end() ? options_.convert : own->second;
}

void Matcher::check_dtypes(const std::string& key, DType stored, DType wanted) const {
  if (stored == wanted || (is_convertible(stored) && is_convertible(wanted))) return;
  throw Error(Code::unsupported,
              cat("tensor '", key, "' cannot be converted from ", dtype_name(stored), " to ",
                  dtype_name(wanted)),
              "only booleans, integers of 8 to 64 bits, float16, bfloat16, float32, float64 and "
              "complex numbers of these are converted",
              cat("Give the state dtype ", dtype_name(stored), "."))
      .of_tensor(key);
}

int Matcher::number_of(const StoredTensor& stored) const {
  return static_cast<int>(&stored - contents_.tensors.data());
}

}  // namespace cairn
