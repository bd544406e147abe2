// Velox on Tidegate, in C++20: ReadFile, WriteFile and FileSystem for object storage. docs/CPP.md is the guide.
//
// This is a source header: compile it with the Velox that you have. It overrides only what all supported versions have.
//
// Errors. Functions throw tidegate::Error, whose kind is for programs. Where there is no object to be read, those that
// block throw VELOX_FILE_NOT_FOUND_ERROR. A thread of the engine completes futures: what runs there inline must not
// block.
#ifndef TIDEGATE_VELOX_HPP
#define TIDEGATE_VELOX_HPP

#include <algorithm>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// A header with the same interfaces, instead of Velox's.
#ifdef TIDEGATE_VELOX_INTERFACE
#include TIDEGATE_VELOX_INTERFACE
#else
#include <folly/futures/Future.h>
#include <folly/io/IOBuf.h>
#include <velox/common/config/Config.h>
#include <velox/common/file/File.h>
#include <velox/common/file/FileSystems.h>
#endif

#include "tidegate.hpp"

namespace tidegate::velox {

namespace detail {

namespace files = facebook::velox::filesystems;

using Settings = std::map<std::string, std::string, std::less<>>;

// A path of Velox: the URL of a store, and a key.
struct Path {
    std::string scheme, store, key;

    explicit Path(std::string_view path) {
        const std::size_t colon = path.find("://");
        const std::size_t root = colon == path.npos ? path.npos : path.find('/', colon + 3);
        const std::string_view bucket = path.substr(0, root);
        if (colon == path.npos || bucket.size() == colon + 3)
            throw Error(Kind::invalid_input, "the path is no SCHEME://BUCKET/KEY: " + std::string(path));
        scheme = path.substr(0, colon);
        if (scheme == "s3a") scheme = "s3";
        store = scheme + std::string(bucket.substr(colon));
        key = root == path.npos ? "" : path.substr(root + 1);
    }
    // The path of another key of the same store.
    std::string of(std::string_view other) const { return store + "/" + std::string(other); }
    // The key as a prefix of the keys below it.
    std::string below() const { return key.empty() || key.back() == '/' ? key : key + '/'; }
};

// Sets the options of a configuration whose names begin with `group`.
inline void add(Options &options, const Settings &settings, const std::string &group) {
    for (auto at = settings.lower_bound(group); at != settings.end() && at->first.starts_with(group); ++at)
        options.set(at->first.substr(group.size()), at->second);
}

// Sets what FileOptions::values say.
inline void add(Options &options, const files::FileOptions &given) {
    constexpr auto several = files::FileOptions::kFileCreateConfig;
    for (const auto &[name, value] : given.values) {
        if (name != std::string_view(several.data(), several.size())) {
            options.set(name, value);
            continue;
        }
        // Several options in one text: NAME=VALUE,NAME=VALUE
        for (std::string_view rest = value; !rest.empty();) {
            const std::string_view one = rest.substr(0, rest.find(','));
            rest.remove_prefix(std::min(rest.size(), one.size() + 1));
            const std::size_t equals = one.find('=');
            if (equals == one.npos)
                throw Error(Kind::invalid_input, "file-create-config is no NAME=VALUE,...: " + value);
            options.set(one.substr(0, equals), one.substr(equals + 1));
        }
    }
}

// Throws Velox's own error, which its readers know, where there is no such object.
template <class Call>
auto reading(Call &&call) {
    try {
        return call();
    } catch (const Error &error) {
#ifdef VELOX_FILE_NOT_FOUND_ERROR
        if (error.kind() == Kind::not_found) VELOX_FILE_NOT_FOUND_ERROR("{}", error.what());
#endif
        throw;
    }
}

inline void refuse_token(const files::FileOptions &given, std::string_view path) {
    if (given.tokenProvider != nullptr)
        throw Error(Kind::unsupported, "Tidegate takes no tokenProvider: credentials are options of the store, for " +
                                           std::string(path));
}

}  // namespace detail

// Writes one object, which becomes visible by close() and by nothing else. Parts travel while the caller appends; all
// files share the engine's memory budget. One thread at a time.
class TideWriteFile : public facebook::velox::WriteFile {
  public:
    TideWriteFile(Writer writer, std::string path) : writer_(std::move(writer)), path_(std::move(path)) {}
    // Discards, unless close() has returned: nothing becomes visible. So a task that is aborted has to destroy the
    // file, not to close it, as Velox's writers do. Does not wait.
    ~TideWriteFile() override = default;

