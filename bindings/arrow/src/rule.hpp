// What decides whether Close() publishes. In C++ it always does; tidegate.arrow adds the rule of tidegate.open, which asks
// Python whether an exception is in flight.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <arrow/status.h>

extern "C" {

// What tidegate.arrow gives: its own functions, and those of Python's C interface. So this library is linked with no
// Python, and goes with all of them.
struct tidegate_arrow_python {
    // A stream was opened.
    void (*opened)(std::int64_t stream, const char *url);
    // A stream is being closed: 0 publishes it, all else discards it.
    int (*closing)(std::int64_t stream);

    void *(*this_thread_state)();  // PyGILState_GetThisThreadState
    int (*is_finalizing)();        // Py_IsFinalizing
    int (*ensure)();               // PyGILState_Ensure
    void (*release)(int);          // PyGILState_Release
    void (*fetch)(void **, void **, void **);    // PyErr_Fetch
    void (*restore)(void *, void *, void *);     // PyErr_Restore
};

}

namespace tidegate::arrowfs::rule {

// Once, before the first stream is opened.
void Set(const tidegate_arrow_python &python);

// Tells that a stream was opened, and gives its number.
std::int64_t Opened(const std::string &url);

enum class Verdict { publish, discard, interpreter_ends };
Verdict Closing(std::int64_t stream);

}  // namespace tidegate::arrowfs::rule
