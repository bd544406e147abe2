// Errors of Tidegate as Arrow's.
#pragma once

#include <new>
#include <type_traits>
#include <utility>

#include <arrow/result.h>
#include <arrow/status.h>
#include <tidegate.hpp>

namespace tidegate::arrowfs {

::arrow::Status ToStatus(const Error &error);

// Calls a function that throws tidegate::Error, and gives what it returns, or a Status.
//
// There is no `catch (...)` in this library: Python ends threads by a forced unwinding, which may pass through a call of
// ours, and the C++ runtime ends the process if somebody keeps it from going on.
template <class Call>
auto Try(Call &&call) -> std::conditional_t<
    std::is_void_v<decltype(call())>,
    ::arrow::Status,
    ::arrow::Result<std::conditional_t<std::is_void_v<decltype(call())>, int, decltype(call())>>> {
    try {
        if constexpr (std::is_void_v<decltype(call())>) {
            call();
            return ::arrow::Status::OK();
        } else {
            return call();
        }
    } catch (const Error &error) {
        return ToStatus(error);
    } catch (const std::bad_alloc &) {
        return ::arrow::Status::OutOfMemory("there is no memory left");
    }
}

}  // namespace tidegate::arrowfs
