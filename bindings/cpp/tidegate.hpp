// Tidegate for C++17, in one header over tidegate.h: no C++ symbol crosses the library's border, so any compiler works.
// docs/CPP.md is the guide; the comments here are the contract.
//
// Errors. A function that fails throws tidegate::Error. Each try_... returns std::expected instead of throwing, where
// the standard library has it. Both may throw std::bad_alloc.
//
// Ownership. Engine, Store, Object and Error are cheap to copy: copies share one handle. Options, Writer, Reader,
// Listing and Recovery can only be moved. A moved-from handle is empty: a call on it throws Error with Kind::closed,
// and its destructor does nothing. A handle keeps alive what it came from. No destructor throws, and none publishes.
//
// Threads. Any number of threads may use one Engine, Store, Reader or Object at once. A Writer, Listing or stream is
// for one thread at a time: a second call at the same moment throws Error with Kind::invalid_input.
//
// Blocking. A function that is said to block waits for the network or a disk. On a thread of an engine, where the
// functions of write_owned run, it throws Error with Kind::invalid_input.
//
// Text is UTF-8. Text with a NUL is refused, except in keys and bytes. Sizes and offsets are bytes.
#ifndef TIDEGATE_HPP
#define TIDEGATE_HPP

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <initializer_list>
#include <istream>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <streambuf>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>
#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#endif
#if defined(__cpp_lib_span)
#include <span>
#endif
#if defined(__cpp_lib_expected)
#include <expected>
#endif

#include "tidegate.h"

namespace tidegate {

// What kind of failure it is. docs/ERRORS.md explains each.
enum class Kind : std::int32_t {
    not_found = TG_KIND_NOT_FOUND,
    no_bucket = TG_KIND_NO_BUCKET,
    already_exists = TG_KIND_ALREADY_EXISTS,
    not_empty = TG_KIND_NOT_EMPTY,
    replaced = TG_KIND_REPLACED,
    permission_denied = TG_KIND_PERMISSION_DENIED,
    credentials = TG_KIND_CREDENTIALS,
    clock_skew = TG_KIND_CLOCK_SKEW,
    invalid_input = TG_KIND_INVALID_INPUT,
    too_large = TG_KIND_TOO_LARGE,
    source = TG_KIND_SOURCE,
    throttled = TG_KIND_THROTTLED,
    timeout = TG_KIND_TIMEOUT,
    unavailable = TG_KIND_UNAVAILABLE,
    not_a_store = TG_KIND_NOT_A_STORE,
    integrity = TG_KIND_INTEGRITY,
    uncertain = TG_KIND_UNCERTAIN,
    no_space = TG_KIND_NO_SPACE,
    starved = TG_KIND_STARVED,
    idle = TG_KIND_IDLE,
    session_lost = TG_KIND_SESSION_LOST,
    closed = TG_KIND_CLOSED,
    unsupported = TG_KIND_UNSUPPORTED,
    panic = TG_KIND_PANIC,
    forked = TG_KIND_FORKED,
    cancelled = TG_KIND_CANCELLED,
    other = TG_KIND_OTHER,
};

namespace detail {

// Frees a handle of the C interface.
template <auto free>
struct Free {
    template <class T>
    void operator()(T *handle) const noexcept {
        free(handle);
    }
};

template <class T, auto free>
using Unique = std::unique_ptr<T, Free<free>>;

// Text that ends with a NUL. Text that has one would be cut off there, so it is refused.
std::string text(std::string_view);

// Whether an rvalue of this type has bytes, and owns them: constness of an owner reaches its bytes, and that of a view, such
// as std::span or std::string_view, does not.
template <class Bytes, class = void>
constexpr bool owns_bytes = false;
template <class Bytes>
constexpr bool owns_bytes<
    Bytes,
    std::enable_if_t<
        !std::is_reference_v<Bytes> && sizeof(*std::declval<Bytes &>().data()) == 1 &&
        !std::is_const_v<std::remove_pointer_t<decltype(std::declval<Bytes &>().data())>> &&
        std::is_const_v<std::remove_pointer_t<decltype(std::declval<const Bytes &>().data())>>>> = true;

inline tg_str key(std::string_view key) noexcept { return {key.data(), key.size()}; }
inline std::string_view view(const char *text) noexcept { return text == nullptr ? std::string_view() : text; }

}  // namespace detail

// Why a call failed. what() is one sentence for people: the object, what failed, why, and what to do.
class Error : public std::runtime_error {
  public:
    // Takes over an error of the C interface, which is not NULL.
    explicit Error(tg_error *error) : Error(std::shared_ptr<const tg_error>(error, detail::Free<tg_error_free>())) {}

    // An error of the caller's own.
    Error(Kind kind, const std::string &message) : std::runtime_error(message), kind_(kind) {}

    // What kind of failure it is, for programs.
    Kind kind() const noexcept { return kind_; }
    // The operation that failed, such as `put`; empty where no operation of a store had begun.
    std::string_view operation() const noexcept { return said(tg_error_operation); }
    // The URL of the object or bucket that the error is about; empty if no object or bucket is known.
    std::string_view url() const noexcept { return said(tg_error_url); }
    // What to do; empty if there is no advice.
    std::string_view remedy() const noexcept { return said(tg_error_remedy); }
    // How many requests were made; 0 if there was none.
    std::uint32_t attempts() const noexcept { return error_ ? tg_error_attempts(error_.get()) : 0; }
    // How long the attempts took together.
    std::chrono::milliseconds elapsed() const noexcept {
        return std::chrono::milliseconds(error_ ? tg_error_elapsed_ms(error_.get()) : 0);
    }
    // Whether the store could not be reached at all.
    bool is_unreachable() const noexcept { return error_ && tg_error_is_unreachable(error_.get()); }