    // Appends a copy of the bytes. Blocks while the budget is used up. After an error the file has failed.
    void append(std::string_view data) override {
        write([&](Writer &writer) { writer.write(data); });
        size_ += data.size();
    }

    // Appends a chain without copies: the library keeps each buffer until the store has its bytes, perhaps after
    // close() has thrown or the file was destroyed, and frees it on a thread of its own. Copied are buffers below 64
    // KiB, and those that do not own their memory (IOBuf::wrapBuffer).
    void append(std::unique_ptr<folly::IOBuf> data) override {
        while (data != nullptr) {
            std::unique_ptr<folly::IOBuf> rest = data->pop();
            std::unique_ptr<folly::IOBuf> buffer = std::exchange(data, std::move(rest));
            const std::size_t length = buffer->length();
            write([&](Writer &writer) {
                if (!buffer->isManagedOne()) {
                    writer.write(buffer->data(), length);
                } else if (length != 0) {
                    const void *bytes = buffer->data();
                    writer.write_owned(bytes, length, [owned = std::move(buffer)] {});
                }
            });
            size_ += length;
        }
    }

    // With the strategy `journal`, makes all bytes so far survive a loss of power, and blocks. Otherwise does nothing:
    // bytes travel without it.
    void flush() override {
        write([](Writer &writer) {
            try {
                writer.sync();
            } catch (const Error &error) {
                if (error.kind() != Kind::unsupported) throw;
            }
        });
    }

    // Publishes the object: when this returns, it is visible. Throws if an append has failed, and publishes nothing
    // then; throws again if it threw before. After it has returned, another call does nothing. Blocks.
    void close() override {
        if (is_closed_) return;
        write([&](Writer &writer) { std::move(writer).finish(); });
        is_closed_ = true;
    }

    // The bytes appended so far, also after close().
    std::uint64_t size() const override { return size_; }
    const std::string getName() const override { return path_; }

  private:
    // Keeps the first failure: all later calls throw it again.
    template <class Call>
    void write(Call &&call) {
        if (failure_) std::rethrow_exception(failure_);
        if (is_closed_) throw Error(Kind::closed, "the file is closed: " + path_);
        try {
            call(writer_);
        } catch (...) {
            failure_ = std::current_exception();
            // Discarded now, not when the file is destroyed.
            const Writer discarded(std::move(writer_));
            throw;
        }
    }

    Writer writer_;
    const std::string path_;
    std::uint64_t size_ = 0;
    bool is_closed_ = false;
    std::exception_ptr failure_;
};

// Reads one object, as it was when the file was opened: if it is replaced, reads throw Error with Kind::replaced. Any
// number of threads at once.
class TideReadFile : public facebook::velox::ReadFile {
  public:
    // Takes a reader, opened with the option `random`.
    TideReadFile(Reader reader, std::string path)
        : path_(std::move(path)), reader_(std::move(reader)), size_(reader_.size()) {}
    // Cancels what preadvAsync has begun: the futures still become ready, with an error.
    ~TideReadFile() override = default;

    // Reads exactly these bytes, by one request; throws if they end before. Blocks.
    std::string_view pread(
        std::uint64_t offset,
        std::uint64_t length,
        void *buf,
        const facebook::velox::FileIoContext & = {}) const override {
        bytesRead_ += length;
        const Range range{offset, static_cast<std::size_t>(length), buf};
        if (length != 0) detail::reading([&] { reader_.read_ranges(&range, 1); });
        return {static_cast<const char *>(buf), static_cast<std::size_t>(length)};
    }
    std::string pread(
        std::uint64_t offset, std::uint64_t length, const facebook::velox::FileIoContext &context = {}) const override {
        // So that a wrong length takes no memory.
        if (offset > size_ || length > size_ - offset) throw past_the_end();
        std::string bytes(static_cast<std::size_t>(length), '\0');
        pread(offset, length, bytes.data(), context);
        return bytes;
    }

    // Fills the buffers one after another; skips as many bytes as a buffer without memory has. What lies close together
    // shares a request. Stops at the end of the object; returns how many bytes were filled or skipped. Blocks.
    std::uint64_t preadv(
        std::uint64_t offset,
        const std::vector<folly::Range<char *>> &buffers,
        const facebook::velox::FileIoContext & = {}) const override {
        const auto [ranges, length] = split(offset, buffers);
        read_ranges(ranges);
        return length;
    }

