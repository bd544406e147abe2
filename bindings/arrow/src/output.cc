#include "output.hpp"

#include <mutex>
#include <unordered_map>
#include <utility>

#include <arrow/buffer.h>

#include "fork_lock.hpp"
#include "rule.hpp"
#include "status.hpp"

namespace tidegate::arrowfs {

using ::arrow::Buffer;
using ::arrow::Result;
using ::arrow::Status;

// The streams that are open. Never destroyed: streams may be destroyed until the process is gone.
class OutputStream::Open {
  public:
    static Open &Get() {
        static auto &open = *new Open;
        return open;
    }
    void Add(std::int64_t number, const std::shared_ptr<Upload> &upload) {
        const std::lock_guard<ForkLock> lock(lock_);
        uploads_.emplace(number, upload);
    }
    void Remove(std::int64_t number, bool is_gone) {
        const std::lock_guard<ForkLock> lock(lock_);
        if (uploads_.erase(number) != 0 && is_gone) gone_.push_back(number);
    }
    std::shared_ptr<Upload> Find(std::int64_t number) {
        const std::lock_guard<ForkLock> lock(lock_);
        const auto found = uploads_.find(number);
        return found == uploads_.end() ? nullptr : found->second.lock();
    }
    std::size_t TakeGone(std::int64_t *streams, std::size_t most) {
        const std::lock_guard<ForkLock> lock(lock_);
        std::size_t count = 0;
        for (; count < most && !gone_.empty(); gone_.pop_back()) streams[count++] = gone_.back();
        return count;
    }

  private:
    ForkLock lock_;
    std::unordered_map<std::int64_t, std::weak_ptr<Upload>> uploads_;
    std::vector<std::int64_t> gone_;
};

namespace {

// What is smaller is copied by the library anyway.
constexpr std::int64_t kOwned = 64 << 10;

// Whether the memory came from a pool of Arrow, and stays as long as the buffer.
bool IsOfArrow(const Buffer &buffer) {
    const Buffer *root = &buffer;
    while (root->parent() != nullptr) root = root->parent().get();
    return buffer.is_cpu() && dynamic_cast<const ::arrow::ResizableBuffer *>(root) != nullptr;
}

}  // namespace

OutputStream::OutputStream(Writer writer, std::string url, std::shared_ptr<const void> owner)
    : owner_(std::move(owner)), upload_(std::make_shared<Upload>(std::move(writer))), url_(std::move(url)), number_(rule::Opened(url_)) {
    set_mode(::arrow::io::FileMode::WRITE);
    Open::Get().Add(number_, upload_);
}

OutputStream::~OutputStream() { Open::Get().Remove(number_, !closed_); }

Status OutputStream::CheckOpen() const {
    if (closed_) return Status::Invalid("I/O operation on a closed stream: ", url_);
    if (upload_->is_discarded) return Status::Invalid("I/O operation on a stream that was discarded: ", url_);
    return failed_;
}

Status OutputStream::Noted(Status status) {
    if (failed_.ok()) failed_ = status;
    return status;
}

Result<std::int64_t> OutputStream::Tell() const {
    if (closed_) return Status::Invalid("I/O operation on a closed stream: ", url_);
    return position_;
}

Status OutputStream::Write(const void *data, std::int64_t length) {
    ARROW_RETURN_NOT_OK(CheckOpen());
    if (length < 0) return Status::Invalid("a write of ", length, " bytes to ", url_);
    ARROW_RETURN_NOT_OK(Noted(Try([&] { upload_->writer.write(data, static_cast<std::size_t>(length)); })));
    position_ += length;
    return Status::OK();
}

Status OutputStream::Write(const std::shared_ptr<Buffer> &data) {
    if (data->size() < kOwned || !IsOfArrow(*data)) {
        if (!data->is_cpu()) return Status::NotImplemented("a write of memory that is not the CPU's, to ", url_);
        return Write(data->data(), data->size());
    }
    ARROW_RETURN_NOT_OK(CheckOpen());
    ARROW_RETURN_NOT_OK(Noted(Try([&] {
        upload_->writer.write_owned(
            data->data(), static_cast<std::size_t>(data->size()), [kept = data]() mutable { kept.reset(); });
    })));
    position_ += data->size();
    return Status::OK();
}

Status OutputStream::Close() {
    if (closed_.exchange(true)) return failed_;
    const rule::Verdict verdict = rule::Closing(number_);
    if (upload_->is_discarded) return Status::OK();
    if (!failed_.ok()) {
        Discard(number_);
        return failed_;
    }
    switch (verdict) {
        case rule::Verdict::discard:
            Discard(number_);
            return Status::OK();
        case rule::Verdict::interpreter_ends:
            Discard(number_);
            failed_ = Status::Cancelled(url_, " was not published: the interpreter ends");
            return failed_;
        case rule::Verdict::publish:
            break;
    }
    failed_ = Try([&] { (void)std::move(upload_->writer).finish(); });
    return failed_;
}

Status OutputStream::Abort() {
    if (closed_.exchange(true)) return Status::OK();
    upload_->is_discarded = true;
    return Try([&] { std::move(upload_->writer).abort(); });
}

void OutputStream::Discard(std::int64_t stream) {
    if (const std::shared_ptr<Upload> upload = Open::Get().Find(stream)) {
        upload->is_discarded = true;
        upload->writer.cancel();
    }
}

std::size_t OutputStream::TakeGone(std::int64_t *streams, std::size_t most) {
    return Open::Get().TakeGone(streams, most);
}

}  // namespace tidegate::arrowfs
