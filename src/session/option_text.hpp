#pragma once
/// Options as texts, under the names that visit() gives them ("keep.last", "store.format"): for
/// faces in other languages and whoever reads a file of settings. A member that visit() lists can
/// so be set from every language, and its name cannot differ between them.
#include <string>
#include <string_view>
#include <vector>

#include "cairn/options.hpp"
#include "cairn/restore_options.hpp"
#include "cairn/stop.hpp"

namespace cairn {

/// Sets one option. Members of a map or set are NAME.KEY: "write.mpi_io.hints.cb_nodes". Texts:
///   bool          true, false
///   number        as std::from_chars reads all of the text; "none" where there may be none
///   enum          the name of a value, as words() has them
///   Mtbf          seconds, or seconds:node, or learnt, or learnt:first guess; "none"
///   list          items between commas; nothing: an empty one
///   group that need not be there ("store.xdmf"): true or false; its members bring it
///   attribute     JSON
/// ManagerOptions also take TensorFlow's words: max_to_keep for keep.last, checkpoint_name for
/// name, checkpoint_interval for when.interval.steps, keep_checkpoint_every_n_hours for
/// keep.every_hours. Throws invalid_argument for a name that does not exist, with the one that is
/// most like it, and for a text that is no value of the option; unsupported for options that are
/// code, such as policies and callbacks.
void set_option(ManagerOptions&, std::string_view name, std::string_view value);
void set_option(SaveOptions&, std::string_view name, std::string_view value);
void set_option(RestoreOptions&, std::string_view name, std::string_view value);
void set_option(StopOptions&, std::string_view name, std::string_view value);

/// The option as set_option takes it. Throws as set_option; not_found for a KEY that is not there.
std::string option_text(const ManagerOptions&, std::string_view name);

/// Names of all options that can be given as text, in their order; of maps and sets NAME.KEY.
std::vector<std::string> option_names(const ManagerOptions&);
std::vector<std::string> option_names(const SaveOptions&);
std::vector<std::string> option_names(const RestoreOptions&);
std::vector<std::string> option_names(const StopOptions&);

}  // namespace cairn
