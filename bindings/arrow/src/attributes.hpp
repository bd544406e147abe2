// Arrow's metadata of a file: as options of a write, and as a store has it.
#pragma once

#include <memory>

#include <arrow/result.h>
#include <arrow/util/key_value_metadata.h>
#include <tidegate.hpp>

#include "tidegate_arrow.hpp"

namespace tidegate::arrowfs {

::arrow::Result<Options> ToOptions(const Settings &settings);
// The settings of writes, and what the metadata adds to them.
::arrow::Result<Options> OfWrite(const Settings &settings, const ::arrow::KeyValueMetadata *metadata);
// Those settings that say how an object is stored: they hold for directories and copies too.
Settings OfStorage(const Settings &settings);

// What a store says of an object.
std::shared_ptr<const ::arrow::KeyValueMetadata> MetadataOf(const ObjectView &object);

}  // namespace tidegate::arrowfs
