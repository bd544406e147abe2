#include "prefetch.hpp"

#include <algorithm>

namespace tidegate::arrowfs {

using ::arrow::io::ReadRange;

namespace {

// Ranges with a larger gap are requests of their own: so Arrow joins them too.
constexpr std::int64_t kGap = 8 << 10;
// The most that ranges are joined to.
constexpr std::int64_t kJoined = 8 << 20;
// How much of one file is fetched and was not taken.
constexpr std::int64_t kAhead = 128 << 20;

}  // namespace

std::vector<Joined> Join(std::vector<ReadRange> ranges) {
    std::sort(ranges.begin(), ranges.end(), [](const ReadRange &one, const ReadRange &other) {
        return one.offset < other.offset;
    });
    std::vector<Joined> joined;
    for (const ReadRange &range : ranges) {
        const std::int64_t end = range.offset + range.length;
        if (!joined.empty()) {
            Joined &last = joined.back();
            const bool overlaps = range.offset < last.end;
            if (overlaps || (range.offset - last.end <= kGap && end - last.offset <= kJoined)) {
                last.wanted += range.length;
                last.end = std::max(last.end, end);
                continue;
            }
        }
        joined.push_back({range.offset, end, range.length});
    }
    return joined;
}

void Prefetch::Need(std::vector<ReadRange> ranges) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    // A cache of Arrow that is not lazy reads its ranges, and says then that it needs them.
    std::erase_if(ranges, [this](const ReadRange &range) {
        return std::any_of(noted_.begin(), noted_.end(), [&](const Noted &noted) {
            return noted.offset <= range.offset && range.offset + range.length <= noted.end && !noted.memory.expired();
        });
    });
    for (const Joined &range : Join(std::move(ranges))) {
        const auto at = std::lower_bound(
            entries_.begin(), entries_.end(), range.offset,
            [](const Entry &entry, std::int64_t offset) { return entry.end <= offset; });
        // Where a part of it is fetched already, the rest is read when it is asked for.
        if (at != entries_.end() && at->offset < range.end) continue;
        if (range.end - range.offset > kAhead) continue;
        entries_.insert(at, {range.offset, range.end, range.wanted, nullptr});
    }
    BeginNext();
    has_any_ = !entries_.empty();
}

void Prefetch::Begin(Entry &entry) {
    bytes_ += entry.end - entry.offset;
    entry.fetch = Fetch::Begin(reader_, context_, entry.offset, entry.end - entry.offset);
}

void Prefetch::BeginNext() {
    for (Entry &entry : entries_) {
        if (entry.fetch != nullptr) continue;
        if (bytes_ + entry.end - entry.offset > kAhead) return;
        Begin(entry);
    }
}

void Prefetch::Forget(std::deque<Entry>::iterator entry) {
    bytes_ -= entry->end - entry->offset;
    entries_.erase(entry);
    BeginNext();
    has_any_ = !entries_.empty();
}

std::shared_ptr<Fetch> Prefetch::Take(std::int64_t offset, std::int64_t length) {
    if (!has_any_) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = std::lower_bound(
        entries_.begin(), entries_.end(), offset,
        [](const Entry &entry, std::int64_t wanted) { return entry.end <= wanted; });
    if (at == entries_.end() || at->offset > offset || at->end < offset + length) return nullptr;
    if (at->fetch == nullptr) Begin(*at);
    std::shared_ptr<Fetch> fetch = at->fetch;
    // The read tries again.
    if (fetch->HasFailed()) fetch = nullptr;
    at->left -= length;
    if (fetch == nullptr || at->left <= 0) Forget(at);
    return fetch;
}

std::shared_ptr<Fetch> Prefetch::Whole(std::int64_t size) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return nullptr;
    if (entries_.empty() || entries_.front().fetch->HasFailed()) {
        entries_ = {{0, size, size, nullptr}};
        Begin(entries_.front());
    }
    return entries_.front().fetch;
}

void Prefetch::Note(const Fetch &fetch) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // When the list has doubled, fetches whose memory is freed leave it.
    if (noted_.size() >= most_noted_) {
        std::erase_if(noted_, [](const Noted &noted) { return noted.memory.expired(); });
        most_noted_ = 64 + 2 * noted_.size();
    }
    noted_.push_back({fetch.offset(), fetch.end(), fetch.memory()});
}

void Prefetch::Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    entries_.clear();
    noted_.clear();
    bytes_ = 0;
    has_any_ = false;
}

}  // namespace tidegate::arrowfs
