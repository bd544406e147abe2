#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include <arrow/util/io_util.h>
#include <tidegate.hpp>

#include "attributes.hpp"
#include "input.hpp"
#include "living.hpp"
#include "lookup.hpp"
#include "output.hpp"
#include "status.hpp"
#include "tidegate_arrow.hpp"

namespace tidegate::arrowfs {

using ::arrow::KeyValueMetadata;
using ::arrow::Result;
using ::arrow::Status;
using ::arrow::fs::FileInfo;
using ::arrow::fs::FileInfoVector;
using ::arrow::fs::FileSelector;
using ::arrow::fs::FileType;
using ::arrow::internal::IOErrorFromErrno;
using ::arrow::io::IOContext;

namespace {

// How many objects are removed by one call of the store.
constexpr std::size_t kRemovedAtOnce = 10'000;

Settings Sorted(Settings settings) {
    std::stable_sort(settings.begin(), settings.end(), [](const auto &one, const auto &other) {
        return one.first < other.first;
    });
    return settings;
}

std::size_t Depth(std::string_view key) { return static_cast<std::size_t>(std::count(key.begin(), key.end(), '/')); }

}  // namespace

class TideFileSystem::Impl {
  public:
    Impl(std::string url, TideOptions options)
        : url_(std::move(url)),
          options_{Sorted(std::move(options.engine)), Sorted(std::move(options.store)), Sorted(std::move(options.write))} {}
    ~Impl() { delete opened_.load(); }

    // Those of the process. Never destroyed: file systems may be destroyed until the process is gone.
    static Living<const Impl> &All() {
        static auto &all = *new Living<const Impl>;
        return all;
    }

    Status WaitForAborts(std::chrono::milliseconds at_most) const {
        const Opened *opened = opened_.load();
        if (opened == nullptr || opened->process != getpid()) return Status::OK();
        return Try([&] { opened->engine.wait_for_aborts(at_most); });
    }

    const std::string &url() const { return url_; }
    const TideOptions &options() const { return options_; }
    std::string UrlOf(std::string_view key) const { return url_ + "/" + std::string(key); }
    bool IsSame(const Impl &other) const {
        return url_ == other.url_ && options_.engine == other.options_.engine &&
               options_.store == other.options_.store && options_.write == other.options_.write;
    }

    // The store of this process.
    Result<tidegate::Store> Store() const {
        const Opened *found = opened_.load();
        if (found != nullptr && found->process == getpid()) return found->store;
        ARROW_ASSIGN_OR_RAISE(const Options of_engine, ToOptions(options_.engine));
        ARROW_ASSIGN_OR_RAISE(const Options of_store, ToOptions(options_.store));
        return Try([&] {
            Engine engine = Engine::shared(of_engine);
            tidegate::Store store = engine.open(url_, of_store);
            auto opened = std::make_unique<const Opened>(getpid(), std::move(engine), store);
            // Otherwise another thread was first. A child never frees what its parent opened: a thread of the parent may have
            // been using it at the fork.
            if (opened_.compare_exchange_strong(found, opened.get())) (void)opened.release();
            return store;
        });
    }

    Result<Path> Parse(const std::string &path) const {
        const std::size_t colon = path.find("://");
        if (colon != path.npos && colon != 0 && path.find('/') == colon + 1)
            return Status::Invalid("the path is a URI, and is to be a path below ", url_, ": ", path);
        std::string_view key = path;
        while (!key.empty() && key.front() == '/') key.remove_prefix(1);
        const bool is_directory = key.empty() || key.back() == '/';
        while (!key.empty() && key.back() == '/') key.remove_suffix(1);
        return Path{std::string(key), is_directory};
    }

    // A path that is to name a file.
    Result<Path> ParseFile(const std::string &path) const {
        ARROW_ASSIGN_OR_RAISE(Path parsed, Parse(path));
        if (parsed.is_directory)
            return IOErrorFromErrno(EISDIR, "the path names a directory, and no file: ", UrlOf(parsed.key));
        return parsed;
    }

    Result<FileType> TypeOf(const Path &path) const {
        ARROW_ASSIGN_OR_RAISE(const auto store, Store());
        FileInfoVector infos(1);
        ARROW_RETURN_NOT_OK(LookUp(store, {path}, &infos));
        return infos[0].type();
    }
    Result<bool> HasDirectory(const std::string &key) const {
        ARROW_ASSIGN_OR_RAISE(const FileType type, TypeOf({key, true}));
        return type == FileType::Directory;
    }

