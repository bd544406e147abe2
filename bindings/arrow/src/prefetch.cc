#include "prefetch.hpp"

#include <algorithm>
#include <limits>

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
    for (const Joined &range : Join(std::move(ranges))) {
        const auto at = std::lower_bound(
            entries_.begin(), entries_.end(), range.offset,
            [](const Entry &entry, std::int64_t offset) { return entry.end <= offset; });
        // Where a part of it is fetched already, the rest is read when it is asked for.
        if (at != entries_.end() && at->offset < range.end) continue;
        entries_.insert(at, {range.offset, range.end, range.wanted, nullptr});
    }
    BeginNext();
    has_any_ = !entries_.empty();
}

void Prefetch::Keep(const ReadRange &range) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // So many bytes are never taken.
    constexpr auto never = std::numeric_limits<std::int64_t>::max();
    entries_ = {{range.offset, range.offset + range.length, never, nullptr}};
    Begin(entries_.front());
    has_any_ = true;
}

void Prefetch::Begin(Entry &entry) {
    bytes_ += entry.end - entry.offset;
    entry.fetch = Fetch::Begin(reader_, context_, entry.offset, entry.end - entry.offset);
}

void Prefetch::BeginNext() {
    for (Entry &entry : entries_) {
        if (bytes_ >= kAhead) return;
        if (entry.fetch == nullptr) Begin(entry);
    }
}

std::shared_ptr<Fetch> Prefetch::Take(std::int64_t offset, std::int64_t length) {
    if (!has_any_) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = std::lower_bound(
        entries_.begin(), entries_.end(), offset,
        [](const Entry &entry, std::int64_t wanted) { return entry.end <= wanted; });
    if (at == entries_.end() || at->offset > offset || at->end < offset + length) return nullptr;
    if (at->fetch == nullptr) Begin(*at);
    const std::shared_ptr<Fetch> fetch = at->fetch;
    at->left -= length;
    if (at->left <= 0) {
        bytes_ -= at->end - at->offset;
        entries_.erase(at);
        BeginNext();
        has_any_ = !entries_.empty();
    }
    return fetch;
}

void Prefetch::Clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_.clear();
    bytes_ = 0;
    has_any_ = false;
}

}  // namespace tidegate::arrowfs