    // Reads each region into a new IOBuf, which replaces the one in its place. Returns how many bytes were read.
    // Blocks.
    std::uint64_t preadv(
        folly::Range<const facebook::velox::common::Region *> regions,
        folly::Range<folly::IOBuf *> iobufs,
        const facebook::velox::FileIoContext & = {}) const override {
        if (regions.size() != iobufs.size()) throw not_as_many();
        std::vector<folly::IOBuf> filled;
        std::vector<Range> ranges;
        for (std::size_t at = 0; at < regions.size(); ++at) {
            const auto &region = regions.data()[at];
            if (region.offset > size_ || region.length > size_ - region.offset) throw past_the_end();
            folly::IOBuf &buffer = filled.emplace_back(folly::IOBuf::CREATE, region.length);
            if (region.length != 0)
                ranges.push_back({region.offset, static_cast<std::size_t>(region.length), buffer.writableData()});
            buffer.append(region.length);
        }
        const std::uint64_t length = read(ranges);
        // Only now: whoever catches an error finds the buffers as they were.
        for (std::size_t at = 0; at < regions.size(); ++at) iobufs.data()[at] = std::move(filled[at]);
        return length;
    }

    // Reads each region into the memory given for it. A virtual function of newer versions. Blocks.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winconsistent-missing-override"
#endif
    std::uint64_t preadv(
        folly::Range<const facebook::velox::common::Region *> regions,
        folly::Range<const folly::Range<char *> *> buffers,
        const facebook::velox::FileIoContext & = {}) const {
        if (regions.size() != buffers.size()) throw not_as_many();
        std::vector<Range> ranges;
        for (std::size_t at = 0; at < regions.size(); ++at) {
            const auto &region = regions.data()[at];
            const auto &buffer = buffers.data()[at];
            if (buffer.size() != region.length)
                throw Error(Kind::invalid_input, "a buffer has another size than its region");
            if (region.length != 0) ranges.push_back({region.offset, buffer.size(), buffer.data()});
        }
        return read(ranges);
    }
#if defined(__clang__)
#pragma clang diagnostic pop
#endif

    // Begins what preadv does, and does not block. The memory must stay writable until the future is ready, also if the
    // future is dropped.
    folly::SemiFuture<std::uint64_t> preadvAsync(
        std::uint64_t offset,
        const std::vector<folly::Range<char *>> &buffers,
        const facebook::velox::FileIoContext & = {}) const override {
        struct Call {
            explicit Call(std::uint64_t read) : length(read) {}
            folly::Promise<std::uint64_t> promise;
            const std::uint64_t length;
        };
        const auto [ranges, length] = split(offset, buffers);
        auto call = std::make_unique<Call>(length);
        folly::SemiFuture<std::uint64_t> future = call->promise.getSemiFuture();
        const auto done = [](void *user, tg_error *failed) noexcept {
            const std::unique_ptr<Call> ended(static_cast<Call *>(user));
            if (failed == nullptr) {
                ended->promise.setValue(ended->length);
            } else {
                ended->promise.setException(Error(failed));
            }
        };
        if (ranges.empty()) {
            call->promise.setValue(length);
            return future;
        }
        tg_reader *reader = reader_.handle();
        if (tg_error *failed =
                tg_reader_read_ranges_async(reader, ranges.data(), ranges.size(), done, call.get(), nullptr)) {
            call->promise.setException(Error(failed));
            return future;
        }
        // `done` frees the call; it may have done so by now.
        (void)call.release();
        return future;
    }
    bool hasPreadvAsync() const override { return true; }

    bool shouldCoalesce() const override { return true; }
    std::uint64_t size() const override { return size_; }
    std::uint64_t memoryUsage() const override { return sizeof *this + path_.capacity(); }
    std::string getName() const override { return path_; }
    std::uint64_t getNaturalReadSize() const override { return 8 << 20; }

  private:
    static Error not_as_many() { return Error(Kind::invalid_input, "there are not as many buffers as regions"); }

    Error past_the_end() const {
        return Error(Kind::invalid_input, "a read goes past the " + std::to_string(size_) + " bytes of " + path_);
    }

    std::uint64_t read(const std::vector<Range> &ranges) const {
        std::uint64_t length = 0;
        for (const Range &range : ranges) length += range.length;
        bytesRead_ += length;
        read_ranges(ranges);
        return length;
    }

    void read_ranges(const std::vector<Range> &ranges) const {
        if (!ranges.empty()) detail::reading([&] { reader_.read_ranges(ranges); });
    }

