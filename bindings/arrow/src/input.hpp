// Files that are read.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <arrow/io/interfaces.h>
#include <arrow/util/key_value_metadata.h>

#include "prefetch.hpp"

namespace tidegate::arrowfs {

// Any range at any time: ReadAt, ReadAsync and what builds on them by any number of threads at once, and none waits for
// another one's bytes, unless they share a request. Read and Seek by one.
class InputFile final : public ::arrow::io::RandomAccessFile {
  public:
    InputFile(Reader reader, std::string url, const ::arrow::io::IOContext &context);

    ::arrow::Status Close() override;
    bool closed() const override { return closed_; }
    ::arrow::Result<std::int64_t> Tell() const override;
    ::arrow::Status Seek(std::int64_t position) override;
    ::arrow::Result<std::int64_t> GetSize() override;
    ::arrow::Result<std::shared_ptr<const ::arrow::KeyValueMetadata>> ReadMetadata() override;
    const ::arrow::io::IOContext &io_context() const override { return context_; }

    ::arrow::Result<std::int64_t> Read(std::int64_t length, void *out) override;
    ::arrow::Result<std::shared_ptr<::arrow::Buffer>> Read(std::int64_t length) override;

    using ::arrow::io::RandomAccessFile::ReadAsync;
    using ::arrow::io::RandomAccessFile::ReadManyAsync;
    ::arrow::Result<std::int64_t> ReadAt(
        std::int64_t position, std::int64_t length, bool allow_short_read, void *out) override;
    ::arrow::Result<std::int64_t> ReadAt(std::int64_t position, std::int64_t length, void *out) override {
        return ReadAt(position, length, true, out);
    }
    ::arrow::Result<std::shared_ptr<::arrow::Buffer>> ReadAt(
        std::int64_t position, std::int64_t length, bool allow_short_read) override;
    ::arrow::Result<std::shared_ptr<::arrow::Buffer>> ReadAt(std::int64_t position, std::int64_t length) override {
        return ReadAt(position, length, true);
    }
    BufferFuture ReadAsync(
        const ::arrow::io::IOContext &context, std::int64_t position, std::int64_t length, bool allow_short_read) override;
    BufferFuture ReadAsync(
        const ::arrow::io::IOContext &context, std::int64_t position, std::int64_t length) override {
        return ReadAsync(context, position, length, true);
    }
    std::vector<BufferFuture> ReadManyAsync(
        const ::arrow::io::IOContext &context, const std::vector<::arrow::io::ReadRange> &ranges) override;
    ::arrow::Status WillNeed(const std::vector<::arrow::io::ReadRange> &ranges) override;

  private:
    ::arrow::Status CheckOpen() const;
    // How many bytes there are to read.
    ::arrow::Result<std::int64_t> Length(std::int64_t position, std::int64_t length, bool allow_short_read) const;
    // The fetch that has the bytes, if they were fetched ahead.
    std::shared_ptr<Fetch> Ahead(std::int64_t position, std::int64_t length);
    // A fetch for one who asks for these bytes.
    std::shared_ptr<Fetch> Begin(const ::arrow::io::IOContext &context, std::int64_t position, std::int64_t length);

    const SharedReader reader_;
    const std::string url_;
    const ::arrow::io::IOContext context_;
    const std::int64_t size_;
    const pid_t process_ = getpid();
    Prefetch prefetch_;
    std::int64_t position_ = 0;
    std::atomic<bool> closed_ = false;
};

// From the beginning to the end, read ahead by the library. One thread at a time.
class InputStream final : public ::arrow::io::InputStream {
  public:
    InputStream(Reader reader, std::string url, const ::arrow::io::IOContext &context);

    ::arrow::Status Close() override;
    bool closed() const override { return closed_; }
    ::arrow::Result<std::int64_t> Tell() const override;
    ::arrow::Result<std::int64_t> Read(std::int64_t length, void *out) override;
    ::arrow::Result<std::shared_ptr<::arrow::Buffer>> Read(std::int64_t length) override;
    ::arrow::Result<std::shared_ptr<const ::arrow::KeyValueMetadata>> ReadMetadata() override;
    const ::arrow::io::IOContext &io_context() const override { return context_; }

  private:
    ::arrow::Status CheckOpen() const;

    const SharedReader reader_;
    const std::string url_;
    const ::arrow::io::IOContext context_;
    std::int64_t position_ = 0;
    std::atomic<bool> closed_ = false;
};

}  // namespace tidegate::arrowfs
