#include "lookup.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "status.hpp"

namespace tidegate::arrowfs {

using ::arrow::Status;
using ::arrow::fs::FileInfo;
using ::arrow::fs::FileInfoVector;
using ::arrow::fs::FileType;

namespace {

// How many paths are looked up at the same time: each is a call that waits for its place in line.
constexpr std::size_t kAtOnce = 256;

// Asynchronous calls that one thread waits for.
class Calls {
  public:
    // Begins a call. Its error is to outlive the wait.
    template <class Start>
    void Begin(tg_error **error, Start &&start) {
        ++left_;
        auto call = std::make_unique<Call>(this, error);
        if (tg_error *failed = start(&Calls::Done, call.get())) {
            *error = failed;
            --left_;
            return;
        }
        // `Done` frees the call; it may have done so by now.
        (void)call.release();
    }
    void Wait() {
        std::unique_lock<std::mutex> lock(mutex_);
        is_done_.wait(lock, [this] { return left_ == 0; });
    }

  private:
    struct Call {
        Calls *calls;
        tg_error **error;
    };

    static void Done(void *user, tg_error *failed) noexcept {
        const std::unique_ptr<Call> call(static_cast<Call *>(user));
        *call->error = failed;
        // Told with the lock held: who waits destroys the calls as soon as it has the lock.
        const std::lock_guard<std::mutex> lock(call->calls->mutex_);
        if (--call->calls->left_ == 0) call->calls->is_done_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable is_done_;
    std::atomic<std::size_t> left_ = 0;
};

bool IsMissing(const Error &error) { return error.kind() == Kind::not_found || error.kind() == Kind::no_bucket; }

// Looks up some paths: asks for objects, and then for directories where there is none.
Status LookUpSome(const Store &store, const Path *paths, FileInfo *infos, std::size_t count) {
    std::vector<tg_object *> objects(count);
    std::vector<tg_error *> errors(count);
    {
        Calls calls;
        for (std::size_t at = 0; at < count; ++at)
            if (!paths[at].key.empty() && !paths[at].is_directory)
                calls.Begin(&errors[at], [&](tg_done done, void *user) {
                    const tg_str key{paths[at].key.data(), paths[at].key.size()};
                    return tg_head_async(store.handle(), key, &objects[at], done, user, nullptr);
                });
        calls.Wait();
    }
    Status status;
    std::vector<std::size_t> rest;
    for (std::size_t at = 0; at < count; ++at) {
        if (objects[at] != nullptr) {
            const Object object(objects[at]);
            infos[at].set_type(FileType::File);
            Describe(object, &infos[at]);
        } else if (errors[at] != nullptr) {
            const Error error(errors[at]);
            infos[at].set_type(FileType::NotFound);
            if (error.kind() == Kind::not_found) rest.push_back(at);
            if (!IsMissing(error) && status.ok()) status = ToStatus(error);
        } else {
            rest.push_back(at);
        }
    }
    ARROW_RETURN_NOT_OK(status);

    const Options flat{{"recursive", "false"}};
    struct List {
        tg_list *list = nullptr;
        const tg_entry *entries = nullptr;
        std::size_t found = 0;
        tg_error *error = nullptr;
        ~List() { tg_list_free(list); }
    };
    std::vector<List> lists(rest.size());
    {
        Calls calls;
        for (std::size_t at = 0; at < rest.size(); ++at) {
            List &list = lists[at];
            const std::string below = paths[rest[at]].below();
            const tg_str prefix{below.data(), below.size()};
            if ((list.error = tg_list_open(store.handle(), prefix, flat.handle(), &list.list)) != nullptr) continue;
            calls.Begin(&list.error, [&](tg_done done, void *user) {
                return tg_list_next_async(list.list, &list.entries, &list.found, done, user, nullptr);
            });
        }
        calls.Wait();
    }
    for (std::size_t at = 0; at < rest.size(); ++at) {
        FileInfo &info = infos[rest[at]];
        if (tg_error *failed = lists[at].error) {
            const Error error(failed);
            info.set_type(FileType::NotFound);
            if (!IsMissing(error) && status.ok()) status = ToStatus(error);
            continue;
        }
        // The root is there without objects, if its bucket is.
        const bool is_there = lists[at].found != 0 || paths[rest[at]].key.empty();
        info.set_type(is_there ? FileType::Directory : FileType::NotFound);
    }
    return status;
}

}  // namespace

std::string Path::parent() const {
    const std::size_t slash = key.rfind('/');
    return slash == key.npos ? std::string() : key.substr(0, slash);
}

void Describe(const ObjectView &object, FileInfo *info) {
    const auto type = object.text("content_type");
    // Some programs write directories as empty objects without a slash.
    if (object.has_size() && object.size() == 0 && type && type->substr(0, kDirectoryType.size()) == kDirectoryType) {
        info->set_type(FileType::Directory);
        return;
    }
    if (object.has_size()) info->set_size(static_cast<std::int64_t>(object.size()));
    if (const auto modified = object.modified())
        info->set_mtime(std::chrono::time_point_cast<::arrow::fs::TimePoint::duration>(*modified));
}

Status LookUp(const Store &store, const std::vector<Path> &paths, FileInfoVector *infos) {
    for (std::size_t at = 0; at < paths.size(); at += kAtOnce)
        ARROW_RETURN_NOT_OK(
            LookUpSome(store, &paths[at], &(*infos)[at], std::min(kAtOnce, paths.size() - at)));
    return Status::OK();
}

}  // namespace tidegate::arrowfs
