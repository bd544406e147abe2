// A TideFileSystem as pyarrow can take it.
#pragma once

#include <memory>

#include <arrow/filesystem/filesystem.h>

#include "tidegate_arrow.hpp"

namespace tidegate::arrowfs {

// pyarrow gives Python objects only to file systems of types that it knows. SubTreeFileSystem is one of them, and needs
// nothing of what is below. So this calls itself one, and passes on every call. What it says is below it is an empty
// file system of memory, which nobody ever calls: it lets Python show the object, and refuses to be pickled.
std::shared_ptr<::arrow::fs::FileSystem> FaceOf(std::shared_ptr<TideFileSystem> files);

}  // namespace tidegate::arrowfs