  private:
    explicit Error(std::shared_ptr<const tg_error> error)
        : std::runtime_error(tg_error_message(error.get())),
          kind_(static_cast<Kind>(tg_error_kind(error.get()))),
          error_(std::move(error)) {}

    std::string_view said(const char *(*of)(const tg_error *)) const noexcept {
        return error_ ? detail::view(of(error_.get())) : std::string_view();
    }

    Kind kind_;
    std::shared_ptr<const tg_error> error_;
};

#if defined(__cpp_lib_expected)
// What the try_... functions return.
template <class T>
using Expected = std::expected<T, Error>;
#endif

namespace detail {

inline void check(tg_error *error) {
    if (error != nullptr) throw Error(error);
}

inline std::string text(std::string_view text) {
    if (text.find('\0') != std::string_view::npos) throw Error(Kind::invalid_input, "the text has a NUL in it");
    return std::string(text);
}

// The C handle of an object of this header, which must not be empty.
template <class Pointer>
auto of(const Pointer &handle, const char *name) {
    if (!handle) throw Error(Kind::closed, std::string("this ") + name + " is empty: it was moved from, or has ended");
    return handle.get();
}

#if defined(__cpp_lib_expected)
template <class Call>
auto attempt(Call &&call) -> Expected<decltype(call())> {
    try {
        if constexpr (std::is_void_v<decltype(call())>) {
            call();
            return {};
        } else {
            return call();
        }
    } catch (Error &error) {
        return std::unexpected(std::move(error));
    }
}
#endif

// An asynchronous call and the promise that it keeps. `Taken` is what the C function fills in.
template <class T, class Taken>
struct Call {
    std::promise<T> promise;
    Taken taken{};

    // Runs on a thread of the engine.
    static void done(void *user, tg_error *failed) noexcept {
        std::unique_ptr<Call> call(static_cast<Call *>(user));
        try {
            check(failed);
            if constexpr (std::is_void_v<T>) {
                call->promise.set_value();
            } else {
                call->promise.set_value(T(call->taken));
            }
        } catch (...) {
            call->promise.set_exception(std::current_exception());
        }
    }
};

// Begins an asynchronous call. If it can't begin, this throws and no future is left.
template <class T, class Taken, class Begin>
std::future<T> begin(Begin &&begin) {
    auto call = std::make_unique<Call<T, Taken>>();
    std::future<T> future = call->promise.get_future();
    check(begin(&call->taken, &Call<T, Taken>::done, call.get()));
    // `done` frees the call; it may have done so by now.
    (void)call.release();
    return future;
}

}  // namespace detail

// An object as a store describes it, in memory of something else: an Object, a Reader, or the page of a Listing. It and
// what it returns must not outlive that.
class ObjectView {
  public:
    explicit ObjectView(const tg_object *object) noexcept : object_(object) {}

    // The key within the store.
    std::string_view key() const noexcept {
        const tg_str key = tg_object_key(object_);
        return {key.data, key.length};
    }
    // Size in bytes; 0 where has_size() is false.
    std::uint64_t size() const noexcept { return tg_object_size(object_); }
    // Whether the size is known. Some stores leave it out of listings; Store::head gives it.
    bool has_size() const noexcept { return tg_object_has_size(object_); }
    // When the store last changed it, if that is known.
    std::optional<std::chrono::system_clock::time_point> modified() const {
        const std::int64_t milliseconds = tg_object_modified_ms(object_);
        if (milliseconds == INT64_MIN) return std::nullopt;
        return std::chrono::system_clock::time_point(std::chrono::milliseconds(milliseconds));
    }
    // A property, such as `etag` or `content_type`; nothing where the store does not say. tg_object_text has the names.
    std::optional<std::string_view> text(std::string_view name) const {
        const char *value = tg_object_text(object_, detail::text(name).c_str());
        return value == nullptr ? std::nullopt : std::optional<std::string_view>(value);
    }
    // User metadata: names in lower case, and values. Objects of listings have none.
    std::vector<std::pair<std::string_view, std::string_view>> metadata() const {
        std::vector<std::pair<std::string_view, std::string_view>> found;
        for (std::size_t at = 0; at < tg_object_metadata_count(object_); ++at)
            found.emplace_back(tg_object_metadata_name(object_, at), tg_object_metadata_value(object_, at));
        return found;
    }
    // Whether both describe the same bytes: equal sizes, and the same tag or version.
    bool is_same(const ObjectView &other) const noexcept { return tg_object_is_same(object_, other.object_); }
    // The handle of the C interface, which stays this object's.
    const tg_object *handle() const noexcept { return object_; }

  protected:
    const tg_object *object_;
};

// An object as a store describes it. Copies share one description, which never changes.
class Object : public ObjectView {
  public:
    // Takes over a handle of the C interface.
    explicit Object(tg_object *object) : ObjectView(object), owner_(object, detail::Free<tg_object_free>()) {}
    // A move is a copy: no Object is empty.
    Object(const Object &) = default;
    Object &operator=(const Object &) = default;

  private:
    std::shared_ptr<const tg_object> owner_;
};

// Options: names and values, as on the command line and in Python (docs/C.md lists them). One thread at a time may set
// them; a call reads them until it returns.
class Options {
  public:
    // No options.
    Options() = default;
    // Options{{"memory", "256MiB"}, {"concurrency", "8"}}
    Options(std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
        for (const auto &[name, value] : values) set(name, value);
    }

