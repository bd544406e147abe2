#include "input.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include <arrow/memory_pool.h>

#include "attributes.hpp"
#include "status.hpp"

namespace tidegate::arrowfs {

using ::arrow::Buffer;
using ::arrow::KeyValueMetadata;
using ::arrow::Result;
using ::arrow::Status;
using ::arrow::io::IOContext;
using ::arrow::io::ReadRange;

namespace {

// A file that has no more is read whole by its first read.
constexpr std::int64_t kSmall = 256 << 10;

}  // namespace

InputFile::InputFile(Reader reader, std::string url, const IOContext &context)
    : reader_(Share(std::move(reader))),
      url_(std::move(url)),
      context_(context),
      size_(static_cast<std::int64_t>(reader_->size())),
      prefetch_(reader_, context) {}

Status InputFile::Close() {
    closed_ = true;
    // In a forked child its lock may be held for ever.
    if (process_ == getpid()) prefetch_.Close();
    return Status::OK();
}

Status InputFile::CheckOpen() const {
    if (process_ != getpid())
        return Status::IOError("the file was opened by another process, from which this one was forked: ", url_);
    return closed_ ? Status::Invalid("I/O operation on a closed file: ", url_) : Status::OK();
}

Result<std::int64_t> InputFile::Tell() const {
    ARROW_RETURN_NOT_OK(CheckOpen());
    return position_;
}

Status InputFile::Seek(std::int64_t position) {
    ARROW_RETURN_NOT_OK(CheckOpen());
    if (position < 0) return Status::Invalid("a seek to byte ", position, ", before the first of ", url_);
    if (position > size_) return Status::IOError("a seek to byte ", position, ", past the ", size_, " bytes of ", url_);
    position_ = position;
    return Status::OK();
}

Result<std::int64_t> InputFile::GetSize() {
    ARROW_RETURN_NOT_OK(CheckOpen());
    return size_;
}

Result<std::shared_ptr<const KeyValueMetadata>> InputFile::ReadMetadata() {
    ARROW_RETURN_NOT_OK(CheckOpen());
    return Try([&] { return MetadataOf(reader_->object()); });
}

Result<std::int64_t> InputFile::Length(std::int64_t position, std::int64_t length, bool allow_short_read) const {
    ARROW_RETURN_NOT_OK(CheckOpen());
    if (position < 0 || length < 0)
        return Status::Invalid("a read of ", length, " bytes at byte ", position, " of ", url_);
    if (position > size_) return Status::IOError("a read at byte ", position, ", past the ", size_, " bytes of ", url_);
    if (length <= size_ - position) return length;
    if (!allow_short_read)
        return Status::IOError(
            "a read of ", length, " bytes at byte ", position, " goes past the ", size_, " bytes of ", url_);
    return size_ - position;
}

std::shared_ptr<Fetch> InputFile::Ahead(std::int64_t position, std::int64_t length) {
    return size_ > kSmall ? prefetch_.Take(position, length) : prefetch_.Whole(size_);
}

std::shared_ptr<Fetch> InputFile::Begin(const IOContext &context, std::int64_t position, std::int64_t length) {
    auto fetch = Fetch::Begin(reader_, context, position, length);
    prefetch_.Note(*fetch);
    return fetch;
}

Result<std::int64_t> InputFile::ReadAt(
    std::int64_t position, std::int64_t wanted, bool allow_short_read, void *out) {
    ARROW_ASSIGN_OR_RAISE(const std::int64_t length, Length(position, wanted, allow_short_read));
    if (length == 0) return 0;
    if (const std::shared_ptr<Fetch> ahead = Ahead(position, length)) {
        ARROW_ASSIGN_OR_RAISE(const auto bytes, ahead->Wait());
        std::memcpy(out, bytes->data() + (position - ahead->offset()), static_cast<std::size_t>(length));
        return length;
    }
    ARROW_ASSIGN_OR_RAISE(const std::size_t read, Try([&] {
        return reader_->read_at(static_cast<std::uint64_t>(position), out, static_cast<std::size_t>(length));
    }));
    if (static_cast<std::int64_t>(read) != length)
        return Status::IOError("the object ended after ", read, " of ", length, " bytes at ", position, ": ", url_);
    return length;
}

Result<std::shared_ptr<Buffer>> InputFile::ReadAt(std::int64_t position, std::int64_t wanted, bool allow_short_read) {
    ARROW_ASSIGN_OR_RAISE(const std::int64_t length, Length(position, wanted, allow_short_read));
    if (const std::shared_ptr<Fetch> ahead = length == 0 ? nullptr : Ahead(position, length)) {
        ARROW_ASSIGN_OR_RAISE(const auto bytes, ahead->Wait());
        return ::arrow::SliceBuffer(bytes, position - ahead->offset(), length);
    }
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<Buffer> bytes, ::arrow::AllocateBuffer(length, context_.pool()));
    ARROW_RETURN_NOT_OK(ReadAt(position, length, false, bytes->mutable_data()));
    return bytes;
}

