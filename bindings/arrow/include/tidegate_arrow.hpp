// Object storage as a file system of Arrow, for programs in C++20 and for the Python module tidegate.arrow.
// docs/ARROW.md is the guide.
//
// Errors are Status. Those of missing files, refused permissions and the like carry an errno, as those of Arrow's own file
// systems do. Each names the URL, what failed, and why.
#ifndef TIDEGATE_ARROW_HPP
#define TIDEGATE_ARROW_HPP

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <arrow/filesystem/filesystem.h>

#if defined(__GNUC__)
#define TIDEGATE_ARROW_EXPORT __attribute__((visibility("default")))
#else
#define TIDEGATE_ARROW_EXPORT
#endif

namespace tidegate::arrowfs {

// Options by name, in any order; docs/C.md has the names.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct TideOptions {
    // Of the engine. File systems with equal settings share one engine, and with it one memory budget.
    Settings engine;
    // How the store is reached.
    Settings store;
    // Of all files that are written.
    Settings write;
};

// A store: `s3://bucket`, `gs://bucket`, `az://container`, `memory://name`, or a prefix of one. Paths are keys below it.
// Any number of threads at once. A forked child opens the store anew.
//
// Directories are as in Arrow's S3FileSystem: there is one where a key begins with its path and `/`, and creating one
// writes an empty object of that key. They can't be moved; files can't be appended to. Local directories are refused:
// Arrow has LocalFileSystem.
//
// A file that is written is visible by Close(), whole, and by nothing else: Abort() and the destructor discard, and a
// Close() after a failed Write(), or while an exception unwinds, fails. Streams of Arrow around one, such as
// BufferedOutputStream, close it in their destructors: Abort() such a stream before you leave it early. Reads of one open
// file are of one object.
class TIDEGATE_ARROW_EXPORT TideFileSystem : public ::arrow::fs::FileSystem {
  public:
    // Opens a store, and sends nothing.
    static ::arrow::Result<std::shared_ptr<TideFileSystem>> Make(
        const std::string &url,
        TideOptions options = {},
        const ::arrow::io::IOContext &io_context = ::arrow::io::default_io_context());
    ~TideFileSystem() override;

    std::string type_name() const override { return "tidegate"; }
    // Waits until the sessions of all files that were discarded so far are aborted. Threads, engines and their sessions
    // are shared by file systems with equal engine settings.
    ::arrow::Status WaitForAborts(std::chrono::milliseconds at_most) const;
    // The same of all file systems of the process.
    static ::arrow::Status WaitForAllAborts(std::chrono::milliseconds at_most);

    // The URL, without a slash at its end.
    const std::string &url() const;

    ::arrow::Result<std::string> NormalizePath(std::string path) override;
    // Takes URLs of the store, such as `s3://bucket/a/b`.
    ::arrow::Result<std::string> PathFromUri(const std::string &uri) const override;
    bool Equals(const ::arrow::fs::FileSystem &other) const override;

    using ::arrow::fs::FileSystem::CreateDir;
    using ::arrow::fs::FileSystem::DeleteDirContents;
    using ::arrow::fs::FileSystem::Equals;
    using ::arrow::fs::FileSystem::GetFileInfo;
    using ::arrow::fs::FileSystem::OpenAppendStream;
    using ::arrow::fs::FileSystem::OpenInputFile;
    using ::arrow::fs::FileSystem::OpenInputStream;
    using ::arrow::fs::FileSystem::OpenOutputStream;

    ::arrow::Result<::arrow::fs::FileInfo> GetFileInfo(const std::string &path) override;
    // Looks up all paths at the same time.
    ::arrow::Result<::arrow::fs::FileInfoVector> GetFileInfo(const std::vector<std::string> &paths) override;
    ::arrow::Result<::arrow::fs::FileInfoVector> GetFileInfo(const ::arrow::fs::FileSelector &select) override;

    ::arrow::Status CreateDir(const std::string &path, bool recursive) override;
    ::arrow::Status DeleteDir(const std::string &path) override;
    ::arrow::Status DeleteDirContents(const std::string &path, bool missing_dir_ok) override;
    // Removes all objects of the store.
    ::arrow::Status DeleteRootDirContents() override;
    ::arrow::Status DeleteFile(const std::string &path) override;
    // The store copies the object, and removes it then, if it is still the one that was copied. Refused if the options have a
    // storage class or an encryption: the object keeps its own.
    ::arrow::Status Move(const std::string &src, const std::string &dest) override;
    // The store copies the object with its attributes. Of the settings of writes it has `concurrency`, `create_only`,
    // `encryption`, `part_size` and `storage_class`.
    ::arrow::Status CopyFile(const std::string &src, const std::string &dest) override;

    ::arrow::Result<std::shared_ptr<::arrow::io::InputStream>> OpenInputStream(const std::string &path) override;
    ::arrow::Result<std::shared_ptr<::arrow::io::InputStream>> OpenInputStream(
        const ::arrow::fs::FileInfo &info) override;
    // One request, for the description.
    ::arrow::Result<std::shared_ptr<::arrow::io::RandomAccessFile>> OpenInputFile(const std::string &path) override;
    // No request, where the size is known.
    ::arrow::Result<std::shared_ptr<::arrow::io::RandomAccessFile>> OpenInputFile(
        const ::arrow::fs::FileInfo &info) override;
    // Of the metadata, Content-Type and the like become attributes of the object, and the rest its user metadata.
    ::arrow::Result<std::shared_ptr<::arrow::io::OutputStream>> OpenOutputStream(
        const std::string &path, const std::shared_ptr<const ::arrow::KeyValueMetadata> &metadata) override;
    // Refused: NotImplemented.
    ::arrow::Result<std::shared_ptr<::arrow::io::OutputStream>> OpenAppendStream(
        const std::string &path, const std::shared_ptr<const ::arrow::KeyValueMetadata> &metadata) override;

  private:
    class Impl;
    TideFileSystem(std::shared_ptr<Impl> impl, const ::arrow::io::IOContext &io_context);
    std::shared_ptr<Impl> impl_;
};

}  // namespace tidegate::arrowfs

#endif  // TIDEGATE_ARROW_HPP
