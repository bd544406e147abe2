#include "face.hpp"

#include <utility>

#include <arrow/filesystem/mockfs.h>
#include <arrow/util/future.h>

namespace tidegate::arrowfs {

using ::arrow::Future;
using ::arrow::Result;
using ::arrow::Status;
using ::arrow::fs::FileInfo;
using ::arrow::fs::FileInfoGenerator;
using ::arrow::fs::FileInfoVector;
using ::arrow::fs::FileSelector;

namespace {

using InputStreamPointer = std::shared_ptr<::arrow::io::InputStream>;
using InputFilePointer = std::shared_ptr<::arrow::io::RandomAccessFile>;
using OutputStreamPointer = std::shared_ptr<::arrow::io::OutputStream>;
using Metadata = std::shared_ptr<const ::arrow::KeyValueMetadata>;

class Face final : public ::arrow::fs::SubTreeFileSystem {
  public:
    explicit Face(std::shared_ptr<TideFileSystem> files)
        : SubTreeFileSystem(
              files->url(),
              std::make_shared<::arrow::fs::internal::MockFileSystem>(::arrow::fs::TimePoint(), files->io_context())),
          files_(std::move(files)) {
        io_context_ = files_->io_context();
    }

    Result<std::string> NormalizePath(std::string path) override { return files_->NormalizePath(std::move(path)); }
    Result<std::string> PathFromUri(const std::string &uri) const override { return files_->PathFromUri(uri); }
    Result<std::string> MakeUri(std::string path) const override { return files_->MakeUri(std::move(path)); }
    bool Equals(const FileSystem &other) const override {
        const auto *same = dynamic_cast<const Face *>(&other);
        return same != nullptr && files_->Equals(*same->files_);
    }

    Result<FileInfo> GetFileInfo(const std::string &path) override { return files_->GetFileInfo(path); }
    Result<FileInfoVector> GetFileInfo(const std::vector<std::string> &paths) override {
        return files_->GetFileInfo(paths);
    }
    Result<FileInfoVector> GetFileInfo(const FileSelector &select) override { return files_->GetFileInfo(select); }
    Future<FileInfoVector> GetFileInfoAsync(const std::vector<std::string> &paths) override {
        return files_->GetFileInfoAsync(paths);
    }
    FileInfoGenerator GetFileInfoGenerator(const FileSelector &select) override {
        return files_->GetFileInfoGenerator(select);
    }
    Status CreateDir(const std::string &path, bool recursive) override { return files_->CreateDir(path, recursive); }
    Status DeleteDir(const std::string &path) override { return files_->DeleteDir(path); }
    Status DeleteDirContents(const std::string &path, bool missing_dir_ok) override {
        return files_->DeleteDirContents(path, missing_dir_ok);
    }
    Future<> DeleteDirContentsAsync(const std::string &path, bool missing_dir_ok) override {
        return files_->DeleteDirContentsAsync(path, missing_dir_ok);
    }
    Status DeleteRootDirContents() override { return files_->DeleteRootDirContents(); }
    Status DeleteFile(const std::string &path) override { return files_->DeleteFile(path); }
    Status DeleteFiles(const std::vector<std::string> &paths) override { return files_->DeleteFiles(paths); }
    Status Move(const std::string &src, const std::string &dest) override { return files_->Move(src, dest); }
    Status CopyFile(const std::string &src, const std::string &dest) override { return files_->CopyFile(src, dest); }

    Result<InputStreamPointer> OpenInputStream(const std::string &path) override {
        return files_->OpenInputStream(path);
    }
    Result<InputStreamPointer> OpenInputStream(const FileInfo &info) override { return files_->OpenInputStream(info); }
    Result<InputFilePointer> OpenInputFile(const std::string &path) override { return files_->OpenInputFile(path); }
    Result<InputFilePointer> OpenInputFile(const FileInfo &info) override { return files_->OpenInputFile(info); }
    Future<InputStreamPointer> OpenInputStreamAsync(const std::string &path) override {
        return files_->OpenInputStreamAsync(path);
    }
    Future<InputStreamPointer> OpenInputStreamAsync(const FileInfo &info) override {
        return files_->OpenInputStreamAsync(info);
    }
    Future<InputFilePointer> OpenInputFileAsync(const std::string &path) override {
        return files_->OpenInputFileAsync(path);
    }
    Future<InputFilePointer> OpenInputFileAsync(const FileInfo &info) override {
        return files_->OpenInputFileAsync(info);
    }
    Result<OutputStreamPointer> OpenOutputStream(const std::string &path, const Metadata &metadata) override {
        return files_->OpenOutputStream(path, metadata);
    }
    Result<OutputStreamPointer> OpenAppendStream(const std::string &path, const Metadata &metadata) override {
        return files_->OpenAppendStream(path, metadata);
    }

  private:
    const std::shared_ptr<TideFileSystem> files_;
};

}  // namespace

std::shared_ptr<::arrow::fs::FileSystem> FaceOf(std::shared_ptr<TideFileSystem> files) {
    return std::make_shared<Face>(std::move(files));
}

}  // namespace tidegate::arrowfs