    // Sets an option: sizes as `16MiB` or bytes, times as `20ms` or seconds, switches as `true` or `false`. An unknown
    // name throws here; a wrong value, or an option that a call does not have, where the options are passed.
    Options &set(std::string_view name, std::string_view value) & {
        detail::check(tg_options_set(made(), detail::text(name).c_str(), detail::text(value).c_str()));
        return *this;
    }
    // Sets an option to an object, which is copied: `replaces` of a write, `if_unchanged` of a read.
    Options &set(std::string_view name, const ObjectView &object) & {
        detail::check(tg_options_set_object(made(), detail::text(name).c_str(), object.handle()));
        return *this;
    }
    // The same on a temporary: Options().set("if_unchanged", object)
    template <class Value>
    Options &&set(std::string_view name, const Value &value) && {
        return std::move(set(name, value));
    }
    Options(Options &&other) noexcept
        : options_(std::move(other.options_)), is_moved_from_(std::exchange(other.is_moved_from_, true)) {}
    Options &operator=(Options &&other) noexcept {
        options_ = std::move(other.options_);
        is_moved_from_ = std::exchange(other.is_moved_from_, true);
        return *this;
    }

    // The handle of the C interface, which stays these options'; NULL for none.
    const tg_options *handle() const {
        if (is_moved_from_) throw Error(Kind::closed, "these options are empty: they were moved from");
        return options_.get();
    }

  private:
    tg_options *made() {
        (void)handle();
        if (!options_) options_.reset(tg_options_new());
        if (!options_) throw std::bad_alloc();
        return options_.get();
    }

    detail::Unique<tg_options, tg_options_free> options_;
    // A moved-from `create_only` must not become a write without it.
    bool is_moved_from_ = false;
};

// A range to read: {offset, length, where the bytes go}.
using Range = tg_range;

// Figures at one moment; tg_progress has the fields.
using Progress = tg_progress;

// JSON that another process or machine acts on. It may name a Google session, whose holder can write the object: keep
// it as secret as a password.
class Pending {
  public:
    // Text of to_json(). Other text makes Store::commit throw.
    static Pending from_json(std::string_view json) { return Pending(detail::text(json)); }
    const std::string &to_json() const noexcept { return json_; }

  private:
    friend class Writer;
    explicit Pending(std::string json) : json_(std::move(json)) {}
    std::string json_;
};

// A point of an upload from which any process goes on (Store::resume). As secret as a Pending.
class Resumable {
  public:
    // Text of to_json(). Other text makes Store::resume throw.
    static Resumable from_json(std::string_view json) { return Resumable(detail::text(json)); }
    const std::string &to_json() const noexcept { return json_; }

  private:
    friend class Writer;
    explicit Resumable(std::string json) : json_(std::move(json)) {}
    std::string json_;
};

// Writes one object, which becomes visible by finish() and by nothing else. One thread at a time.
class Writer {
  public:
    // Takes over a handle of the C interface.
    explicit Writer(tg_writer *writer) noexcept : writer_(writer) {}
    Writer(Writer &&) noexcept = default;
    // Discards what this writer wrote, then takes over the other.
    Writer &operator=(Writer &&) noexcept = default;
    // Discards: nothing becomes visible, and the session is aborted in the background (Engine::wait_for_aborts). With
    // the strategy `journal`, or after persist(), what can be resumed stays. Does not wait for that, unless this is the
    // last handle of its engine: then two seconds at most.
    ~Writer() = default;

    // Writes a copy of the bytes. Blocks while the memory budget is used up, or as many parts are in flight as the
    // strategy allows. After an error the writer has failed, and can only be destroyed.
    void write(const void *data, std::size_t length) { detail::check(tg_writer_write(get(), data, length)); }
    void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
    void write(const char *text) { write(std::string_view(text)); }
#if defined(__cpp_lib_span)
    void write(std::span<const std::byte> bytes) { write(bytes.data(), bytes.size()); }
#endif
    // Writes bytes without a copy where they are 64 KiB or more: the library keeps the string until the store has them.
    void write(std::string &&bytes) { write_owned(std::move(bytes)); }

    // Writes the bytes of a container, such as a std::vector<char> or a std::string, as write(std::string &&) does. The
    // container is destroyed on any thread, once, also after a failure. Views, such as std::span, own no bytes: write()
    // copies those, and the other write_owned is told when they may go.
    template <class Bytes>
    std::enable_if_t<detail::owns_bytes<Bytes>> write_owned(Bytes &&bytes) {
        tg_writer *writer = get();
        auto owned = std::make_unique<Bytes>(std::move(bytes));
        auto *data = owned->data();
        const std::size_t length = owned->size();
        const auto destroy = [](void *, std::size_t, void *user) noexcept { delete static_cast<Bytes *>(user); };
        // Whatever the call returns, it has the bytes destroyed.
        detail::check(tg_writer_write_owned(writer, data, length, destroy, owned.release()));
    }

    template <class Bytes>
    std::enable_if_t<!detail::owns_bytes<Bytes>> write_owned(Bytes &&bytes) = delete;

    // Writes memory without a copy where it is 64 KiB or more. `release` is called once, on any thread, perhaps before
    // this returns, and also if this throws; until then the memory must stay as it is. It must not block or throw.
    template <class Release>
    void write_owned(const void *data, std::size_t length, Release release) {
        std::unique_ptr<Release> owned;
        tg_writer *writer = nullptr;
        try {
            writer = get();
            owned = std::make_unique<Release>(std::move(release));
        } catch (...) {
            release();
            throw;
        }
        const auto call = [](void *, std::size_t, void *user) noexcept {
            const std::unique_ptr<Release> called(static_cast<Release *>(user));
            (*called)();
        };
        detail::check(tg_writer_write_owned(writer, const_cast<void *>(data), length, call, owned.release()));
    }

    // Writes a copy of as many bytes as there is room for, and says how many, as tg_writer_try_write. Never blocks. After 0, call write()
    // before long: the writer may hold its place in the line for memory until then.
    std::size_t write_some(const void *data, std::size_t length) {
        std::size_t taken = 0;
        detail::check(tg_writer_try_write(get(), data, length, &taken));
        return taken;
    }

