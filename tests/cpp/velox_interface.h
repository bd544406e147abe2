// The interfaces that tidegate_velox.hpp uses, with the signatures of Velox and folly, for tests: Velox can't be built
// here. With VELOX_INTERFACE_OLDER they are those of an older version, where names and functions differ.
#ifndef VELOX_INTERFACE_H
#define VELOX_INTERFACE_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace folly {

template <class Iterator>
class Range {
  public:
    constexpr Range() = default;
    constexpr Range(Iterator begin, std::size_t size) : begin_(begin), end_(begin + size) {}
    constexpr Range(Iterator begin, Iterator end) : begin_(begin), end_(end) {}
    // A literal, for Range<const char *>.
    template <std::size_t length>
    constexpr Range(const char (&text)[length]) : begin_(text), end_(text + length - 1) {}
    constexpr Iterator data() const { return begin_; }
    constexpr std::size_t size() const { return static_cast<std::size_t>(end_ - begin_); }
    std::string toString() const { return std::string(begin_, end_); }

  private:
    Iterator begin_ = nullptr, end_ = nullptr;
};
using StringPiece = Range<const char *>;

template <class Key, class Value>
using F14FastMap = std::unordered_map<Key, Value>;

// A buffer, and the chain of those after it.
class IOBuf {
  public:
    using FreeFunction = void (*)(void *buffer, void *user);
    enum CreateOp { CREATE };

    IOBuf() = default;
    IOBuf(CreateOp, std::uint64_t capacity)
        : owner_(new std::uint8_t[capacity + 1], std::default_delete<std::uint8_t[]>()), data_(owner_.get()) {}
    IOBuf(IOBuf &&) = default;
    IOBuf &operator=(IOBuf &&) = default;

    static std::unique_ptr<IOBuf> copyBuffer(const void *data, std::size_t size) {
        auto made = std::make_unique<IOBuf>(CREATE, size);
        std::memcpy(made->data_, data, size);
        made->length_ = size;
        return made;
    }
    static std::unique_ptr<IOBuf> takeOwnership(void *data, std::size_t size, FreeFunction free, void *user) {
        auto made = wrapBuffer(data, size);
        made->owner_ = std::shared_ptr<std::uint8_t>(made->data_, [=](std::uint8_t *owned) { free(owned, user); });
        return made;
    }
    static std::unique_ptr<IOBuf> wrapBuffer(const void *data, std::size_t size) {
        auto made = std::make_unique<IOBuf>();
        made->data_ = static_cast<std::uint8_t *>(const_cast<void *>(data));
        made->length_ = size;
        return made;
    }

    const std::uint8_t *data() const { return data_; }
    std::uint8_t *writableData() { return data_; }
    std::uint64_t length() const { return length_; }
    void append(std::uint64_t size) { length_ += size; }
    // Whether the memory is counted, not only wrapped.
    bool isManagedOne() const { return owner_ != nullptr; }
    void appendToChain(std::unique_ptr<IOBuf> &&last) {
        IOBuf *at = this;
        while (at->next_ != nullptr) at = at->next_.get();
        at->next_ = std::move(last);
    }
    // Takes this buffer out of the chain, and returns the rest.
    std::unique_ptr<IOBuf> pop() { return std::move(next_); }

  private:
    std::shared_ptr<std::uint8_t> owner_;
    std::uint8_t *data_ = nullptr;
    std::uint64_t length_ = 0;
    std::unique_ptr<IOBuf> next_;
};

// Of folly's futures, what std::future has too.
template <class T>
class SemiFuture {
  public:
    explicit SemiFuture(std::future<T> future) : future_(std::move(future)) {}
    explicit SemiFuture(T value) {
        std::promise<T> promise;
        future_ = promise.get_future();
        promise.set_value(std::move(value));
    }
    T get() && { return future_.get(); }
    bool isReady() const { return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

  private:
    std::future<T> future_;
};

template <class T>
class Promise {
  public:
    SemiFuture<T> getSemiFuture() { return SemiFuture<T>(promise_.get_future()); }
    void setValue(T value) { promise_.set_value(std::move(value)); }
    template <class E>
    void setException(const E &error) {
        promise_.set_exception(std::make_exception_ptr(error));
    }