    // The ranges of buffers that have memory, and the length of all up to the end of the object.
    std::pair<std::vector<Range>, std::uint64_t> split(
        std::uint64_t offset, const std::vector<folly::Range<char *>> &buffers) const {
        std::vector<Range> ranges;
        std::uint64_t at = std::min(offset, size_);
        const std::uint64_t begin = at;
        for (const auto &buffer : buffers) {
            const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), size_ - at));
            if (length != 0 && buffer.data() != nullptr) {
                ranges.push_back({at, length, buffer.data()});
                bytesRead_ += length;
            }
            at += length;
        }
        return {std::move(ranges), at - begin};
    }

    const std::string path_;
    const Reader reader_;
    const std::uint64_t size_;
};

// Files at s3://, gs:// and abfs:// paths. Any number of threads at once. All functions block, except name() and
// extractPath().
//
// The configuration has options under these names: `tidegate.engine.NAME`, `tidegate.SCHEME.NAME` of the stores of a
// scheme (`tidegate.s3.endpoint_url`), and `tidegate.write.NAME`. Other names that begin with `tidegate.` are refused.
class TideFileSystem : public facebook::velox::filesystems::FileSystem {
  public:
    template <class Config>
    explicit TideFileSystem(std::shared_ptr<const Config> config) : TideFileSystem(config, settings(config)) {}

    // What a configuration says for Tidegate. Equal settings make equal file systems.
    template <class Config>
    static detail::Settings settings(const std::shared_ptr<const Config> &config) {
        detail::Settings found;
        if (config == nullptr) return found;
        if constexpr (requires { config->rawConfigsCopy(); }) {
            for (auto &[name, value] : config->rawConfigsCopy())
                if (name.starts_with("tidegate.")) found.emplace(name, value);
        } else {
            throw Error(
                Kind::unsupported, "the configuration has no rawConfigsCopy(): its header was not included, or it is old");
        }
        return found;
    }

    std::string name() const override { return "Tidegate"; }
    // What follows `SCHEME://`.
    std::string_view extractPath(std::string_view path) const override {
        const std::size_t colon = path.find("://");
        return colon == path.npos ? path : path.substr(colon + 3);
    }

    // Opens an object for reading, by a HEAD, or by nothing if `fileSize` is set: then reads throw Error with
    // Kind::replaced if the object has another size. `values` are options of a read.
    std::unique_ptr<facebook::velox::ReadFile> openFileForRead(
        std::string_view path, const facebook::velox::filesystems::FileOptions &options = {}) override {
        detail::refuse_token(options, path);
        const detail::Path at(path);
        Options of_read{{"random", "true"}};
        if (options.fileSize) of_read.set("size", std::to_string(*options.fileSize));
        detail::add(of_read, options);
        return detail::reading(
            [&] { return std::make_unique<TideReadFile>(store(at).reader(at.key, of_read), std::string(path)); });
    }

    // Opens an object for writing: `values` are options of a write, `properties` tags, and
    // shouldThrowOnFileAlreadyExists, which is on by default, sets `create_only`: close() then throws if an object
    // exists.
    std::unique_ptr<facebook::velox::WriteFile> openFileForWrite(
        std::string_view path, const facebook::velox::filesystems::FileOptions &options = {}) override {
        detail::refuse_token(options, path);
        const detail::Path at(path);
        Options of_write;
        detail::add(of_write, settings_, "tidegate.write.");
        if (options.shouldThrowOnFileAlreadyExists) of_write.set("create_only", "true");
        if (options.properties)
            for (const auto &[name, value] : *options.properties) of_write.set("tags", name + "=" + value);
        detail::add(of_write, options);
        return std::make_unique<TideWriteFile>(store(at).writer(at.key, of_write), std::string(path));
    }

    // Removes an object. Succeeds if there is no object of this key.
    void remove(std::string_view path) override {
        const detail::Path at(path);
        store(at).remove(at.key);
    }

    // Renames an object within its bucket: the store copies it, then removes it. Throws if an object exists at the new
    // path, unless `overwrite` is set.
    void rename(std::string_view from, std::string_view to, bool overwrite = false) override {
        const detail::Path source(from), target(to);
        if (source.store != target.store)
            throw Error(
                Kind::unsupported, "a rename stays in its bucket: from " + std::string(from) + " to " + std::string(to));
        store(source).rename(source.key, target.key, overwrite ? Options() : Options{{"create_only", "true"}});
    }