    // With the strategy `journal`: makes all bytes survive a loss of power, and says how many that are. With others it
    // throws Error with Kind::unsupported, and the writer goes on. Blocks.
    std::uint64_t sync() {
        std::uint64_t durable = 0;
        detail::check(tg_writer_sync(get(), &durable));
        return durable;
    }

    // How many bytes were written. A resumed writer begins where its upload stopped.
    std::uint64_t position() const { return tg_writer_position(get()); }

    // Publishes the object: std::move(writer).finish(). When this returns, the whole object is visible. If it throws,
    // the object is not; only Kind::uncertain, and Kind::cancelled at the moment of publishing, leave that open: look
    // with Store::head. The writer takes no calls afterwards, also if this throws. Blocks.
    Object finish() && {
        tg_object *object = nullptr;
        detail::check(tg_writer_finish(get(), &object));
        return Object(object);
    }

    // Ends the write with all bytes at the store and nothing visible: std::move(writer).prepare(). Any process
    // publishes the object by Store::commit, or gives it up by Store::abandon, within six days. The writer takes no
    // calls afterwards, also if this throws. Blocks.
    Pending prepare() && {
        char *json = nullptr;
        detail::check(tg_writer_prepare(get(), &json));
        const detail::Unique<char, tg_string_free> owned(json);
        return Pending(json);
    }

    // Makes all bytes so far outlast this process and this machine, and goes on. From then on the destructor leaves the
    // session to the processes that have the point. Blocks.
    Resumable persist() {
        char *json = nullptr;
        detail::check(tg_writer_persist(get(), &json));
        const detail::Unique<char, tg_string_free> owned(json);
        return Resumable(json);
    }

    // Why the store may end an upload before its six days, after persist(); empty if nothing is known.
    std::string_view warning() const { return detail::view(tg_writer_warning(get())); }

    // Aborts the upload, and waits until the store has released the session: std::move(writer).abort(). Throws if the
    // store did not release it; nothing is published in any case. The writer takes no calls afterwards. Blocks.
    void abort() && {
        detail::check(tg_writer_abort(get()));
    }

    // Ends the call that is under way on another thread, finish() too, and discards the upload: each call then throws
    // Error with Kind::cancelled. Any thread, but not during the destructor or a move.
    void cancel() { tg_writer_cancel(get()); }

    // Figures of this writer. Any thread, also during a call.
    Progress progress() const {
        Progress figures{};
        figures.struct_size = sizeof figures;
        detail::check(tg_writer_progress(get(), &figures));
        return figures;
    }

#if defined(__cpp_lib_expected)
    // These block, as write() does.
    Expected<void> try_write(const void *data, std::size_t length) {
        return detail::attempt([&] { write(data, length); });
    }
    Expected<void> try_write(std::string_view bytes) {
        return detail::attempt([&] { write(bytes); });
    }
    Expected<Object> try_finish() && {
        return detail::attempt([&] { return std::move(*this).finish(); });
    }
    Expected<Pending> try_prepare() && {
        return detail::attempt([&] { return std::move(*this).prepare(); });
    }
#endif

  private:
    tg_writer *get() const { return detail::of(writer_, "Writer"); }
    detail::Unique<tg_writer, tg_writer_free> writer_;
};

// Reads one object, as it was when the reader was opened: if it is replaced, reads throw Error with Kind::replaced. Any
// number of threads may call read_at and read_ranges at once; of read, a second call at the same moment throws.
class Reader {
  public:
    // Takes over a handle of the C interface.
    explicit Reader(tg_reader *reader) noexcept : reader_(reader) {}
    Reader(Reader &&) noexcept = default;
    Reader &operator=(Reader &&) noexcept = default;
    // Cancels asynchronous reads: their futures still become ready, and until then their memory must stay writable.
    ~Reader() = default;

    // Reads the next bytes, as many as are there, `length` at most; 0 at the end, and only there, or if `length` is 0.
    // The last bytes are given once the checksum of the whole object has matched. Blocks.
    std::size_t read(void *to, std::size_t length) {
        std::size_t read = 0;
        detail::check(tg_reader_read(get(), to, length, &read));
        return read;
    }

    // Reads the bytes from `offset` on: `length` bytes, or fewer at the object's end. One request. Blocks.
    std::size_t read_at(std::uint64_t offset, void *to, std::size_t length) const {
        std::size_t read = 0;
        detail::check(tg_reader_read_at(get(), offset, to, length, &read));
        return read;
    }

    // Reads many ranges, all of them whole: each must lie within the object. They may overlap, and come in any order;
    // those that lie close together share a request. Blocks.
    void read_ranges(const Range *ranges, std::size_t count) const {
        detail::check(tg_reader_read_ranges(get(), ranges, count));
    }
    void read_ranges(const std::vector<Range> &ranges) const { read_ranges(ranges.data(), ranges.size()); }

    // Begins read_at, and does not block. `to` must stay writable, and be used by nobody else, until the future is
    // ready. The future's destructor does not wait.
    std::future<std::size_t> read_at_async(std::uint64_t offset, void *to, std::size_t length) const {
        tg_reader *reader = get();
        return detail::begin<std::size_t, std::size_t>([=](std::size_t *read, tg_done done, void *user) {
            return tg_reader_read_at_async(reader, offset, to, length, read, done, user, nullptr);
        });
    }

