#include "status.hpp"

#include <cerrno>

#include <arrow/util/io_util.h>

namespace tidegate::arrowfs {

using ::arrow::Status;

Status ToStatus(const Error &error) {
    const char *what = error.what();
    const auto with = [what](int number) { return ::arrow::internal::IOErrorFromErrno(number, what); };
    switch (error.kind()) {
        case Kind::not_found:
        case Kind::no_bucket:
            return with(ENOENT);
        case Kind::already_exists:
            return with(EEXIST);
        case Kind::permission_denied:
        case Kind::credentials:
            return with(EACCES);
        case Kind::timeout:
            return with(ETIMEDOUT);
        case Kind::no_space:
            return with(ENOSPC);
        case Kind::unavailable:
            return error.is_unreachable() ? with(ECONNREFUSED) : Status::IOError(what);
        case Kind::invalid_input:
            return Status::Invalid(what);
        case Kind::too_large:
            return Status::CapacityError(what);
        case Kind::unsupported:
            return Status::NotImplemented(what);
        case Kind::cancelled:
            return Status::Cancelled(what);
        default:
            return Status::IOError(what);
    }
}

}  // namespace tidegate::arrowfs