  private:
    std::promise<T> promise_;
};

}  // namespace folly

namespace facebook::velox {

// Velox's macros format their arguments and throw; the one argument here is the text.
class VeloxRuntimeError : public std::runtime_error {
  public:
    VeloxRuntimeError(std::string code, const std::string &text) : std::runtime_error(text), code_(std::move(code)) {}
    const std::string &errorCode() const { return code_; }

  private:
    std::string code_;
};
#define VELOX_FILE_NOT_FOUND_ERROR(format, text) throw ::facebook::velox::VeloxRuntimeError("FILE_NOT_FOUND", text)

namespace common {
struct Region {
    std::uint64_t offset;
    std::uint64_t length;
    std::string_view label;
    Region(std::uint64_t from = 0, std::uint64_t size = 0, std::string_view name = {})
        : offset(from), length(size), label(name) {}
};
}  // namespace common

namespace memory {
class MemoryPool;
}

namespace config {
class IConfig {
  public:
    virtual ~IConfig() = default;
    virtual std::unordered_map<std::string, std::string> rawConfigsCopy() const = 0;
};
class ConfigBase : public IConfig {
  public:
    explicit ConfigBase(std::unordered_map<std::string, std::string> values) : values_(std::move(values)) {}
    std::unordered_map<std::string, std::string> rawConfigsCopy() const final { return values_; }

  private:
    std::unordered_map<std::string, std::string> values_;
};
#ifdef VELOX_INTERFACE_OLDER
using ConfigPtr = std::shared_ptr<const IConfig>;
#else
using ConfigPtr = std::shared_ptr<const ConfigBase>;
#endif
}  // namespace config

namespace filesystems {

class TokenProvider {
  public:
    virtual ~TokenProvider() = default;
};

#ifdef VELOX_INTERFACE_OLDER
namespace File {
class IoStats {};
}
using Stats = File::IoStats;
}  // namespace filesystems
#else
}  // namespace filesystems
class IoStats {};
namespace filesystems {
using Stats = velox::IoStats;
}
#endif

struct FileIoContext {
    filesystems::Stats *ioStats{nullptr};
    folly::F14FastMap<std::string, std::string> fileOpts;
#ifndef VELOX_INTERFACE_OLDER
    bool cacheable{false};
#endif
    FileIoContext() = default;
    explicit FileIoContext(filesystems::Stats *stats, folly::F14FastMap<std::string, std::string> options = {})
        : ioStats(stats), fileOpts(std::move(options)) {}
};

class ReadFile {
  public:
    virtual ~ReadFile() = default;
    virtual std::string_view pread(
        std::uint64_t offset, std::uint64_t length, void *buf, const FileIoContext &context = {}) const = 0;
    virtual std::string pread(std::uint64_t offset, std::uint64_t length, const FileIoContext &context = {}) const = 0;
    virtual std::uint64_t preadv(
        std::uint64_t offset,
        const std::vector<folly::Range<char *>> &buffers,
        const FileIoContext &context = {}) const = 0;
    virtual std::uint64_t preadv(
        folly::Range<const common::Region *> regions,
        folly::Range<folly::IOBuf *> iobufs,
        const FileIoContext &context = {}) const = 0;
#ifndef VELOX_INTERFACE_OLDER
    virtual std::uint64_t preadv(
        folly::Range<const common::Region *> regions,
        folly::Range<const folly::Range<char *> *> buffers,
        const FileIoContext &context = {}) const = 0;
    virtual bool directIo(std::uint64_t &alignment) const {
        alignment = 1;
        return false;
    }
#endif
    virtual folly::SemiFuture<std::uint64_t> preadvAsync(
        std::uint64_t offset,
        const std::vector<folly::Range<char *>> &buffers,
        const FileIoContext &context = {}) const = 0;
    virtual bool hasPreadvAsync() const { return false; }
    virtual bool shouldCoalesce() const = 0;
    virtual std::uint64_t size() const = 0;
    virtual std::uint64_t memoryUsage() const = 0;
    virtual std::uint64_t bytesRead() const { return bytesRead_; }
    virtual void resetBytesRead() { bytesRead_ = 0; }
    virtual std::string getName() const = 0;
    virtual std::uint64_t getNaturalReadSize() const = 0;