    // Begins read_ranges, and does not block. The list is copied; the memory is as that of read_at_async.
    std::future<void> read_ranges_async(const Range *ranges, std::size_t count) const {
        tg_reader *reader = get();
        return detail::begin<void, char>([=](char *, tg_done done, void *user) {
            return tg_reader_read_ranges_async(reader, ranges, count, done, user, nullptr);
        });
    }
    std::future<void> read_ranges_async(const std::vector<Range> &ranges) const {
        return read_ranges_async(ranges.data(), ranges.size());
    }

#if defined(__cpp_lib_span)
    std::size_t read(std::span<std::byte> to) { return read(to.data(), to.size()); }
    std::size_t read_at(std::uint64_t offset, std::span<std::byte> to) const {
        return read_at(offset, to.data(), to.size());
    }
    std::future<std::size_t> read_at_async(std::uint64_t offset, std::span<std::byte> to) const {
        return read_at_async(offset, to.data(), to.size());
    }
    void read_ranges(std::span<const Range> ranges) const { read_ranges(ranges.data(), ranges.size()); }
#endif

    // The size of the object.
    std::uint64_t size() const { return tg_reader_size(get()); }
    // The object, in memory of this reader.
    ObjectView object() const { return ObjectView(tg_reader_object(get())); }
    // Ends all calls that are under way, and all later ones, with Kind::cancelled. Any thread, but not during the
    // destructor or a move.
    void cancel() { tg_reader_cancel(get()); }
    // The handle of the C interface, which stays this reader's.
    tg_reader *handle() const { return get(); }

#if defined(__cpp_lib_expected)
    Expected<std::size_t> try_read(void *to, std::size_t length) {
        return detail::attempt([&] { return read(to, length); });
    }
    Expected<std::size_t> try_read_at(std::uint64_t offset, void *to, std::size_t length) const {
        return detail::attempt([&] { return read_at(offset, to, length); });
    }
    Expected<void> try_read_ranges(const std::vector<Range> &ranges) const {
        return detail::attempt([&] { read_ranges(ranges); });
    }
#endif

  private:
    tg_reader *get() const { return detail::of(reader_, "Reader"); }
    detail::Unique<tg_reader, tg_reader_free> reader_;
};

enum class EntryKind : std::int32_t {
    // An object.
    object = TG_ENTRY_OBJECT,
    // A prefix that ends with `/`, of a listing that is not recursive.
    prefix = TG_ENTRY_PREFIX,
    // A name that is no object, such as a socket on a disk.
    other = TG_ENTRY_OTHER,
};

// An entry of a listing, in memory of that: it is valid until the listing gives the next one.
struct Entry {
    EntryKind kind;
    // The key, relative to the store.
    std::string_view key;
    // The object, if the entry is one.
    std::optional<ObjectView> object;
};

// A listing, in key order: for (const Entry &entry : store.list("logs/")). One thread at a time; once from its
// beginning to its end.
class Listing {
  public:
    // Takes over a handle of the C interface.
    explicit Listing(tg_list *list) noexcept : list_(list) {}

    // The next entry, or nothing at the end. After an error the listing has failed. Blocks, once for each page.
    std::optional<Entry> next() {
        tg_list *list = detail::of(list_, "Listing");
        if (at_ == count_) {
            detail::check(tg_list_next(list, &page_, &count_));
            at_ = 0;
            if (count_ == 0) return std::nullopt;
        }
        const tg_entry &entry = page_[at_++];
        std::optional<ObjectView> object;
        if (entry.object != nullptr) object.emplace(entry.object);
        return Entry{static_cast<EntryKind>(entry.kind), {entry.key.data, entry.key.length}, object};
    }

    class iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Entry;
        using difference_type = std::ptrdiff_t;
        using pointer = const Entry *;
        using reference = const Entry &;

        explicit iterator(Listing *listing) : listing_(listing) { ++*this; }
        iterator() = default;
        reference operator*() const { return *entry_; }
        pointer operator->() const { return &*entry_; }
        iterator &operator++() {
            entry_ = listing_->next();
            if (!entry_) listing_ = nullptr;
            return *this;
        }
        void operator++(int) { ++*this; }
        friend bool operator==(const iterator &one, const iterator &other) { return one.listing_ == other.listing_; }
        friend bool operator!=(const iterator &one, const iterator &other) { return !(one == other); }

      private:
        Listing *listing_ = nullptr;
        std::optional<Entry> entry_;
    };
    // Blocks, as next() does.
    iterator begin() { return iterator(this); }
    iterator end() { return {}; }

  private:
    detail::Unique<tg_list, tg_list_free> list_;
    const tg_entry *page_ = nullptr;
    std::size_t count_ = 0, at_ = 0;
};

// A bucket or a directory, or what is below a prefix of it. Copies share one store. All functions block, except those
// that say otherwise.
class Store {
  public:
    // Takes over a handle of the C interface.
    explicit Store(tg_store *store) : store_(store, detail::Free<tg_store_free>()) {}

    // Opens a writer. The key need not exist; an object that exists stays until Writer::finish.
    Writer writer(std::string_view key, const Options &options = {}) const {
        tg_writer *writer = nullptr;
        detail::check(tg_writer_open(get(), detail::key(key), options.handle(), &writer));
        return Writer(writer);
    }

    // Opens an object by one request, which asks for all bytes. With the option `random` it asks only for the
    // description, and with `random` and either `if_unchanged` or `size` for nothing.
    Reader reader(std::string_view key, const Options &options = {}) const {
        tg_reader *reader = nullptr;
        detail::check(tg_reader_open(get(), detail::key(key), options.handle(), &reader));
        return Reader(reader);
    }

    // Writes a whole object. The copy of the bytes lies beside the memory budget: a Writer takes large objects. When this
    // returns, the object is visible; if it throws, it is not, unless the kind is Kind::uncertain or Kind::panic.
    Object put(std::string_view key, std::string_view bytes, const Options &options = {}) const {
        tg_object *object = nullptr;
        detail::check(tg_put(get(), detail::key(key), bytes.data(), bytes.size(), options.handle(), &object));
        return Object(object);
    }

