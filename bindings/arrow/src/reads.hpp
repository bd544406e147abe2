// Reads of one object, which are carried out by the engine's threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/future.h>
#include <tidegate.hpp>

namespace tidegate::arrowfs {

using BufferFuture = ::arrow::Future<std::shared_ptr<::arrow::Buffer>>;

// A reader that all who read an object share. It lives as long as its reads, which the exit of the process cancels.
using SharedReader = std::shared_ptr<Reader>;
SharedReader Share(Reader reader);

// Bytes that are on their way, or there. What nobody has or waits for any more is cancelled.
class Fetch : public std::enable_shared_from_this<Fetch> {
  public:
    // Begins to read, without waiting. Whatever fails is what Wait() and Slice() give.
    static std::shared_ptr<Fetch> Begin(
        SharedReader reader, const ::arrow::io::IOContext &context, std::int64_t offset, std::int64_t length);
    ~Fetch();
    Fetch(const Fetch &) = delete;
    Fetch &operator=(const Fetch &) = delete;

    std::int64_t offset() const { return offset_; }
    std::int64_t end() const { return offset_ + length_; }
    // The memory of the bytes, which lives as long as anybody is to get them or has them.
    std::weak_ptr<::arrow::Buffer> memory() const { return buffer_; }
    bool HasFailed();

    // The bytes, once they are there. Needs no thread of Arrow: one that waits here may be their last.
    ::arrow::Result<std::shared_ptr<::arrow::Buffer>> Wait();
    // A part of the bytes. What waits for it goes on on a thread of the context's executor, because it may block, and
    // threads of an engine must not.
    BufferFuture Slice(const ::arrow::io::IOContext &context, std::int64_t offset, std::int64_t length);

  private:
    struct Waiting {
        // Somebody waits for it.
        std::shared_ptr<Fetch> fetch;
        BufferFuture future;
        ::arrow::internal::Executor *executor;
        std::int64_t offset, length;
    };
    struct Call;

    Fetch(std::int64_t offset, std::int64_t length) : offset_(offset), length_(length) {}
    void End(::arrow::Status status);
    ::arrow::Result<std::shared_ptr<::arrow::Buffer>> Part(std::int64_t offset, std::int64_t length) const;

    const std::int64_t offset_, length_;
    std::shared_ptr<::arrow::Buffer> buffer_;
    tg_op *op_ = nullptr;
    std::mutex mutex_;
    std::condition_variable has_ended_;
    bool ended_ = false;
    ::arrow::Status status_;
    std::vector<Waiting> waiting_;
};

}  // namespace tidegate::arrowfs
