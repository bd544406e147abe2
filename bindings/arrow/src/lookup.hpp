// What there is at paths: many at the same time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <arrow/filesystem/filesystem.h>
#include <arrow/result.h>
#include <tidegate.hpp>

namespace tidegate::arrowfs {

// The content type of the empty objects that stand for directories, as S3FileSystem writes it.
constexpr std::string_view kDirectoryType = "application/x-directory";

// A path as Arrow gives it.
struct Path {
    // Without slashes around it; empty for the root.
    std::string key;
    // Whether a slash says that it is a directory.
    bool is_directory;

    // The key as a prefix of the keys below it.
    std::string below() const { return key.empty() ? key : key + '/'; }
    std::string parent() const;
};

void Describe(const ObjectView &object, ::arrow::fs::FileInfo *info);

// Fills in what is at each path; `infos` has their names. A bucket that is not there has nothing. Waits.
::arrow::Status LookUp(const Store &store, const std::vector<Path> &paths, ::arrow::fs::FileInfoVector *infos);

}  // namespace tidegate::arrowfs