    // Reads a whole object into memory, and compares it with the store's checksum.
    std::string get(std::string_view key, const Options &options = {}) const {
        Reader reader = this->reader(key, options);
        std::string bytes(static_cast<std::size_t>(reader.size()), '\0');
        std::size_t filled = 0;
        while (const std::size_t read = reader.read(&bytes[0] + filled, bytes.size() - filled)) filled += read;
        if (filled != bytes.size()) throw Error(Kind::integrity, "the object ended before its size");
        return bytes;
    }

    // Describes an object.
    Object head(std::string_view key) const {
        tg_object *object = nullptr;
        detail::check(tg_head(get(), detail::key(key), &object));
        return Object(object);
    }

    // Describes an object; nothing if there is none.
    std::optional<Object> find(std::string_view key) const {
        try {
            return head(key);
        } catch (const Error &error) {
            if (error.kind() != Kind::not_found) throw;
            return std::nullopt;
        }
    }

    // Has the store copy an object, within this store or to another one of the same endpoint and account.
    Object copy(std::string_view key, const Store &to, std::string_view to_key, const Options &options = {}) const {
        tg_object *object = nullptr;
        detail::check(
            tg_copy(get(), detail::key(key), to.get(), detail::key(to_key), options.handle(), &object));
        return Object(object);
    }
    Object copy(std::string_view key, std::string_view to_key, const Options &options = {}) const {
        return copy(key, *this, to_key, options);
    }

    // Gives an object another key. Of the options it has `create_only`.
    void rename(std::string_view from, std::string_view to, const Options &options = {}) const {
        detail::check(tg_rename(get(), detail::key(from), detail::key(to), options.handle()));
    }

    // Removes an object. Succeeds if there is no object of this key.
    void remove(std::string_view key) const { detail::check(tg_delete(get(), detail::key(key))); }

    // Removes many objects, in as few requests as the store has. Returns the keys that were not removed, and why;
    // throws if nothing was begun.
    [[nodiscard]] std::vector<std::pair<std::string, Error>> remove_many(const std::vector<std::string> &keys) const {
        std::vector<tg_str> given;
        for (const std::string &key : keys) given.push_back(detail::key(key));
        std::vector<tg_error *> each(keys.size());
        std::vector<detail::Unique<tg_error, tg_error_free>> owned(keys.size());
        detail::Unique<tg_error, tg_error_free> failed(
            tg_delete_many(get(), given.data(), given.size(), each.data()));
        std::vector<std::pair<std::string, Error>> left;
        for (std::size_t at = 0; at < keys.size(); ++at) owned[at].reset(each[at]);
        for (std::size_t at = 0; at < keys.size(); ++at)
            if (owned[at]) left.emplace_back(keys[at], Error(owned[at].release()));
        if (failed && left.empty()) throw Error(failed.release());
        return left;
    }

    // Lists the objects whose keys begin with `prefix`: all of them, or with the option `recursive` set to `false`
    // those before the next `/`, and prefixes. Sends nothing yet, and does not block.
    Listing list(std::string_view prefix = {}, const Options &options = {}) const {
        tg_list *list = nullptr;
        detail::check(tg_list_open(get(), detail::key(prefix), options.handle(), &list));
        return Listing(list);
    }

    // Publishes a prepared upload. Twice, or by two processes, publishes it once, and both get the object; after
    // abandon() it throws Error with Kind::session_lost.
    Object commit(const Pending &pending) const {
        tg_object *object = nullptr;
        detail::check(tg_commit(get(), pending.to_json().c_str(), &object));
        return Object(object);
    }

    // Gives up what Writer::prepare or Writer::persist has described: nothing of it becomes visible.
    void abandon(const Pending &pending) const { detail::check(tg_abandon(get(), pending.to_json().c_str())); }
    void abandon(const Resumable &point) const { detail::check(tg_abandon(get(), point.to_json().c_str())); }

    // Continues an upload: Writer::position says from which byte.
    Writer resume(const Resumable &point) const {
        tg_writer *writer = nullptr;
        detail::check(tg_resume(get(), point.to_json().c_str(), &writer));
        return Writer(writer);
    }

    // The handle of the C interface, which stays this store's.
    tg_store *handle() const { return get(); }

#if defined(__cpp_lib_expected)
    Expected<Writer> try_writer(std::string_view key, const Options &options = {}) const {
        return detail::attempt([&] { return writer(key, options); });
    }
    Expected<Reader> try_reader(std::string_view key, const Options &options = {}) const {
        return detail::attempt([&] { return reader(key, options); });
    }
    Expected<Object> try_put(std::string_view key, std::string_view bytes, const Options &options = {}) const {
        return detail::attempt([&] { return put(key, bytes, options); });
    }
    Expected<std::string> try_get(std::string_view key, const Options &options = {}) const {
        return detail::attempt([&] { return get(key, options); });
    }
    Expected<Object> try_head(std::string_view key) const {
        return detail::attempt([&] { return head(key); });
    }
    Expected<void> try_remove(std::string_view key) const {
        return detail::attempt([&] { remove(key); });
    }
    Expected<Object> try_commit(const Pending &pending) const {
        return detail::attempt([&] { return commit(pending); });
    }
#endif

  private:
    tg_store *get() const { return detail::of(store_, "Store"); }
    std::shared_ptr<tg_store> store_;
};

// The uploads in the journal directories of an engine. It does not change: what was resumed, aborted or forgotten stays
// in it. Indexes go from 0 to size() - 1. One thread at a time.
class Recovery {
  public:
    // Takes over a handle of the C interface.
    explicit Recovery(tg_unfinished_list *list) noexcept : list_(list) {}

