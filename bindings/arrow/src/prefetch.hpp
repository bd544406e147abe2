// What Arrow has said that it will read: fetched before it asks.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "reads.hpp"

namespace tidegate::arrowfs {

// Any number of threads at once. The lock is never held while somebody waits for bytes; it is while a fetch is begun.
class Prefetch {
  public:
    Prefetch(SharedReader reader, const ::arrow::io::IOContext &context)
        : reader_(std::move(reader)), context_(context) {}

    // Fetches the ranges, which lie within the object, except those of noted fetches. Ranges that lie close together share a
    // request. The bytes that are fetched and not taken have a bound: further ranges begin when others are taken, and a range
    // that is larger than the bound is left to its read.
    void Need(std::vector<::arrow::io::ReadRange> ranges);
    // The fetch that has these bytes, if there is one. It is forgotten once all bytes that were needed are taken.
    std::shared_ptr<Fetch> Take(std::int64_t offset, std::int64_t length);
    // A fetch of all bytes, of which there are some. It is kept until Close(), unless it fails. Nothing after Close().
    std::shared_ptr<Fetch> Whole(std::int64_t size);
    // Notes a fetch that a read has begun itself.
    void Note(const Fetch &fetch);
    // Forgets all, and cancels what nobody waits for. Later calls begin nothing.
    void Close();

  private:
    struct Entry {
        std::int64_t offset, end;
        // How many bytes are still to be taken.
        std::int64_t left;
        // Nothing while the range waits for its turn.
        std::shared_ptr<Fetch> fetch;
    };
    struct Noted {
        std::int64_t offset, end;
        std::weak_ptr<::arrow::Buffer> memory;
    };

    void Begin(Entry &entry);
    // Begins what waits, as far as the bound allows.
    void BeginNext();
    void Forget(std::deque<Entry>::iterator entry);

    const SharedReader reader_;
    const ::arrow::io::IOContext context_;
    std::atomic<bool> has_any_ = false;
    std::mutex mutex_;
    bool closed_ = false;
    // In order, without overlaps.
    std::deque<Entry> entries_;
    // Of the fetches that have begun.
    std::int64_t bytes_ = 0;
    std::vector<Noted> noted_;
    std::size_t most_noted_ = 64;
};

// Ranges in order, joined where their gap is small and the whole is not large. `wanted` of each counts the bytes asked for.
struct Joined {
    std::int64_t offset, end, wanted;
};
std::vector<Joined> Join(std::vector<::arrow::io::ReadRange> ranges);

}  // namespace tidegate::arrowfs
