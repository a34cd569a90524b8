#pragma once
/// Part records in a bucket: with them the next owner completes a save whose ranks have all
/// written.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "store/bucket/bucket_files.hpp"
#include "store/bucket/bucket_log.hpp"
#include "store/directory/candidates.hpp"
#include "store/location.hpp"

namespace cairn {

/// Where they are. Each writer has one object for each slot of pending saves, which the next save
/// in the slot puts anew: so none has to be removed.
io::Path records_directory(const Location&);
std::string record_name(int slot, int writer, int writers);

/// Rank 0. Saves of former owners that all their writers have written, and that nothing was
/// committed after, in the order in which they were to be committed. Their steps do not count yet.
/// `undecided` gets those of which that cannot be told.
std::vector<Candidate> find_written(const Location&, BucketFiles&, const BucketLog&,
                                    std::set<std::int64_t>& undecided);

/// Removes all records. They are dead when those that find_written() returns are completed.
void remove_records(const Location&, BucketFiles&);

}  // namespace cairn
