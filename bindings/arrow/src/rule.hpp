// What decides whether Close() publishes. In C++ it always does; tidegate.arrow adds the rule of tidegate.open, which asks
// Python whether an exception is in flight.
#pragma once

#include <cstdint>
#include <string>

#include <arrow/result.h>

extern "C" {

// What tidegate.arrow gives: its own functions, and those of Python's C interface. So this library is linked with no
// Python, and goes with all of them.
struct tidegate_arrow_python {
    // Both give 0 if Python has failed, as ctypes does for a function that raises.
    //
    // A stream was opened: 1 says that Python has noted it. Otherwise it is not opened.
    int (*opened)(std::int64_t stream, const char *url);
    // A stream is being closed: 1 publishes it, and 2 discards it.
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

// Tells that a stream was opened: whether Python has noted it, or an error.
::arrow::Result<bool> Opened(std::int64_t stream, const std::string &url);

// `publish_unasked` if Python was not asked.
enum class Verdict { publish, publish_unasked, discard, failed, interpreter_ends };
Verdict Closing(std::int64_t stream);

}  // namespace tidegate::arrowfs::rule
