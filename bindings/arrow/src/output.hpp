// Files that are written.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <arrow/io/interfaces.h>
#include <tidegate.hpp>

namespace tidegate::arrowfs {

// The object becomes visible by Close() and by nothing else. One thread at a time.
class OutputStream final : public ::arrow::io::OutputStream {
  public:
    // Fails if Python cannot be told. `owner` is the file system, which lives as long as its streams: so the
    // exit, which waits for the aborts of all file systems, waits for theirs.
    static ::arrow::Result<std::shared_ptr<OutputStream>> Make(
        Writer writer, std::string url, std::shared_ptr<const void> owner);
    // Discards what was not closed, and does not wait.
    ~OutputStream() override;

    // Publishes. Fails after a failed write or close with that failure, and publishes nothing then; it also fails, and
    // publishes nothing, where an exception of C++ unwinds that was not there at the open. In Python it discards where an
    // exception is in flight, and succeeds: an error would take the place of that exception.
    ::arrow::Status Close() override;
    // Discards, and waits until the store has released the session; after a write that failed, which has discarded already,
    // it does not wait.
    ::arrow::Status Abort() override;
    bool closed() const override { return closed_; }
    ::arrow::Result<std::int64_t> Tell() const override;

    ::arrow::Status Write(const void *data, std::int64_t length) override;
    // Keeps the memory until the store has its bytes, if it is Arrow's own and 64 KiB or more. Other memory is copied: it
    // may be of a Python object, which a thread of the library must not free.
    ::arrow::Status Write(const std::shared_ptr<::arrow::Buffer> &data) override;
    using ::arrow::io::OutputStream::Write;

    // Discards a stream by its number, from any thread; nothing if there is none.
    static void Discard(std::int64_t stream);
    // Gives the numbers of streams that have ended, though Python has noted them and was not asked, and forgets them: as many
    // as fit. Those that were destroyed without a close are positive, the others negative.
    static std::size_t TakeEnded(std::int64_t *streams, std::size_t most);

  private:
    struct Upload {
        explicit Upload(Writer taken) : writer(std::move(taken)) {}
        Writer writer;
        std::atomic<bool> is_discarded = false;
    };
    class Open;

    OutputStream(Writer writer, std::string url, std::shared_ptr<const void> owner);
    ::arrow::Status CheckOpen() const;
    // Notes a failure of a write.
    ::arrow::Status Noted(::arrow::Status status);

    const std::shared_ptr<const void> owner_;
    const std::shared_ptr<Upload> upload_;
    const std::string url_;
    const std::int64_t number_;
    const int exceptions_ = std::uncaught_exceptions();
    // Whether Python has noted it, and is to hear of its end.
    bool is_noted_ = false;
    std::int64_t position_ = 0;
    std::atomic<bool> closed_ = false;
    ::arrow::Status failed_;
};

}  // namespace tidegate::arrowfs
