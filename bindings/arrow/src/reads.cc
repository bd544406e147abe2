#include "reads.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include <arrow/memory_pool.h>
#include <arrow/util/thread_pool.h>

#include "living.hpp"
#include "status.hpp"

namespace tidegate::arrowfs {

using ::arrow::Buffer;
using ::arrow::Result;
using ::arrow::Status;

namespace {

// How long the exit of the process waits until the reads that it cancels have ended.
constexpr std::chrono::seconds kPatience(5);

// The readers of this process, and how many asynchronous reads are under way. Never destroyed: threads of engines use it
// until the process is gone.
class Running {
  public:
    static Running &Get() {
        static auto &running = *new Running;
        return running;
    }

    Running() {
        // The threads that would end the reads are the parent's.
        pthread_atfork(nullptr, nullptr, [] { Get().reads_ = 0; });
    }

    void Add(const SharedReader &reader) { readers_.Add(reader); }

    // False once the process exits: then no read may begin.
    bool Begin() {
        ++reads_;
        if (!exits_) return true;
        End();
        return false;
    }
    void End() { --reads_; }
    bool exits() const { return exits_; }

    // Cancels all reads, and waits until those who wait for them know. Otherwise a thread of Arrow's pools, which the
    // exit joins, would wait for ever, or a read would end into a pool that is gone.
    void Exit() {
        exits_ = true;
        for (const SharedReader &reader : readers_.All()) reader->cancel();
        const auto until = std::chrono::steady_clock::now() + kPatience;
        while (reads_ != 0 && std::chrono::steady_clock::now() < until)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }

  private:
    Living<Reader> readers_;
    std::atomic<std::int64_t> reads_ = 0;
    std::atomic<bool> exits_ = false;
};

// Ends all reads when the process exits, while Arrow's pools are still there: what is made first is destroyed last.
struct AtExit {
    AtExit() {
        (void)::arrow::default_memory_pool();
        (void)::arrow::internal::GetCpuThreadPool();
        (void)::arrow::io::default_io_context().executor();
        (void)Running::Get();
    }
    ~AtExit() { Running::Get().Exit(); }
};
const AtExit at_exit;

}  // namespace

SharedReader Share(Reader reader) {
    auto shared = std::make_shared<Reader>(std::move(reader));
    Running::Get().Add(shared);
    return shared;
}

// A read that a thread of the engine ends.
struct Fetch::Call {
    std::weak_ptr<Fetch> fetch;
    // The bytes may come until the call has ended, also if nobody wants them any more.
    std::shared_ptr<Buffer> buffer;
    SharedReader reader;
    std::int64_t offset;
    std::size_t read = 0;

    // What came is all that was asked for.
    Status Outcome(tg_error *failed) const {
        if (failed != nullptr) return ToStatus(Error(failed));
        if (static_cast<std::int64_t>(read) == buffer->size()) return Status::OK();
        return Status::IOError("the object ended after ", read, " of ", buffer->size(), " bytes at ", offset);
    }

    static void Done(void *user, tg_error *failed) noexcept {
        {
            const std::unique_ptr<Call> call(static_cast<Call *>(user));
            const Status outcome = call->Outcome(failed);
            if (const auto fetch = call->fetch.lock()) fetch->End(outcome);
        }
        Running::Get().End();
    }
};

std::shared_ptr<Fetch> Fetch::Begin(
    SharedReader reader, const ::arrow::io::IOContext &context, std::int64_t offset, std::int64_t length) {
    std::shared_ptr<Fetch> fetch(new Fetch(offset, length));
    auto buffer = ::arrow::AllocateBuffer(length, context.pool());
    if (!buffer.ok()) {
        fetch->End(buffer.status());
        return fetch;
    }
    fetch->buffer_ = *std::move(buffer);
    if (length == 0) {
        fetch->End(Status::OK());
        return fetch;
    }
    if (!Running::Get().Begin()) {
        fetch->End(Status::Cancelled("the process exits"));
        return fetch;
    }
    tg_reader *handle = reader->handle();
    auto call = std::make_unique<Call>(fetch, fetch->buffer_, std::move(reader), offset);
    Call &begun = *call;
    if (tg_error *failed = tg_reader_read_at_async(
            handle, static_cast<std::uint64_t>(offset), fetch->buffer_->mutable_data(), static_cast<std::size_t>(length),
            &begun.read, &Call::Done, &begun, &fetch->op_)) {
        fetch->End(ToStatus(Error(failed)));
        Running::Get().End();
        return fetch;
    }
    // `Done` frees the call; it may have done so by now.
    (void)call.release();
    return fetch;
}

Fetch::~Fetch() {
    if (op_ == nullptr) return;
    // Nothing happens if it has ended.
    tg_op_cancel(op_);
    tg_op_free(op_);
}

bool Fetch::HasFailed() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ended_ && !status_.ok();
}

Result<std::shared_ptr<Buffer>> Fetch::Part(std::int64_t offset, std::int64_t length) const {
    ARROW_RETURN_NOT_OK(status_);
    if (offset == offset_ && length == length_) return buffer_;
    return ::arrow::SliceBuffer(buffer_, offset - offset_, length);
}

void Fetch::End(Status status) {
    std::vector<Waiting> waiting;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        status_ = std::move(status);
        ended_ = true;
        waiting.swap(waiting_);
    }
    has_ended_.notify_all();
    for (Waiting &each : waiting) {
        auto part = Part(each.offset, each.length);
        // While the process exits, nobody knows whether the executor takes anything.
        if (!Running::Get().exits()) {
            const Status spawned =
                each.executor->Spawn([future = each.future, part]() mutable { future.MarkFinished(std::move(part)); });
            if (spawned.ok()) continue;
        }
        each.future.MarkFinished(std::move(part));
    }
}

Result<std::shared_ptr<Buffer>> Fetch::Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    has_ended_.wait(lock, [this] { return ended_; });
    return Part(offset_, length_);
}

BufferFuture Fetch::Slice(const ::arrow::io::IOContext &context, std::int64_t offset, std::int64_t length) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return BufferFuture::MakeFinished(Part(offset, length));
    auto future = BufferFuture::Make();
    waiting_.push_back({shared_from_this(), future, context.executor(), offset, length});
    return future;
}

}  // namespace tidegate::arrowfs
