#include "stored.hpp"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "cairn/contents.hpp"
#include "cairn/error.hpp"
#include "session/option_text.hpp"

namespace cairn::python {

const CheckpointContents& Stored::contents() const {
  if (contents_) return *contents_;
  throw Error(Code::invalid_argument, "what was stored is known while a restore runs only");
}

py::object Stored::find(const std::string& key) const {
  contents();
  const auto* tensor = finder_.find(key);
  if (!tensor) return py::none();
  return py::make_tuple(std::string(dtype_name(tensor->dtype)), tuple_of(tensor->shape));
}

namespace {

py::object json_of(const Attributes& all, const std::string& name) {
  const auto found = all.find(name);
  return found == all.end() ? py::object(py::none()) : py::str(found->second.json());
}

}  // namespace

py::object Stored::said(const std::string& key, const std::string& name) const {
  const auto* tensor = contents().meta ? finder_.find(key) : nullptr;
  return json_of(contents_->description(tensor ? tensor->key : key).attributes, name);
}

py::object Stored::said_of_all(const std::string& name) const {
  if (!contents().meta) return py::none();
  return json_of(contents_->meta->descriptions.attributes, name);
}

std::vector<std::string> Stored::names_below(const std::string& path) const {
  const auto front = path.empty() ? path : path + '/';
  const auto& all = contents().tensors;
  auto at = std::lower_bound(all.begin(), all.end(), front,
                             [](const auto& a, const auto& b) { return a.key < b; });
  std::vector<std::string> names;
  for (; at != all.end() && at->key.starts_with(front); ++at) {
    // A key of a variable's value in an object graph may be shown as the path alone.
    const auto shown = shown_name(at->key);
    if (!shown.starts_with(front)) continue;
    const auto name = shown.substr(front.size());
    auto word = name.substr(0, name.find('/'));
    if (names.empty() || names.back() != word) names.push_back(std::move(word));
  }
  return names;
}

void PythonMaker::make(State& made, const CheckpointContents& contents) {
  const py::gil_scoped_acquire lock;
  const Callable call(binding_.attr("make"));
  // A migration fills a copy of the state; other restores fill the state itself.
  const bool migrated = &made != &state_.state;
  if (migrated) state_.state = made;
  state_.owners.clear();
  state_.strings.clear();
  const auto stored = std::make_shared<Stored>(contents);
  using Names = std::vector<std::string>;
  const auto take = [&](const py::object& result) {
    auto [all, parts, new_keys, left] = py::cast<std::tuple<Names, Names, Names, Names>>(result);
    whole = std::move(all);
    apart = std::move(parts);
    own = {new_keys.begin(), new_keys.end()};
    kept = std::move(left);
  };
  try {
    call.call(take, py::cast(stored), migrated);
  } catch (...) {
    stored->close();
    throw;
  }
  stored->close();
  if (migrated) made = state_.state;
}

void PythonMaker::migrate(const Callable& function, const Application& from,
                          RestoreOptions& options) {
  const py::gil_scoped_acquire lock;
  const Callable call(binding_.attr("migrate"));
  using Named = std::vector<std::pair<std::string, std::string>>;
  const auto named = call.call([](const py::object& told) { return py::cast<Named>(told); },
                               function.function(), from.name, from.version, from.commit);
  RestoreOptions changed;
  for (const auto& [name, value] : named) set_option(changed, name, value);
  options = std::move(changed);
}

Making::Making(const py::object& binding)
    : state_(py::cast<PythonState&>(py::object(binding.attr("native")))) {
  state_.state.made_by(std::make_shared<PythonMaker>(state_, binding));
}

Making::~Making() { state_.state.made_by(nullptr); }

void add_stored(py::module_& module) {
  py::class_<Stored, std::shared_ptr<Stored>>(module, "Stored")
      .def("find", &Stored::find)
      .def("said", &Stored::said)
      .def("said_of_all", &Stored::said_of_all)
      .def("names_below", &Stored::names_below)
      .def_property_readonly("prefix", &Stored::prefix);
}

}  // namespace cairn::python