    std::size_t size() const { return tg_unfinished_count(get()); }
    // The id of an upload.
    std::string_view id(std::size_t index) const { return detail::view(tg_unfinished_id(get(), index)); }
    // The URL of the object to be; empty if the journal can't be read.
    std::string_view url(std::size_t index) const { return detail::view(tg_unfinished_url(get(), index)); }
    // Why it can't be resumed, such as that a process is writing it; empty if it can.
    std::string_view problem(std::size_t index) const { return detail::view(tg_unfinished_problem(get(), index)); }
    // How many bytes of the object are in the journal or at the store.
    std::uint64_t length(std::size_t index) const { return tg_unfinished_length(get(), index); }
    // Whether its producer had finished: resuming it then publishes the object.
    bool is_finished(std::size_t index) const { return tg_unfinished_is_finished(get(), index); }

    // Resumes an upload on a store: gives the object, if its producer had finished, else a writer, whose position()
    // says from which byte to go on. Blocks.
    std::variant<Object, Writer> resume(std::size_t index, const Store &store) const {
        tg_object *object = nullptr;
        tg_writer *writer = nullptr;
        detail::check(tg_unfinished_resume(get(), index, store.handle(), &object, &writer));
        if (object != nullptr) return Object(object);
        return Writer(writer);
    }
    // Ends an upload without an object, and removes its journal. If its object turns out to have been published, the
    // object stays, and is returned. Blocks.
    std::optional<Object> abort(std::size_t index, const Store &store) const {
        tg_object *published = nullptr;
        detail::check(tg_unfinished_abort(get(), index, store.handle(), &published));
        return published == nullptr ? std::nullopt : std::optional<Object>(Object(published));
    }
    // Removes a journal with all its bytes, and sends nothing to the store. Blocks.
    void forget(std::size_t index) const { detail::check(tg_unfinished_forget(get(), index)); }

  private:
    tg_unfinished_list *get() const { return detail::of(list_, "Recovery"); }
    detail::Unique<tg_unfinished_list, tg_unfinished_list_free> list_;
};

// A memory budget, limits, and the threads that carry out calls. Copies share one engine.
class Engine {
  public:
    // The memory budget: all of it, what is used now, and the most that was used at one moment.
    struct Memory {
        std::uint64_t total, held, peak;
    };

    // Takes over a handle of the C interface.
    explicit Engine(tg_engine *engine) : engine_(engine, detail::Free<tg_engine_free>()) {}

    // The engine of this process with these options: equal options give the same engine, and with it one memory budget.
    // Starts threads, and sends nothing.
    static Engine shared(const Options &options = {}) {
        if (tg_abi_version() != TG_ABI_VERSION)
            throw Error(
                Kind::unsupported, "libtidegate has another TG_ABI_VERSION than tidegate.h: compile this program again");
        tg_engine *engine = nullptr;
        detail::check(tg_engine_new(options.handle(), &engine));
        return Engine(engine);
    }

    // Opens a store: `s3://bucket/prefix`, `gs://…`, `az://…`, a directory as a path or `file:///path`, or
    // `memory://name`. Sends nothing. The store keeps the engine. Blocks, but not for long.
    Store open(std::string_view url, const Options &options = {}) const {
        tg_store *store = nullptr;
        detail::check(tg_store_open(get(), detail::text(url).c_str(), options.handle(), &store));
        return Store(store);
    }

    // Waits until the sessions of all writers that failed or were discarded so far are aborted. Throws Error with
    // Kind::timeout if some are not by then, and of another kind if a session can't be aborted. Blocks.
    void wait_for_aborts(std::chrono::milliseconds at_most) const {
        if (at_most.count() < 0) throw Error(Kind::invalid_input, "the time to wait for aborts is negative");
        detail::check(tg_engine_wait_for_aborts(get(), static_cast<std::uint64_t>(at_most.count())));
    }

    Memory memory() const {
        Memory memory{};
        detail::check(tg_engine_memory(get(), &memory.total, &memory.held, &memory.peak));
        return memory;
    }

    // Figures of everything that this engine does, summed up.
    Progress progress() const {
        Progress figures{};
        figures.struct_size = sizeof figures;
        detail::check(tg_engine_progress(get(), &figures));
        return figures;
    }

    // Lists the uploads in the directories of the option `journal`: those that a process left, and those that one is
    // writing now. Changes none of them. Blocks.
    Recovery recover() const {
        tg_unfinished_list *list = nullptr;
        detail::check(tg_recover(get(), &list));
        return Recovery(list);
    }

#if defined(__cpp_lib_expected)
    static Expected<Engine> try_shared(const Options &options = {}) {
        return detail::attempt([&] { return shared(options); });
    }
    Expected<Store> try_open(std::string_view url, const Options &options = {}) const {
        return detail::attempt([&] { return open(url, options); });
    }
#endif

  private:
    tg_engine *get() const { return detail::of(engine_, "Engine"); }
    std::shared_ptr<tg_engine> engine_;
};

namespace detail {

// Gathers small pieces for a Writer. After a failure every write throws that failure again; after finish() it fails.
class WriteBuffer final : public std::streambuf {
  public:
    explicit WriteBuffer(Writer writer) : writer_(std::move(writer)), area_(64 << 10) { empty(); }

    Object finish() {
        send(nullptr, 0);
        try {
            Object object = std::move(writer_).finish();
            has_finished_ = true;
            close();
            return object;
        } catch (...) {
            fail();
            throw;
        }
    }
    const std::exception_ptr &failure() const noexcept { return failure_; }

