#pragma once
/// How descriptions travel between ranks.
#include <string>
#include <vector>

#include "base/wire.hpp"
#include "cairn/contents.hpp"
#include "exchange/coverage.hpp"
#include "layout/bundle/index.hpp"

namespace cairn {

void put(WireWriter&, const Dims&);
Dims get_dims(WireReader&);

void put(WireWriter&, const Box&);
Box get_box(WireReader&);

void put(WireWriter&, const std::vector<Declaration>&);
std::vector<Declaration> get_declarations(WireReader&);

void put(WireWriter&, const StoredSlice&);
StoredSlice get_slice(WireReader&);

void put(WireWriter&, const std::vector<StoredTensor>&);
std::vector<StoredTensor> get_stored(WireReader&);

void put(WireWriter&, const bundle::IndexEntry&);
bundle::IndexEntry get_index_entry(WireReader&);

}  // namespace cairn