    Status NoFile(const Path &path) const {
        ARROW_ASSIGN_OR_RAISE(const bool is_directory, HasDirectory(path.key));
        if (is_directory) return IOErrorFromErrno(EISDIR, "this is a directory, and no file: ", UrlOf(path.key));
        return IOErrorFromErrno(ENOENT, "there is no such file: ", UrlOf(path.key));
    }
    Status NoDirectory(const Path &path) const {
        ARROW_ASSIGN_OR_RAISE(const FileType type, TypeOf({path.key, false}));
        if (type == FileType::File)
            return IOErrorFromErrno(ENOTDIR, "this is a file, and no directory: ", UrlOf(path.key));
        return IOErrorFromErrno(ENOENT, "there is no such directory: ", UrlOf(path.key));
    }
    Status CheckDirectory(const Path &path) const {
        ARROW_ASSIGN_OR_RAISE(const bool is_there, HasDirectory(path.key));
        return is_there ? Status::OK() : NoDirectory(path);
    }

    // Leaves an object of that key as it is: it may have bytes.
    Status CreateMarker(const std::string &key) const {
        ARROW_ASSIGN_OR_RAISE(const auto store, Store());
        ARROW_ASSIGN_OR_RAISE(Options options, ToOptions(OfStorage(options_.write)));
        ARROW_ASSIGN_OR_RAISE(Options unconditional, ToOptions(OfStorage(options_.write)));
        unconditional.set("content_type", kDirectoryType);
        options.set("content_type", kDirectoryType).set("create_only", "true");
        return Try([&] {
            try {
                (void)store.put(key + "/", "", options);
            } catch (const Error &error) {
                if (error.kind() == Kind::already_exists) return;
                // A store without that condition.
                if (error.kind() != Kind::unsupported) throw;
                if (!store.find(key + "/")) (void)store.put(key + "/", "", unconditional);
            }
        });
    }
    // A directory that was there only because of what was removed from it stays, as in S3FileSystem.
    Status KeepParent(const Path &path) const {
        const std::string parent = path.parent();
        if (parent.empty()) return Status::OK();
        ARROW_ASSIGN_OR_RAISE(const bool is_there, HasDirectory(parent));
        return is_there ? Status::OK() : CreateMarker(parent);
    }

    // Removes what is below a directory, with or without the object that stands for it.
    Status RemoveBelow(const Path &path, bool with_marker) const {
        ARROW_ASSIGN_OR_RAISE(const auto store, Store());
        std::size_t others = 0;
        const Status removed = Try([&] {
            std::vector<std::string> keys;
            const auto remove = [&] {
                const auto failed = store.remove_many(keys);
                keys.clear();
                if (failed.empty()) return;
                others = failed.size() - 1;
                throw failed[0].second;
            };
            const std::string below = path.below();
            for (const Entry &entry : store.list(below)) {
                if (entry.key == below && !with_marker) continue;
                keys.emplace_back(entry.key);
                if (keys.size() == kRemovedAtOnce) remove();
            }
            if (!keys.empty()) remove();
        });
        if (others == 0) return removed;
        return removed.WithMessage(removed.message(), "; nor were ", others, " others removed");
    }

    // Those of the settings of writes that have these names.
    Result<Options> OptionsOf(std::initializer_list<std::string_view> names) const {
        Settings found;
        for (const auto &setting : options_.write)
            if (std::find(names.begin(), names.end(), setting.first) != names.end()) found.push_back(setting);
        return ToOptions(found);
    }

    Status Copy(const Path &from, const Path &to) const {
        ARROW_ASSIGN_OR_RAISE(const auto store, Store());
        ARROW_ASSIGN_OR_RAISE(
            const Options options, OptionsOf({"concurrency", "create_only", "encryption", "part_size", "storage_class"}));
        return Try([&] { (void)store.copy(from.key, to.key, options); });
    }

    Result<Reader> Open(const Path &path, const Settings &settings) const {
        ARROW_ASSIGN_OR_RAISE(const auto store, Store());
        ARROW_ASSIGN_OR_RAISE(const Options options, ToOptions(settings));
        return Try([&] { return store.reader(path.key, options); });
    }

    // Whether a file of this description can be there.
    Result<Path> ParseFile(const FileInfo &info) const {
        if (info.type() == FileType::NotFound)
            return IOErrorFromErrno(ENOENT, "there is no such file: ", UrlOf(info.path()));
        if (info.type() == FileType::Directory)
            return IOErrorFromErrno(EISDIR, "this is a directory, and no file: ", UrlOf(info.path()));
        return ParseFile(info.path());
    }

  private:
    struct Opened {
        Opened(pid_t of, Engine its, tidegate::Store taken)
            : process(of), engine(std::move(its)), store(std::move(taken)) {}
        pid_t process;
        Engine engine;
        tidegate::Store store;
    };