BufferFuture InputFile::ReadAsync(
    const IOContext &context, std::int64_t position, std::int64_t wanted, bool allow_short_read) {
    const auto length = Length(position, wanted, allow_short_read);
    if (!length.ok()) return BufferFuture::MakeFinished(length.status());
    std::shared_ptr<Fetch> fetch = *length == 0 ? nullptr : Ahead(position, *length);
    if (fetch == nullptr) fetch = Begin(context, position, *length);
    return fetch->Slice(context, position, *length);
}

std::vector<BufferFuture> InputFile::ReadManyAsync(const IOContext &context, const std::vector<ReadRange> &ranges) {
    std::vector<BufferFuture> futures(ranges.size());
    std::vector<ReadRange> alone;
    std::vector<std::int64_t> lengths(ranges.size());
    for (std::size_t at = 0; at < ranges.size(); ++at) {
        const auto length = Length(ranges[at].offset, ranges[at].length, true);
        if (!length.ok()) {
            futures[at] = BufferFuture::MakeFinished(length.status());
        } else if (const auto ahead = *length == 0 ? nullptr : Ahead(ranges[at].offset, *length)) {
            futures[at] = ahead->Slice(context, ranges[at].offset, *length);
        } else {
            lengths[at] = *length;
            alone.push_back({ranges[at].offset, *length});
        }
    }
    std::vector<std::shared_ptr<Fetch>> fetches;
    for (const Joined &joined : Join(std::move(alone)))
        fetches.push_back(Begin(context, joined.offset, joined.end - joined.offset));
    for (std::size_t at = 0; at < ranges.size(); ++at) {
        if (futures[at].is_valid()) continue;
        // The last that does not begin behind it: they are in order, and each range is in one.
        const auto after = std::upper_bound(
            fetches.begin(), fetches.end(), ranges[at].offset,
            [](std::int64_t offset, const auto &fetch) { return offset < fetch->offset(); });
        futures[at] = (*std::prev(after))->Slice(context, ranges[at].offset, lengths[at]);
    }
    return futures;
}

Status InputFile::WillNeed(const std::vector<ReadRange> &ranges) {
    std::vector<ReadRange> needed;
    for (const ReadRange &range : ranges) {
        ARROW_ASSIGN_OR_RAISE(const std::int64_t length, Length(range.offset, range.length, true));
        if (length != 0) needed.push_back({range.offset, length});
    }
    if (size_ > kSmall) prefetch_.Need(std::move(needed));
    return Status::OK();
}

Result<std::int64_t> InputFile::Read(std::int64_t length, void *out) {
    ARROW_ASSIGN_OR_RAISE(const std::int64_t read, ReadAt(position_, length, true, out));
    position_ += read;
    return read;
}

Result<std::shared_ptr<Buffer>> InputFile::Read(std::int64_t length) {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<Buffer> bytes, ReadAt(position_, length, true));
    position_ += bytes->size();
    return bytes;
}

InputStream::InputStream(Reader reader, std::string url, const IOContext &context)
    : reader_(Share(std::move(reader))), url_(std::move(url)), context_(context) {}

Status InputStream::Close() {
    // No byte is read ahead any more.
    if (!closed_.exchange(true)) reader_->cancel();
    return Status::OK();
}

Status InputStream::CheckOpen() const {
    return closed_ ? Status::Invalid("I/O operation on a closed stream: ", url_) : Status::OK();
}

Result<std::int64_t> InputStream::Tell() const {
    ARROW_RETURN_NOT_OK(CheckOpen());
    return position_;
}

Result<std::int64_t> InputStream::Read(std::int64_t length, void *out) {
    ARROW_RETURN_NOT_OK(CheckOpen());
    if (length < 0) return Status::Invalid("a read of ", length, " bytes of ", url_);
    std::int64_t filled = 0;
    while (filled < length) {
        std::size_t read = 0;
        tg_error *failed = tg_reader_read(
            reader_->handle(), static_cast<char *>(out) + filled, static_cast<std::size_t>(length - filled), &read);
        if (failed != nullptr) return ToStatus(Error(failed));
        if (read == 0) break;
        filled += static_cast<std::int64_t>(read);
    }
    position_ += filled;
    return filled;
}

Result<std::shared_ptr<Buffer>> InputStream::Read(std::int64_t length) {
    ARROW_RETURN_NOT_OK(CheckOpen());
    // Not more memory than there are bytes: `length` may be anything.
    const std::int64_t most = std::clamp<std::int64_t>(
        length, 0, std::max<std::int64_t>(static_cast<std::int64_t>(reader_->size()) - position_, 0));
    ARROW_ASSIGN_OR_RAISE(auto bytes, ::arrow::AllocateResizableBuffer(most, context_.pool()));
    ARROW_ASSIGN_OR_RAISE(const std::int64_t read, Read(most, bytes->mutable_data()));
    ARROW_RETURN_NOT_OK(bytes->Resize(read));
    return std::shared_ptr<Buffer>(std::move(bytes));
}

Result<std::shared_ptr<const KeyValueMetadata>> InputStream::ReadMetadata() {
    ARROW_RETURN_NOT_OK(CheckOpen());
    return Try([&] { return MetadataOf(reader_->object()); });
}

}  // namespace tidegate::arrowfs
