#pragma once
/// Options as texts, under the names that visit() gives them ("keep.last", "store.format"), for
/// interfaces in other languages and for readers of settings files. So every member that visit()
/// lists can be set from every language, and has the same name in each.
#include <string>
#include <string_view>
#include <vector>

#include "cairn/options.hpp"
#include "cairn/restore_options.hpp"
#include "cairn/stop.hpp"

namespace cairn {

/// Sets one option. Members of a map or set are NAME.KEY: "write.mpi_io.hints.cb_nodes". Texts:
///   bool          true, false
///   number        as std::from_chars reads it, to the end of the text; "none" if it is optional
///   enum          the name of a value, as in words()
///   Mtbf          seconds, or seconds:node, or learnt, or learnt:first guess; "none"
///   list          items between commas; an empty text is an empty list
///   optional group ("store.xdmf"): true or false; setting a member makes the group, too
///   attribute     JSON
/// ManagerOptions also take TensorFlow's words: max_to_keep for keep.last, checkpoint_name for
/// name, checkpoint_interval for when.interval.steps, keep_checkpoint_every_n_hours for
/// keep.every_hours. Throws invalid_argument for a name that does not exist, with the most similar
/// name, and for a text that is no value of the option; unsupported for options that are code, such
/// as policies and callbacks.
void set_option(ManagerOptions&, std::string_view name, std::string_view value);
void set_option(SaveOptions&, std::string_view name, std::string_view value);
void set_option(RestoreOptions&, std::string_view name, std::string_view value);
void set_option(StopOptions&, std::string_view name, std::string_view value);

/// Returns the option as set_option takes it. Throws what set_option throws, and not_found for a
/// KEY that does not exist.
std::string option_text(const ManagerOptions&, std::string_view name);

/// The names of all options that can be given as text, in their order. Members of maps and sets are
/// NAME.KEY.
std::vector<std::string> option_names(const ManagerOptions&);
std::vector<std::string> option_names(const SaveOptions&);
std::vector<std::string> option_names(const RestoreOptions&);
std::vector<std::string> option_names(const StopOptions&);

}  // namespace cairn