    const std::string url_;
    const TideOptions options_;
    // A pointer without a lock: a forked child would find one as it was.
    mutable std::atomic<const Opened *> opened_ = nullptr;
};

TideFileSystem::TideFileSystem(std::shared_ptr<Impl> impl, const IOContext &io_context)
    : FileSystem(io_context), impl_(std::move(impl)) {
    default_async_is_sync_ = false;
}

TideFileSystem::~TideFileSystem() = default;

Result<std::shared_ptr<TideFileSystem>> TideFileSystem::Make(
    const std::string &url, TideOptions options, const IOContext &io_context) {
    const std::size_t colon = url.find("://");
    if (colon == url.npos || url.compare(0, colon, "file") == 0)
        return Status::NotImplemented(
            "a local directory is for Arrow's LocalFileSystem, and this is for object stores: ", url);
    std::string root = url;
    while (root.size() > colon + 3 && root.back() == '/') root.pop_back();
    auto impl = std::make_shared<Impl>(std::move(root), std::move(options));
    // At once, so that a mistake is known here.
    ARROW_RETURN_NOT_OK(impl->Store());
    ARROW_RETURN_NOT_OK(OfWrite(impl->options().write, nullptr));
    Impl::All().Add(impl);
    return std::shared_ptr<TideFileSystem>(new TideFileSystem(std::move(impl), io_context));
}

Status TideFileSystem::WaitForAborts(std::chrono::milliseconds at_most) const { return impl_->WaitForAborts(at_most); }

Status TideFileSystem::WaitForAllAborts(std::chrono::milliseconds at_most) {
    const auto until = std::chrono::steady_clock::now() + at_most;
    Status status;
    for (const auto &each : Impl::All().All()) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
        status &= each->WaitForAborts(std::max(left, std::chrono::milliseconds(0)));
    }
    return status;
}

const std::string &TideFileSystem::url() const { return impl_->url(); }

Result<std::string> TideFileSystem::NormalizePath(std::string path) {
    ARROW_RETURN_NOT_OK(impl_->Parse(path));
    // A slash at the end stays: a SubTreeFileSystem would not find its base otherwise.
    path.erase(0, std::min(path.find_first_not_of('/'), path.size()));
    return path;
}

Result<std::string> TideFileSystem::PathFromUri(const std::string &uri) const {
    const std::string &root = impl_->url();
    const bool is_below = uri.size() > root.size() && uri.compare(0, root.size(), root) == 0 && uri[root.size()] == '/';
    if (uri == root) return "";
    if (!is_below) return Status::Invalid("the URI is not below ", root, ": ", uri);
    return uri.substr(root.size() + 1);
}

bool TideFileSystem::Equals(const FileSystem &other) const {
    const auto *same = dynamic_cast<const TideFileSystem *>(&other);
    return same != nullptr && impl_->IsSame(*same->impl_);
}

Result<FileInfo> TideFileSystem::GetFileInfo(const std::string &path) {
    ARROW_ASSIGN_OR_RAISE(FileInfoVector infos, GetFileInfo(std::vector<std::string>{path}));
    return std::move(infos[0]);
}

Result<FileInfoVector> TideFileSystem::GetFileInfo(const std::vector<std::string> &paths) {
    FileInfoVector infos;
    std::vector<Path> parsed;
    for (const std::string &path : paths) {
        infos.emplace_back(path);
        ARROW_ASSIGN_OR_RAISE(parsed.emplace_back(), impl_->Parse(path));
    }
    ARROW_ASSIGN_OR_RAISE(const auto store, impl_->Store());
    ARROW_RETURN_NOT_OK(LookUp(store, parsed, &infos));
    return infos;
}

