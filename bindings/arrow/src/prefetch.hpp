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

// Any number of threads at once. One that asks for bytes takes no lock where nothing is fetched ahead.
class Prefetch {
  public:
    Prefetch(std::shared_ptr<SharedReader> reader, const ::arrow::io::IOContext &context)
        : reader_(std::move(reader)), context_(context) {}

    // Fetches the ranges, which lie within the object. Those that lie close together share a request. What is fetched and
    // was not taken has a bound: ranges beyond it begin when others are taken.
    void Need(std::vector<::arrow::io::ReadRange> ranges);
    // Fetches a range, and keeps it until Clear().
    void Keep(const ::arrow::io::ReadRange &range);
    // The fetch that has these bytes, if there is one. It is forgotten once all bytes that were needed are taken.
    std::shared_ptr<Fetch> Take(std::int64_t offset, std::int64_t length);
    // Forgets all.
    void Clear();

  private:
    struct Entry {
        std::int64_t offset, end;
        // How many bytes are still to be taken.
        std::int64_t left;
        // Nothing while the range waits for its turn.
        std::shared_ptr<Fetch> fetch;
    };

    void Begin(Entry &entry);
    // Begins what waits, as far as the bound allows.
    void BeginNext();

    const std::shared_ptr<SharedReader> reader_;
    const ::arrow::io::IOContext context_;
    std::atomic<bool> has_any_ = false;
    std::mutex mutex_;
    // In order, without overlaps.
    std::deque<Entry> entries_;
    // Of the fetches that have begun.
    std::int64_t bytes_ = 0;
};

// Ranges in order, joined where their gap is small and the whole is not large. `left` of each counts the bytes asked for.
struct Joined {
    std::int64_t offset, end, wanted;
};
std::vector<Joined> Join(std::vector<::arrow::io::ReadRange> ranges);

}  // namespace tidegate::arrowfs
