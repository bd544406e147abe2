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
    std::int64_t Add(const std::shared_ptr<Upload> &upload) {
        const std::lock_guard<ForkLock> lock(lock_);
        uploads_.emplace(++last_, upload);
        return last_;
    }
    // Python is told `said`, unless that is 0.
    void Remove(std::int64_t number, std::int64_t said) {
        const std::lock_guard<ForkLock> lock(lock_);
        if (uploads_.erase(number) != 0 && said != 0) ended_.push_back(said);
    }
    std::shared_ptr<Upload> Find(std::int64_t number) {
        const std::lock_guard<ForkLock> lock(lock_);
        const auto found = uploads_.find(number);
        return found == uploads_.end() ? nullptr : found->second.lock();
    }
    std::size_t TakeEnded(std::int64_t *streams, std::size_t most) {
        const std::lock_guard<ForkLock> lock(lock_);
        std::size_t count = 0;
        for (; count < most && !ended_.empty(); ended_.pop_back()) streams[count++] = ended_.back();
        return count;
    }

  private:
    ForkLock lock_;
    std::unordered_map<std::int64_t, std::weak_ptr<Upload>> uploads_;
    std::int64_t last_ = 0;
    std::vector<std::int64_t> ended_;
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
    : owner_(std::move(owner)),
      upload_(std::make_shared<Upload>(std::move(writer))),
      url_(std::move(url)),
      number_(Open::Get().Add(upload_)) {
    set_mode(::arrow::io::FileMode::WRITE);
}

Result<std::shared_ptr<OutputStream>> OutputStream::Make(
    Writer writer, std::string url, std::shared_ptr<const void> owner) {
    std::shared_ptr<OutputStream> stream(new OutputStream(std::move(writer), std::move(url), std::move(owner)));
    ARROW_ASSIGN_OR_RAISE(stream->is_noted_, rule::Opened(stream->number_, stream->url_));
    return stream;
}

OutputStream::~OutputStream() { Open::Get().Remove(number_, is_noted_ ? number_ : 0); }

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
    const bool is_asked = verdict != rule::Verdict::publish_unasked && verdict != rule::Verdict::interpreter_ends;
    // Python has told why.
    const bool is_dropped = upload_->is_discarded || verdict == rule::Verdict::discard;
    if (!is_dropped && failed_.ok()) {
        if (verdict == rule::Verdict::failed)
            failed_ = Status::IOError(url_, " was not published: Python has failed to say whether it is whole");
        else if (verdict == rule::Verdict::interpreter_ends)
            failed_ = Status::Cancelled(url_, " was not published: the interpreter ends");
        else if (std::uncaught_exceptions() > exceptions_)
            // The destructor of a stream of Arrow around this one closes it.
            failed_ = Status::Cancelled(url_, " was not published: it was closed while an exception unwinds");
        else
            failed_ = Try([&] { (void)std::move(upload_->writer).finish(); });
    }
    if (is_dropped || !failed_.ok()) Discard(number_);
    Open::Get().Remove(number_, is_noted_ && !is_asked ? -number_ : 0);
    return is_dropped ? Status::OK() : failed_;
}

Status OutputStream::Abort() {
    if (closed_.exchange(true)) return Status::OK();
    upload_->is_discarded = true;
    Open::Get().Remove(number_, is_noted_ ? -number_ : 0);
    // A write that failed has ended the writer.
    if (!failed_.ok()) return Status::OK();
    return Try([&] { std::move(upload_->writer).abort(); });
}

void OutputStream::Discard(std::int64_t stream) {
    if (const std::shared_ptr<Upload> upload = Open::Get().Find(stream)) {
        upload->is_discarded = true;
        upload->writer.cancel();
    }
}

std::size_t OutputStream::TakeEnded(std::int64_t *streams, std::size_t most) {
    return Open::Get().TakeEnded(streams, most);
}

}  // namespace tidegate::arrowfs