Result<FileInfoVector> TideFileSystem::GetFileInfo(const FileSelector &select) {
    ARROW_ASSIGN_OR_RAISE(const Path base, impl_->Parse(select.base_dir));
    ARROW_ASSIGN_OR_RAISE(const auto store, impl_->Store());
    const std::string below = base.below();
    // How many slashes a key may have.
    const std::size_t deepest =
        Depth(below) + (select.recursive ? static_cast<std::size_t>(std::max(select.max_recursion, 0)) : 0);
    FileInfoVector infos;
    std::set<std::string, std::less<>> directories;
    // Notes a directory, after those that it is in.
    const auto add_directory = [&](std::string_view key) {
        for (std::size_t end = key.find('/', below.size());; end = key.find('/', end + 1)) {
            const std::string_view one = key.substr(0, end);
            if (one.size() > base.key.size() && Depth(one) <= deepest && directories.emplace(one).second)
                infos.emplace_back(std::string(one), FileType::Directory);
            if (end == key.npos) return;
        }
    };
    bool is_there = base.key.empty();
    const Status listed = Try([&] {
        const Options options{{"recursive", select.recursive ? "true" : "false"}};
        for (const Entry &entry : store.list(below, options)) {
            is_there = true;
            std::string_view key = entry.key;
            if (key == below) continue;
            if (key.back() == '/' || entry.kind != EntryKind::object) {
                while (!key.empty() && key.back() == '/') key.remove_suffix(1);
                add_directory(key);
                continue;
            }
            if (const std::size_t slash = key.rfind('/'); slash != key.npos && slash >= below.size())
                add_directory(key.substr(0, slash));
            if (Depth(key) > deepest) continue;
            Describe(*entry.object, &infos.emplace_back(std::string(key), FileType::File));
        }
    });
    if (!listed.ok()) {
        // The bucket is not there.
        if (select.allow_not_found && ::arrow::internal::ErrnoFromStatus(listed) == ENOENT) return FileInfoVector{};
        return listed;
    }
    if (!is_there) {
        const Status missing = impl_->NoDirectory(base);
        const bool is_missing = ::arrow::internal::ErrnoFromStatus(missing) == ENOENT;
        if (!is_missing || !select.allow_not_found) return missing;
    }
    return infos;
}

Status TideFileSystem::CreateDir(const std::string &path, bool recursive) {
    ARROW_ASSIGN_OR_RAISE(const Path parsed, impl_->Parse(path));
    if (parsed.key.empty()) return Status::OK();
    if (const std::string parent = parsed.parent(); !recursive && !parent.empty()) {
        ARROW_ASSIGN_OR_RAISE(const bool is_there, impl_->HasDirectory(parent));
        if (!is_there)
            return IOErrorFromErrno(
                ENOENT, "the directory cannot be created, because there is no directory ", impl_->UrlOf(parent), ": ",
                impl_->UrlOf(parsed.key));
    }
    // Those that it is in are there by it.
    return impl_->CreateMarker(parsed.key);
}

Status TideFileSystem::DeleteDir(const std::string &path) {
    ARROW_ASSIGN_OR_RAISE(const Path parsed, impl_->Parse(path));
    if (parsed.key.empty())
        return Status::Invalid("the root of a store is no directory that can be deleted: ", impl_->url());
    ARROW_RETURN_NOT_OK(impl_->CheckDirectory(parsed));
    ARROW_RETURN_NOT_OK(impl_->RemoveBelow(parsed, true));
    return impl_->KeepParent(parsed);
}

Status TideFileSystem::DeleteDirContents(const std::string &path, bool missing_dir_ok) {
    ARROW_ASSIGN_OR_RAISE(const Path parsed, impl_->Parse(path));
    if (parsed.key.empty())
        return Status::Invalid(
            "DeleteDirContents of '", path, "' would delete all of ", impl_->url(), "; DeleteRootDirContents does that");
    ARROW_ASSIGN_OR_RAISE(const bool is_there, impl_->HasDirectory(parsed.key));
    if (!is_there) {
        const Status missing = impl_->NoDirectory(parsed);
        return missing_dir_ok && ::arrow::internal::ErrnoFromStatus(missing) == ENOENT ? Status::OK() : missing;
    }
    // First, so that the directory stays whatever happens.
    ARROW_RETURN_NOT_OK(impl_->CreateMarker(parsed.key));
    return impl_->RemoveBelow(parsed, false);
}

Status TideFileSystem::DeleteRootDirContents() { return impl_->RemoveBelow({"", true}, true); }

Status TideFileSystem::DeleteFile(const std::string &path) {
    ARROW_ASSIGN_OR_RAISE(const Path parsed, impl_->ParseFile(path));
    ARROW_ASSIGN_OR_RAISE(const auto store, impl_->Store());
    ARROW_ASSIGN_OR_RAISE(const bool is_there, Try([&] { return store.find(parsed.key).has_value(); }));
    if (!is_there) return impl_->NoFile(parsed);
    ARROW_RETURN_NOT_OK(Try([&] { store.remove(parsed.key); }));
    return impl_->KeepParent(parsed);
}