  protected:
    int_type overflow(int_type next) override {
        send(nullptr, 0);
        if (traits_type::eq_int_type(next, traits_type::eof())) return traits_type::not_eof(next);
        *pptr() = traits_type::to_char_type(next);
        pbump(1);
        return next;
    }
    std::streamsize xsputn(const char *bytes, std::streamsize count) override {
        if (count <= 0) return 0;
        if (count < epptr() - pptr()) {
            traits_type::copy(pptr(), bytes, static_cast<std::size_t>(count));
            pbump(static_cast<int>(count));
        } else {
            send(bytes, static_cast<std::size_t>(count));
        }
        return count;
    }
    int sync() override {
        if (failure_ || !has_finished_) send(nullptr, 0);
        return 0;
    }
    // For tellp(), the only position that there is.
    pos_type seekoff(off_type offset, std::ios_base::seekdir from, std::ios_base::openmode which) override {
        if (failure_ || offset != 0 || from != std::ios_base::cur || !(which & std::ios_base::out))
            return pos_type(off_type(-1));
        return pos_type(static_cast<off_type>(writer_.position()) + (pptr() - pbase()));
    }

  private:
    void empty() noexcept { setp(area_.data(), area_.data() + area_.size()); }
    // Leaves no room, so that every later write comes to send().
    void close() noexcept { setp(nullptr, nullptr); }
    void fail() noexcept {
        failure_ = std::current_exception();
        close();
    }

    // Writes what was gathered, then `more`.
    void send(const char *more, std::size_t length) {
        if (failure_) std::rethrow_exception(failure_);
        try {
            if (has_finished_) throw Error(Kind::closed, "the stream was finished before");
            if (pptr() != pbase()) writer_.write(pbase(), static_cast<std::size_t>(pptr() - pbase()));
            empty();
            if (length != 0) writer_.write(more, length);
        } catch (...) {
            fail();
            throw;
        }
    }

    Writer writer_;
    std::vector<char> area_;
    bool has_finished_ = false;
    std::exception_ptr failure_;
};

class ReadBuffer final : public std::streambuf {
  public:
    explicit ReadBuffer(Reader reader) : reader_(std::move(reader)), area_(64 << 10) {}
    const std::exception_ptr &failure() const noexcept { return failure_; }

  protected:
    int_type underflow() override {
        const std::size_t read = fill(area_.data(), area_.size());
        setg(area_.data(), area_.data(), area_.data() + read);
        return read == 0 ? traits_type::eof() : traits_type::to_int_type(*gptr());
    }
    std::streamsize xsgetn(char *to, std::streamsize count) override {
        std::streamsize taken = std::min<std::streamsize>(std::max<std::streamsize>(count, 0), egptr() - gptr());
        traits_type::copy(to, gptr(), static_cast<std::size_t>(taken));
        gbump(static_cast<int>(taken));
        while (taken < count) {
            const std::size_t read = fill(to + taken, static_cast<std::size_t>(count - taken));
            if (read == 0) break;
            taken += static_cast<std::streamsize>(read);
        }
        return taken;
    }

  private:
    std::size_t fill(char *to, std::size_t length) {
        if (failure_) std::rethrow_exception(failure_);
        try {
            return reader_.read(to, length);
        } catch (...) {
            failure_ = std::current_exception();
            throw;
        }
    }

    Reader reader_;
    std::vector<char> area_;
    std::exception_ptr failure_;
};

// Before std::ostream among the bases, so that it lives longer.
template <class Buffer>
struct Held {
    template <class Handle>
    explicit Held(Handle handle) : buffer_(std::move(handle)) {}
    Buffer buffer_;
};

}  // namespace detail

// A std::ostream that writes one object, which becomes visible by finish() and by nothing else. A failure sets badbit,
// or throws the Error where exceptions(std::ios::badbit) is set. One thread at a time. Output blocks as Writer::write
// does.
class ostream : private detail::Held<detail::WriteBuffer>, public std::ostream {
  public:
    explicit ostream(Writer writer) : Held(std::move(writer)), std::ostream(nullptr) { rdbuf(&buffer_); }
    ostream(const Store &store, std::string_view key, const Options &options = {})
        : ostream(store.writer(key, options)) {}
    // Discards what was not finished, and reports nothing.
    ~ostream() override = default;

    // Publishes the object. Throws the first failure of this stream, also after clear(); and Error with Kind::source
    // where failbit or badbit is set for another reason, such as a source that failed in `stream << source.rdbuf()`.
    // After that the stream takes no more bytes: a write sets badbit. Blocks.
    Object finish() {
        if (buffer_.failure()) std::rethrow_exception(buffer_.failure());
        if (fail())
            throw Error(Kind::source, "failbit or badbit of the stream is set: what was written may not be whole");
        try {
            return buffer_.finish();
        } catch (...) {
            const std::exception_ptr failure = std::current_exception();
            try {
                setstate(std::ios_base::badbit);
            } catch (const std::ios_base::failure &) {
                // The cause is thrown instead.
            }
            std::rethrow_exception(failure);
        }
    }

    // Why badbit is set, if a write has failed.
    std::exception_ptr failure() const noexcept { return buffer_.failure(); }
};

// A std::istream over the bytes of one object, in order. A failure sets badbit, or throws the Error where
// exceptions(std::ios::badbit) is set; eofbit without badbit says that all bytes came, and that the checksum of the
// whole has matched. It can't seek. One thread at a time. Input blocks as Reader::read does.
class istream : private detail::Held<detail::ReadBuffer>, public std::istream {
  public:
    explicit istream(Reader reader) : Held(std::move(reader)), std::istream(nullptr) { rdbuf(&buffer_); }
    istream(const Store &store, std::string_view key, const Options &options = {})
        : istream(store.reader(key, options)) {}
    ~istream() override = default;

    // Why badbit is set, if a read has failed.
    std::exception_ptr failure() const noexcept { return buffer_.failure(); }
};

}  // namespace tidegate

#endif  // TIDEGATE_HPP
