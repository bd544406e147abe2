// Reads of one object, which are carried out by the engine's threads.
#pragma once

#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/future.h>
#include <tidegate.hpp>

namespace tidegate::arrowfs {

using BufferFuture = ::arrow::Future<std::shared_ptr<::arrow::Buffer>>;

// A reader that all who read an object share. It lives as long as its reads.
class SharedReader {
  public:
    explicit SharedReader(Reader reader);
    ~SharedReader();
    SharedReader(const SharedReader &) = delete;
    SharedReader &operator=(const SharedReader &) = delete;

    const Reader &operator*() const { return reader_; }
    const Reader *operator->() const { return &reader_; }
    void Cancel() { reader_.cancel(); }

  private:
    Reader reader_;
};

// Bytes that are on their way, or there.
class Fetch {
  public:
    // Begins to read, without waiting. Whatever fails is what Wait() and Slice() give.
    static std::shared_ptr<Fetch> Begin(
        std::shared_ptr<SharedReader> reader, const ::arrow::io::IOContext &context, std::int64_t offset, std::int64_t length);

    std::int64_t offset() const { return offset_; }
    std::int64_t end() const { return offset_ + length_; }
    bool Has(std::int64_t offset, std::int64_t length) const { return offset >= offset_ && offset + length <= end(); }

    // The bytes, once they are there. Needs no thread of Arrow: one that waits here may be their last.
    ::arrow::Result<std::shared_ptr<::arrow::Buffer>> Wait();
    // A part of the bytes. What waits for it goes on on a thread of the context's executor, because it may block, and
    // threads of an engine must not.
    BufferFuture Slice(const ::arrow::io::IOContext &context, std::int64_t offset, std::int64_t length);

  private:
    struct Waiting {
        BufferFuture future;
        ::arrow::internal::Executor *executor;
        std::int64_t offset, length;
    };
    struct Call;

    Fetch(std::int64_t offset, std::int64_t length) : offset_(offset), length_(length) {}
    void End(::arrow::Status status);
    ::arrow::Result<std::shared_ptr<::arrow::Buffer>> Part(std::int64_t offset, std::int64_t length) const;

    // An inherited read never ends.
    ::arrow::Status CheckProcess() const;

    const std::int64_t offset_, length_;
    const pid_t process_ = getpid();
    std::shared_ptr<::arrow::Buffer> buffer_;
    std::mutex mutex_;
    std::condition_variable has_ended_;
    bool ended_ = false;
    ::arrow::Status status_;
    std::vector<Waiting> waiting_;
};

}  // namespace tidegate::arrowfs