Status TideFileSystem::Move(const std::string &src, const std::string &dest) {
    ARROW_ASSIGN_OR_RAISE(const Path from, impl_->Parse(src));
    const auto no_move = [&] {
        return IOErrorFromErrno(
            EISDIR, "a directory cannot be moved, because a store would have to copy each file: ",
            impl_->UrlOf(from.key));
    };
    if (from.is_directory) {
        ARROW_RETURN_NOT_OK(impl_->CheckDirectory(from));
        return no_move();
    }
    ARROW_ASSIGN_OR_RAISE(const Path to, impl_->ParseFile(dest));
    if (from.key == to.key) return Status::OK();
    ARROW_ASSIGN_OR_RAISE(const auto store, impl_->Store());
    // A rename keeps them, and a copy that has them could not be followed by a removal of just what was copied.
    if (const Settings kept = OfStorage(impl_->options().write); !kept.empty())
        return Status::NotImplemented(
            "a move cannot change the ", kept[0].first, ", which this file system sets; copy the file, and delete it: ",
            impl_->UrlOf(from.key));
    ARROW_ASSIGN_OR_RAISE(const Options options, impl_->OptionsOf({"create_only"}));
    const Status moved = Try([&] { store.rename(from.key, to.key, options); });
    if (::arrow::internal::ErrnoFromStatus(moved) == ENOENT) {
        ARROW_ASSIGN_OR_RAISE(const bool is_directory, impl_->HasDirectory(from.key));
        return is_directory ? no_move() : moved;
    }
    ARROW_RETURN_NOT_OK(moved);
    return impl_->KeepParent(from);
}

Status TideFileSystem::CopyFile(const std::string &src, const std::string &dest) {
    ARROW_ASSIGN_OR_RAISE(const Path from, impl_->ParseFile(src));
    ARROW_ASSIGN_OR_RAISE(const Path to, impl_->ParseFile(dest));
    return from.key == to.key ? Status::OK() : impl_->Copy(from, to);
}

Result<std::shared_ptr<::arrow::io::InputStream>> TideFileSystem::OpenInputStream(const std::string &path) {
    ARROW_ASSIGN_OR_RAISE(const Path parsed, impl_->ParseFile(path));
    ARROW_ASSIGN_OR_RAISE(Reader reader, impl_->Open(parsed, {}));
    return std::make_shared<arrowfs::InputStream>(std::move(reader), impl_->UrlOf(parsed.key), io_context());
}

Result<std::shared_ptr<::arrow::io::InputStream>> TideFileSystem::OpenInputStream(const FileInfo &info) {
    ARROW_RETURN_NOT_OK(impl_->ParseFile(info));
    return OpenInputStream(info.path());
}

Result<std::shared_ptr<::arrow::io::RandomAccessFile>> TideFileSystem::OpenInputFile(const std::string &path) {
    ARROW_ASSIGN_OR_RAISE(const Path parsed, impl_->ParseFile(path));
    ARROW_ASSIGN_OR_RAISE(Reader reader, impl_->Open(parsed, {{"random", "true"}}));
    return std::make_shared<InputFile>(std::move(reader), impl_->UrlOf(parsed.key), io_context());
}

Result<std::shared_ptr<::arrow::io::RandomAccessFile>> TideFileSystem::OpenInputFile(const FileInfo &info) {
    ARROW_ASSIGN_OR_RAISE(const Path parsed, impl_->ParseFile(info));
    if (info.size() == ::arrow::fs::kNoSize) return OpenInputFile(info.path());
    const Settings settings{{"random", "true"}, {"size", std::to_string(info.size())}};
    ARROW_ASSIGN_OR_RAISE(Reader reader, impl_->Open(parsed, settings));
    return std::make_shared<InputFile>(std::move(reader), impl_->UrlOf(parsed.key), io_context());
}

Result<std::shared_ptr<::arrow::io::OutputStream>> TideFileSystem::OpenOutputStream(
    const std::string &path, const std::shared_ptr<const KeyValueMetadata> &metadata) {
    ARROW_ASSIGN_OR_RAISE(const Path parsed, impl_->ParseFile(path));
    ARROW_ASSIGN_OR_RAISE(const auto store, impl_->Store());
    ARROW_ASSIGN_OR_RAISE(const Options options, OfWrite(impl_->options().write, metadata.get()));
    ARROW_ASSIGN_OR_RAISE(Writer writer, Try([&] { return store.writer(parsed.key, options); }));
    return arrowfs::OutputStream::Make(std::move(writer), impl_->UrlOf(parsed.key), impl_);
}

Result<std::shared_ptr<::arrow::io::OutputStream>> TideFileSystem::OpenAppendStream(
    const std::string &path, const std::shared_ptr<const KeyValueMetadata> &) {
    ARROW_ASSIGN_OR_RAISE(const Path parsed, impl_->Parse(path));
    return Status::NotImplemented(
        "an object cannot be appended to, write a further file instead: ", impl_->UrlOf(parsed.key));
}

}  // namespace tidegate::arrowfs
