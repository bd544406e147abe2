// URIs of Tidegate, and what tidegate.arrow calls.

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <arrow/util/uri.h>

#include "face.hpp"
#include "fork_lock.hpp"
#include "output.hpp"
#include "rule.hpp"

namespace tidegate::arrowfs {

using ::arrow::Result;
using ::arrow::Status;
using ::arrow::io::IOContext;
using ::arrow::util::Uri;
using FilesPointer = std::shared_ptr<::arrow::fs::FileSystem>;

namespace {

// Puts a setting where its name says: `engine.NAME`, `write.NAME`, or `NAME` of the store.
void Add(TideOptions *options, const std::string &name, const std::string &value) {
    for (auto [group, settings] :
         {std::pair("engine.", &options->engine), std::pair("write.", &options->write)}) {
        const std::string_view prefix = group;
        if (name.compare(0, prefix.size(), prefix) == 0) {
            settings->emplace_back(name.substr(prefix.size()), value);
            return;
        }
    }
    options->store.emplace_back(name, value);
}

// File systems that Python has opened, until it takes them by the URI `tidegateopened://NUMBER`: their settings, which may
// be secret, are in no URI.
class Opened {
  public:
    static Opened &Get() {
        static auto &opened = *new Opened;
        return opened;
    }
    std::int64_t Put(Result<FilesPointer> files) {
        const std::lock_guard<ForkLock> lock(lock_);
        files_.emplace(++last_, std::move(files));
        return last_;
    }
    Result<FilesPointer> Take(const std::string &text) {
        std::int64_t number = 0;
        (void)std::from_chars(text.data(), text.data() + text.size(), number);
        const std::lock_guard<ForkLock> lock(lock_);
        // None has 0.
        if (auto taken = files_.extract(number)) return std::move(taken.mapped());
        return Status::Invalid("tidegateopened:// is for tidegate.arrow only: give the URL of a store");
    }

  private:
    ForkLock lock_;
    std::int64_t last_ = 0;
    std::map<std::int64_t, Result<FilesPointer>> files_;
};

// Without the query, which may have secrets.
std::string Shown(const Uri &uri) { return uri.scheme() + "://" + uri.host() + uri.path(); }

Result<FilesPointer> FromUri(
    const std::string &scheme, const Uri &uri, const IOContext &context, std::string *out_path) {
    const std::string form = uri.scheme() + "://BUCKET/PATH?NAME=VALUE";
    if (uri.host().empty()) return Status::Invalid("the URI names no bucket, and is to be ", form, ": ", Shown(uri));
    if (!uri.username().empty() || !uri.password().empty() || uri.port() >= 0)
        return Status::Invalid("the URI has a user or a port, and is to be ", form, ": ", Shown(uri));
    TideOptions options;
    ARROW_ASSIGN_OR_RAISE(const auto items, uri.query_items());
    for (const auto &[name, value] : items) Add(&options, name, value);
    ARROW_ASSIGN_OR_RAISE(auto files, TideFileSystem::Make(scheme + "://" + uri.host(), std::move(options), context));
    if (out_path != nullptr) {
        std::string path = uri.path();
        path.erase(0, std::min(path.find_first_not_of('/'), path.size()));
        while (!path.empty() && path.back() == '/') path.pop_back();
        *out_path = std::move(path);
    }
    return FaceOf(std::move(files));
}

auto Factory(const char *scheme) {
    return [scheme](const Uri &uri, const IOContext &context, std::string *out_path) {
        return FromUri(scheme, uri, context, out_path);
    };
}

Result<FilesPointer> TakeOpened(const Uri &uri, const IOContext &, std::string *out_path) {
    if (out_path != nullptr) out_path->clear();
    return Opened::Get().Take(uri.host());
}

const auto of_s3 = ARROW_REGISTER_FILESYSTEM("tidegates3", Factory("s3"), {});
const auto of_google = ARROW_REGISTER_FILESYSTEM("tidegategs", Factory("gs"), {});
const auto of_azure = ARROW_REGISTER_FILESYSTEM("tidegateaz", Factory("az"), {});
const auto of_memory = ARROW_REGISTER_FILESYSTEM("tidegatememory", Factory("memory"), {});
const auto of_opened = ARROW_REGISTER_FILESYSTEM("tidegateopened", TakeOpened, {});

}  // namespace

}  // namespace tidegate::arrowfs

#define EXPORTED extern "C" __attribute__((visibility("default")))

using tidegate::arrowfs::Opened;
using tidegate::arrowfs::OutputStream;

// The version of these functions. tidegate.arrow takes no other.
EXPORTED int tidegate_arrow_version() { return 2; }

EXPORTED void tidegate_arrow_set_python(const tidegate_arrow_python *python) {
    tidegate::arrowfs::rule::Set(*python);
}

// Opens a file system with settings: names as in URIs, and values. Gives a number for `tidegateopened://NUMBER`. What fails
// here, fails there.
EXPORTED std::int64_t tidegate_arrow_open(
    const char *url, const char *const *names, const char *const *values, std::size_t count) {
    tidegate::arrowfs::TideOptions options;
    for (std::size_t at = 0; at < count; ++at) tidegate::arrowfs::Add(&options, names[at], values[at]);
    auto files = tidegate::arrowfs::TideFileSystem::Make(url, std::move(options));
    if (!files.ok()) return Opened::Get().Put(files.status());
    return Opened::Get().Put(tidegate::arrowfs::FaceOf(*std::move(files)));
}

EXPORTED void tidegate_arrow_discard(std::int64_t stream) { OutputStream::Discard(stream); }

// Waits until the sessions of what was discarded are aborted: whether that has ended well.
EXPORTED int tidegate_arrow_settle(std::int64_t milliseconds) {
    const std::chrono::milliseconds at_most(milliseconds);
    return tidegate::arrowfs::TideFileSystem::WaitForAllAborts(at_most).ok() ? 1 : 0;
}

// As OutputStream::TakeEnded.
EXPORTED std::size_t tidegate_arrow_take_ended(std::int64_t *streams, std::size_t most) {
    return OutputStream::TakeEnded(streams, most);
}
