"""The rooms of the source tree: for each, what it may include, its public headers, and its face."""

# For each room, the other rooms that it may include directly. Public headers belong to rooms, too.
# No room is in a cycle: they can be built in the order of this table.
ALLOWED = {
    "base": set(),
    "model": {"base"},
    "group": {"base"},
    "io": {"base"},
    "bucket": {"base"},
    "layout": {"base", "model"},
    "foreign": {"base", "model"},
    "exchange": {"base", "model", "group", "layout"},
    "store": {"base", "model", "group", "io", "bucket", "layout", "foreign", "exchange"},
    "session": {"base", "model", "group", "io", "layout", "exchange", "store"},
    "tools": {"base", "model", "group", "io", "layout", "foreign", "exchange", "store", "session"},
    "cli": {"base", "model", "group", "io", "layout", "store", "session", "tools"},
    "testing": {"base", "group", "io"},  # linked by tests and benchmarks, not installed
    "whole": {"base", "model", "group", "io", "exchange", "store", "session", "tools"},  # cairn.hpp
    "c": {"base", "model", "group", "exchange", "store", "session", "tools"},  # cairn.h
    "mpi": {"base", "layout"},  # libhdf5, held properly; and every public header
    "kokkos": set(),  # and every public header
    "fortran": {"base"},  # words of errors; and every public header
    "python": {"base", "model", "session", "store", "mpi"},  # and every public header
    "bench": {"base", "model", "group", "io", "layout", "exchange", "store", "session", "testing", "mpi", "kokkos"},
}
LOOKS_BEHIND = {"bench"}  # it may measure what is no part of a face
FREE_OF_ROOMS = {"mpi", "kokkos", "fortran", "python", "bench"}  # see every public header, but never each other
ROOM_OF_PUBLIC_HEADER = {
    "background": "base", "error": "base", "log": "base", "path_text": "base", "version": "base",
    "version_macros": "base", "write_options": "base",
    "attributes": "model", "box": "model", "contents": "model", "cursor": "model", "device": "model",
    "dtype": "model", "indexed": "model", "mesh": "model", "object_graph": "model",
    "ragged": "model", "resizable": "model", "restore_options": "model", "application": "model",
    "slice_memory": "model", "sparse": "model", "state": "model", "statistics": "model",
    "xdmf": "model",
    "group": "group", "shared_files": "group",
    "file_system": "io",
    "sharding": "exchange",
    "restart": "store", "retention": "store",
    "async": "session", "checkpoint": "session", "checkpoint_manager": "session",
    "checkpoints_iterator": "session", "frozen": "session", "hdf5": "session",
    "optimal_interval": "session", "options": "session", "redistribute": "session",
    "sharded_save": "session", "stop": "session", "tier": "session",
    "bundle": "tools",
    "cairn": "whole",
    "c": "c",  # include/cairn/c
    "mpi": "mpi",
    "kokkos": "kokkos",
}
ROOM_OF_C_HEADER = {"cairn.h": "c", "cairn_mpi.h": "mpi"}  # apart from the folder of the others
# The face of a room: the headers that other rooms may include, without their ending. For base and
# model, whose headers are common terms, these are all headers; for a room that is not here, none.
OPEN_ROOMS = {"base", "model"}
FACES = {
    "group": {"call_group", "collectives"},
    "io": {"content", "file_system", "limited", "local_path", "paced", "staging_pool", "system_error"},
    "bucket": {"bucket", "requests"},
    "layout": {"bundle/index", "bundle/index_split", "bundle/cached_index", "bundle/key_text", "bundle/meta",
        "bundle/numbers", "bundle/overlap", "bundle/part_record", "bundle/stored_gaps",
        "bundle/stored_graph", "bundle/stored_strings", "bundle/table", "codec", "hdf5/chunk_tree", "hdf5/foreign",
        "hdf5/hdf5_seal", "hdf5/holders", "hdf5/lay_out", "hdf5/library", "offsets"},
    "foreign": {"safetensors/header", "torch/archive", "torch/metadata", "torch/pickle",
        "torch/saved_tensor", "xdmf/xdmf_text", "zarr/metadata"},
    "exchange": {"assign_replicas", "box_check", "by_key", "chunks", "coverage", "divisions", "exchange",
        "gaps", "id_sets", "io_ranks", "messages", "pass_pieces", "plan_together", "row_exchange",
        "spread"},
    "store": {"address", "commit/names", "commit/ownership", "commit/protocol", "commit/sequences",
        "commit/state_file", "contents/contents_reader", "contents/data_file", "contents/data_files",
        "contents/find_checkpoints", "contents/format", "contents/given_back", "contents/hdf5_reader",
        "contents/lost", "contents/no_more_open", "contents/open_checkpoint", "contents/own_index",
        "contents/read_holders", "contents/replace_files", "contents/seal", "contents/spare", "contents/standing",
        "contents/whose", "directory/candidates", "directory/catalog", "directory/commit_bundle",
        "directory/marks", "directory/named_checkpoint", "directory/new_metadata",
        "directory/open_metrics", "directory/pins", "directory/recovery", "directory/retention",
        "directory/save_status", "directory/set_aside", "directory/thin", "directory/xdmf_file",
        "draft", "location", "nodes/flush_node", "nodes/home_id", "nodes/place", "nodes/save_map",
        "nodes/sets", "nodes/tidy_node", "sink", "store"},
    "session": {"engine", "job/prefix", "nodes/node_file", "option_text", "restore/find_tensor",
        "schedule/run_history"},
    "tools": {"colours", "convert_checkpoint", "dcp_import", "diff", "diff_sample", "draw",
        "element_numbers", "file_system_trial", "image", "node_saves", "progress", "read_tensor", "repair", "run_report",
        "safetensors", "sample", "slice_map", "value_statistics", "verify", "verify_beside", "zarr_export"},
}
# A face has at most this many of a hundred headers of its room ...
WIDEST_FACE = 40
# ... with these exceptions.
WIDER_FACES = {"group": 50, "io": 46, "layout": 59, "foreign": 100, "exchange": 65, "store": 68, "tools": 74}