  protected:
    mutable std::atomic<std::uint64_t> bytesRead_ = 0;
};

class WriteFile {
  public:
    virtual ~WriteFile() = default;
    virtual void append(std::string_view data) = 0;
    virtual void append(std::unique_ptr<folly::IOBuf> data) = 0;
    virtual void flush() = 0;
    virtual void close() = 0;
    virtual std::uint64_t size() const = 0;
    virtual const std::string getName() const = 0;
};

namespace filesystems {

struct FileOptions {
    static constexpr folly::StringPiece kFileCreateConfig{"file-create-config"};

    std::unordered_map<std::string, std::string> values{};
    memory::MemoryPool *pool{nullptr};
    std::optional<std::int64_t> fileSize{};
    bool shouldCreateParentDirectories{false};
    bool shouldThrowOnFileAlreadyExists{true};
    bool bufferIo{true};
    std::optional<std::unordered_map<std::string, std::string>> properties{std::nullopt};
    Stats *stats{nullptr};
    std::shared_ptr<std::string> extraFileInfo{nullptr};
    std::optional<std::int64_t> readRangeHint{std::nullopt};
    std::shared_ptr<TokenProvider> tokenProvider{nullptr};
    folly::F14FastMap<std::string, std::string> fileReadOps{};
};

struct DirectoryOptions : FileOptions {
    bool failIfExists{false};
};

class FileSystem {
  public:
    FileSystem(config::ConfigPtr config) : config_(std::move(config)) {}
    virtual ~FileSystem() = default;
    virtual std::string name() const = 0;
    virtual std::string_view extractPath(std::string_view path) const = 0;
    virtual std::unique_ptr<ReadFile> openFileForRead(std::string_view path, const FileOptions &options = {}) = 0;
    virtual std::unique_ptr<WriteFile> openFileForWrite(std::string_view path, const FileOptions &options = {}) = 0;
    virtual void remove(std::string_view path) = 0;
    virtual void rename(std::string_view oldPath, std::string_view newPath, bool overwrite = false) = 0;
    virtual bool exists(std::string_view path) = 0;
    virtual bool isDirectory(std::string_view path) const = 0;
    virtual std::vector<std::string> list(std::string_view path) = 0;
    virtual void mkdir(std::string_view path, const DirectoryOptions &options = {}) = 0;
    virtual void rmdir(std::string_view path) = 0;

  protected:
    config::ConfigPtr config_;
};

using Matcher = std::function<bool(std::string_view)>;
using Generator = std::function<std::shared_ptr<FileSystem>(config::ConfigPtr, std::string_view)>;

inline std::vector<std::pair<Matcher, Generator>> &registered() {
    static std::vector<std::pair<Matcher, Generator>> all;
    return all;
}
inline void registerFileSystem(Matcher matcher, Generator generator) {
    registered().emplace_back(std::move(matcher), std::move(generator));
}
inline bool isPathSupportedByRegisteredFileSystems(const std::string_view &path) {
    for (const auto &[matches, generate] : registered())
        if (matches(path)) return true;
    return false;
}
inline std::shared_ptr<FileSystem> getFileSystem(std::string_view path, config::ConfigPtr config) {
    for (const auto &[matches, generate] : registered())
        if (matches(path)) return generate(std::move(config), path);
    throw std::runtime_error("no file system");
}

}  // namespace filesystems
}  // namespace facebook::velox

#endif  // VELOX_INTERFACE_H