    // Whether there is an object of this key. Directories are none.
    bool exists(std::string_view path) override {
        const detail::Path at(path);
        return store(at).find(at.key).has_value();
    }

    // Whether there are objects below this path.
    bool isDirectory(std::string_view path) const override {
        const detail::Path at(path);
        return store(at).list(at.below()).next().has_value();
    }

    // The paths of all objects below this path.
    std::vector<std::string> list(std::string_view path) override {
        const detail::Path at(path);
        std::vector<std::string> found;
        for (const Entry &entry : store(at).list(at.below())) found.push_back(at.of(entry.key));
        return found;
    }

    // Does nothing, because a directory is there with its first object. Throws if failIfExists is set and there are
    // objects.
    void mkdir(std::string_view path, const facebook::velox::filesystems::DirectoryOptions &options = {}) override {
        if (options.failIfExists && isDirectory(path))
            throw Error(Kind::already_exists, "there are objects below " + std::string(path));
    }

    // Removes all objects below this path, which is not a whole bucket. Throws at the first that can't be removed: others
    // may be gone.
    void rmdir(std::string_view path) override {
        const detail::Path at(path);
        if (at.key.empty())
            throw Error(Kind::invalid_input, "rmdir does not remove a whole bucket: " + std::string(path));
        const Store store = this->store(at);
        std::vector<std::string> keys;
        const auto remove = [&] {
            for (auto &[key, error] : store.remove_many(keys)) throw error;
            keys.clear();
        };
        for (const Entry &entry : store.list(at.below())) {
            keys.emplace_back(entry.key);
            if (keys.size() == 1000) remove();
        }
        if (!keys.empty()) remove();
    }

  private:
    template <class Config>
    TideFileSystem(std::shared_ptr<const Config> config, detail::Settings settings)
        : FileSystem(std::move(config)), settings_(std::move(settings)), engine_(engine(settings_)) {}

    static Engine engine(const detail::Settings &settings) {
        for (const auto &[name, value] : settings) {
            const std::string_view rest = std::string_view(name).substr(std::string_view("tidegate.").size());
            const std::string_view group = rest.substr(0, rest.find('.'));
            bool is_known = false;
            for (const char *known : {"engine", "write", "s3", "gs", "abfs"}) is_known |= group == known;
            if (!is_known || group == rest)
                throw Error(Kind::invalid_input, "the configuration has an unknown name: " + name);
        }
        Options options;
        detail::add(options, settings, "tidegate.engine.");
        return Engine::shared(options);
    }

    Store store(const detail::Path &path) const {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto known = stores_.find(path.store);
        if (known != stores_.end()) return known->second;
        Options options;
        detail::add(options, settings_, "tidegate." + (path.scheme == "abfss" ? "abfs" : path.scheme) + ".");
        return stores_.emplace(path.store, engine_.open(path.store, options)).first->second;
    }

    const detail::Settings settings_;
    const Engine engine_;
    mutable std::mutex mutex_;
    mutable std::map<std::string, Store> stores_;
};

// Registers Tidegate for paths that begin with one of these schemes; `s3a:`, `abfss:` and `memory:` can be added. Call
// it once, before what else claims these schemes: Velox takes the first match. Equal settings share one file system.
inline void registerTidegate(std::vector<std::string> schemes = {"s3:", "gs:", "abfs:"}) {
    for (const std::string &scheme : schemes) {
        bool is_known = false;
        for (const char *known : {"s3:", "s3a:", "gs:", "abfs:", "abfss:", "memory:"}) is_known |= scheme == known;
        if (!is_known) throw Error(Kind::unsupported, "Tidegate has no file system for the scheme " + scheme);
    }
    facebook::velox::filesystems::registerFileSystem(
        [schemes = std::move(schemes)](std::string_view path) {
            for (const std::string &scheme : schemes)
                if (path.starts_with(scheme)) return true;
            return false;
        },
        [](auto config, std::string_view) -> std::shared_ptr<facebook::velox::filesystems::FileSystem> {
            // Never destroyed: files may be open when the process exits.
            static auto &mutex = *new std::mutex;
            static auto &systems = *new std::map<detail::Settings, std::shared_ptr<TideFileSystem>>;
            const detail::Settings settings = TideFileSystem::settings(config);
            const std::lock_guard<std::mutex> lock(mutex);
            auto &system = systems[settings];
            if (system == nullptr) system = std::make_shared<TideFileSystem>(config);
            return system;
        });
}

}  // namespace tidegate::velox

#endif  // TIDEGATE_VELOX_HPP
