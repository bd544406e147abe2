// Tests of tidegate.hpp.
#include "check.hpp"

#include <array>
#include <atomic>
#include <deque>
#include <sstream>
#include <thread>

#include <dlfcn.h>

using namespace tidegate;

static_assert(!std::is_copy_constructible_v<Writer> && std::is_nothrow_move_constructible_v<Writer>);
static_assert(!std::is_copy_constructible_v<Reader> && std::is_nothrow_move_constructible_v<Reader>);
static_assert(std::is_nothrow_destructible_v<Writer> && std::is_nothrow_copy_constructible_v<Error>);

// Whether write_owned takes an rvalue of this type.
template <class Bytes, class = void>
constexpr bool takes = false;
template <class Bytes>
constexpr bool takes<Bytes, std::void_t<decltype(std::declval<Writer &>().write_owned(std::declval<Bytes>()))>> = true;
static_assert(takes<std::string> && takes<std::vector<char>> && takes<std::vector<unsigned char>>);
static_assert(takes<std::vector<std::byte>> && takes<std::array<char, 4>>);
// Those that lend bytes of others would leave the library with memory that nobody keeps.
static_assert(!takes<std::string_view> && !takes<const std::string_view>);
static_assert(!takes<std::string &> && !takes<const std::string &> && !takes<std::vector<int>> && !takes<std::deque<char>>);
#if defined(__cpp_lib_span)
static_assert(!takes<std::span<char>> && !takes<std::span<const std::byte>> && !takes<std::span<char, 4>>);
#endif

TEST(an_error_says_all) {
    const Error error = THROWS(not_found, bucket().head("nothing"));
    CHECK(std::string(error.what()).find("nothing") != std::string::npos);
    CHECK(error.operation() == "head" && error.attempts() == 1 && !error.is_unreachable());
    CHECK(error.url() == setting("BUCKET") + "/nothing");
    CHECK(error.elapsed().count() >= 0);
    const Error copy = error;
    CHECK(copy.kind() == Kind::not_found && copy.url() == error.url());
    CHECK(!bucket().find("nothing"));
    THROWS(invalid_input, engine().open(std::string_view("s3://a\0b", 8)));
}

TEST(kinds_of_errors) {
    const Store store = bucket();
    store.put("there", "1");
    THROWS(already_exists, store.put("there", "2", {{"create_only", "true"}}));
    THROWS(invalid_input, Options{{"no_such_option", "1"}});
    THROWS(invalid_input, store.put("there", "2", {{"region", "eu"}}));
    THROWS(no_bucket, engine().open("s3://t-no-such-bucket", {{"endpoint_url", setting("ENDPOINT")},
                                                              {"access_key", "tidegate"},
                                                              {"secret_key", "tidegate"},
                                                              {"region", "us-east-1"}})
                          .put("a", "b"));
    const Error refused = THROWS(permission_denied, store.put("refused", "1"));
    CHECK(refused.attempts() == 1);
    CHECK(store.get("there") == "1");
    THROWS(session_lost, [&] {
        Writer writer = store.writer("given-up");
        writer.write("1");
        const Pending pending = std::move(writer).prepare();
        store.abandon(pending);
        store.commit(pending);
    }());
}

TEST(objects_of_each_store) {
    const Store stores[] = {bucket(), memory("objects"), directory()};
    for (const Store &store : stores) {
        // Directories keep no attributes.
        const bool has_attributes = &store != &stores[2];
        Options attributes;
        if (has_attributes) attributes.set("content_type", "text/plain").set("metadata", "colour=blue");
        const Object put = store.put("a", "12345678", attributes);
        CHECK(put.key() == "a" && put.size() == 8 && put.has_size());
        const Object head = store.head("a");
        CHECK(head.is_same(put) && !head.text("cache_control") && !head.text("no such property"));
        if (has_attributes) {
            CHECK(head.text("content_type") == std::optional<std::string_view>("text/plain"));
            CHECK(head.metadata().size() == 1);
            CHECK(head.metadata()[0].first == "colour" && head.metadata()[0].second == "blue");
        }
        CHECK(*head.modified() > std::chrono::system_clock::now() - std::chrono::hours(1));
        CHECK(store.get("a") == "12345678");
        store.copy("a", "b");
        store.rename("b", "c/d");
        THROWS(already_exists, store.rename("a", "c/d", {{"create_only", "true"}}));
        CHECK(!store.find("b") && store.get("c/d") == "12345678");
        // What an object replaces, and what a reader reads, is named by an object.
        const Object again = store.put("a", "abc", Options().set("replaces", head));
        THROWS(replaced, store.put("a", "abc", Options().set("replaces", head)));
        THROWS(replaced, store.get("a", Options().set("if_unchanged", head)));
        CHECK(store.get("a", Options().set("if_unchanged", again)) == "abc");
        CHECK(store.put("empty", "").size() == 0 && store.get("empty").empty());
        store.remove("a");
        store.remove("a");
        THROWS(not_found, store.get("a"));
        CHECK(store.remove_many({"c/d", "empty"}).empty() && store.list().begin() == Listing::iterator());
        CHECK(store.remove_many({}).empty());
    }
    const Object moved = stores[0].put("moved", "1");
    Object from = moved;
    const Object to = std::move(from);
    CHECK(from.key() == "moved" && to.is_same(from));
    CHECK(stores[0].copy("moved", stores[0], "again").key() == "again");
}

// Stands before the library's function. Where a test has set it, nothing is begun, and the error is that of a call on this
// store.
static const Store *refuses = nullptr;
tg_error *tg_delete_many(tg_store *store, const tg_str *keys, std::size_t count, tg_error **each) {
    if (refuses != nullptr) {
        tg_object *object = nullptr;
        return tg_head(refuses->handle(), keys[0], &object);
    }
    return reinterpret_cast<decltype(&tg_delete_many)>(dlsym(RTLD_NEXT, "tg_delete_many"))(store, keys, count, each);
}

TEST(removals_that_fail_are_named) {
    const Store store = bucket();
    store.put("b", "1");
    const auto left = store.remove_many({"", "b"});
    CHECK(left.size() == 1 && left[0].first.empty() && left[0].second.kind() == Kind::invalid_input && !store.find("b"));
    const Store nowhere = engine().open("s3://bucket", {{"endpoint_url", "http://127.0.0.1:1"}, {"anonymous", "true"}});
    const auto all = nowhere.remove_many({"a", "b"});
    CHECK(all.size() == 2 && all[1].second.kind() == Kind::unavailable && all[1].second.is_unreachable());
    CHECK(all[0].second.url().find("bucket") != std::string_view::npos && !all[0].second.remedy().empty());
    refuses = &nowhere;
    const Error none = THROWS(unavailable, (void)store.remove_many({"a", "b"}));
    CHECK(none.url() == "s3://bucket/a" && !none.remedy().empty() && none.operation() == "head");
    CHECK(none.attempts() == 2 && none.is_unreachable());
}

TEST(listings) {
    const Store store = memory("listings");
    for (int at = 0; at < 1500; ++at) store.put("n/" + std::to_string(1000 + at), "1");
    store.put("a", "12");
    std::size_t count = 0;
    std::string last;
    for (const Entry &entry : store.list("n/")) {
        CHECK(entry.kind == EntryKind::object && entry.key > last && entry.object->size() == 1);
        last = std::string(entry.key);
        ++count;
    }
    CHECK(count == 1500);
    Listing flat = store.list({}, {{"recursive", "false"}});
    auto entry = flat.next();
    CHECK(entry && entry->key == "a" && entry->object->size() == 2);
    entry = flat.next();
    CHECK(entry && entry->kind == EntryKind::prefix && entry->key == "n/" && !entry->object);
    CHECK(!flat.next() && !flat.next());
    Listing moved = std::move(flat);
    THROWS(closed, flat.next());
    THROWS(no_bucket, engine().open("file:///no/such/directory").list().next());
}

TEST(writes_of_all_forms) {
    const Store stores[] = {bucket(), directory(), memory("writes")};
    const std::string bytes = content(7 * MIB);
    for (const Store &store : stores) {
        std::atomic<int> released{0};
        Writer writer = store.writer("a");
        writer.write("begin ");
        writer.write(std::string_view("view "));
        const std::string text = "text ";
        writer.write(text);
        writer.write(std::string("owned "));
        std::string large = bytes;
        writer.write(std::move(large));
        writer.write_owned(std::vector<unsigned char>(70000, 'v'));
        writer.write_owned(bytes.data(), bytes.size(), [&released] { ++released; });
        // Small ones are copied, and given back at once.
        writer.write_owned(bytes.data(), 3, [&released, owned = std::make_unique<int>(1)] { released += *owned; });
        const std::size_t some = writer.write_some("end", 3);
        CHECK(some == 0 || some == 3);
        if (some == 0) writer.write("end");
        std::string expected = "begin view text owned " + bytes + std::string(70000, 'v') + bytes + bytes.substr(0, 3) + "end";
        CHECK(writer.position() == expected.size() && writer.progress().accepted <= expected.size());
        CHECK(!store.find("a"));
        CHECK(std::move(writer).finish().size() == expected.size());
        CHECK(released == 2 && store.get("a") == expected);
    }
}

TEST(memory_is_given_back_once_also_after_a_failure) {
    constexpr int ALL = 40;
    const std::string bytes = content(MIB);
    const Store store = bucket();
    // How often each piece was given back.
    std::array<std::atomic<int>, ALL> released{};
    int lent = 0;
    const auto lend = [&](Writer &writer, std::size_t length) {
        const int piece = lent++;
        writer.write_owned(bytes.data(), length, [&released, piece] { ++released[piece]; });
    };
    {
        // The store refuses the parts that are under way, while later ones are lent.
        Writer writer = store.writer("refused", {{"part_size", "5MiB"}});
        THROWS(permission_denied, [&] {
            while (lent < ALL - 4) lend(writer, MIB);
            std::move(writer).finish();
        }());
        CHECK(lent > 1);
        THROWS(closed, lend(writer, MIB));
        // Few bytes, which are copied.
        THROWS(closed, lend(writer, 3));
        Writer moved = std::move(writer);
        THROWS(closed, lend(writer, MIB));
        THROWS(closed, writer.write(std::string(MIB, 'x')));
    }
    {
        // One that is discarded holds the last of them.
        Writer writer = store.writer("discarded");
        lend(writer, MIB);
    }
    engine().wait_for_aborts(std::chrono::seconds(30));
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (int piece = 0; piece < lent; ++piece) {
        while (released[piece] == 0) {
            CHECK(std::chrono::steady_clock::now() < limit);
            std::this_thread::yield();
        }
    }
    for (int piece = 0; piece < ALL; ++piece) CHECK(released[piece] == (piece < lent ? 1 : 0));
    CHECK(!store.find("refused") && !store.find("discarded"));
}

TEST(a_writer_that_is_destroyed_publishes_nothing) {
    const Store stores[] = {bucket(), directory(), memory("destroyed")};
    const std::string bytes = content(6 * MIB);
    for (const Store &store : stores) {
        store.put("before", "before");
        { Writer writer = store.writer("none"); }
        {
            Writer writer = store.writer("before");
            writer.write(bytes);
        }
        try {
            Writer writer = store.writer("thrown");
            writer.write(bytes);
            throw std::runtime_error("the producer failed");
        } catch (const std::runtime_error &) {
        }
        {
            Writer writer = store.writer("assigned");
            writer.write(bytes);
            writer = store.writer("other");
            writer.write("other");
            std::move(writer).finish();
        }
        {
            Writer writer = store.writer("aborted");
            writer.write(bytes);
            std::move(writer).abort();
            THROWS(closed, writer.write("x"));
        }
        engine().wait_for_aborts(std::chrono::seconds(30));
        CHECK(store.get("before") == "before" && store.get("other") == "other");
        for (const char *key : {"none", "thrown", "assigned", "aborted"}) CHECK(!store.find(key));
    }
}

TEST(handles_that_are_moved_from_are_empty) {
    Store store = memory("moved");
    Writer writer = store.writer("a");
    writer.write("1");
    Writer moved = std::move(writer);
    THROWS(closed, writer.write("2"));
    THROWS(closed, std::move(writer).finish());
    THROWS(closed, std::move(writer).prepare());
    THROWS(closed, std::move(writer).abort());
    THROWS(closed, writer.cancel());
    moved.write("2");
    std::move(moved).finish();
    THROWS(closed, moved.write("3"));
    Options careful{{"create_only", "true"}};
    const Options careful_still = std::move(careful);
    THROWS(closed, store.put("a", "3", careful));
    THROWS(closed, careful.set("create_only", "true"));
    THROWS(already_exists, store.put("a", "3", careful_still));
    careful = Options();
    store.put("other", "3", careful);
    Reader reader = store.reader("a");
    Reader other = std::move(reader);
    char byte;
    THROWS(closed, reader.read(&byte, 1));
    THROWS(closed, reader.read_at_async(0, &byte, 1));
    CHECK(other.read(&byte, 1) == 1 && byte == '1');
    Engine running = engine();
    const Engine same = std::move(running);
    THROWS(closed, running.memory());
    CHECK(same.memory().total == 64 * MIB);
    const Store kept = std::move(store);
    THROWS(closed, store.head("a"));
    CHECK(kept.head("a").size() == 2);
    // A handle keeps alive what it came from.
    Reader alone = engine().open("memory://moved").reader("a");
    CHECK(alone.size() == 2);
}

TEST(reads_of_all_forms) {
    const Store stores[] = {bucket(), directory(), memory("reads")};
    const std::string bytes = content(9 * MIB);
    for (const Store &store : stores) {
        store.writer("unused");
        {
            Writer writer = store.writer("a");
            writer.write(bytes);
            std::move(writer).finish();
        }
        Reader reader = store.reader("a", {{"random", "true"}});
        CHECK(reader.size() == bytes.size() && reader.object().key() == "a");
        std::string read(bytes.size(), '\0');
        CHECK(reader.read_at(5, &read[0], 1000) == 1000 && read.compare(0, 1000, bytes, 5, 1000) == 0);
        CHECK(reader.read_at(bytes.size() - 10, &read[0], 1000) == 10);
        CHECK(reader.read_at(bytes.size() + 10, &read[0], 1000) == 0);
        std::string first(3, '\0'), second(MIB, '\0'), third(8, '\0');
        reader.read_ranges({{MIB, MIB, &second[0]}, {0, 3, &first[0]}, {MIB + 4, 8, &third[0]}});
        CHECK(first == bytes.substr(0, 3) && second == bytes.substr(MIB, MIB) && third == bytes.substr(MIB + 4, 8));
        THROWS(invalid_input, reader.read_ranges({{bytes.size() - 1, 2, &first[0]}}));
        // In order.
        std::size_t at = 0;
        while (const std::size_t length = reader.read(&read[at], std::min<std::size_t>(100000, read.size() - at))) at += length;
        CHECK(at == bytes.size() && read == bytes);
    }
}

TEST(futures) {
    const Store store = bucket();
    const std::string bytes = content(4 * MIB);
    store.put("a", bytes);
    const Reader reader = store.reader("a", {{"random", "true"}});
    std::vector<std::string> parts(16, std::string(MIB / 4, '\0'));
    std::vector<std::future<std::size_t>> futures;
    for (std::size_t at = 0; at < parts.size(); ++at)
        futures.push_back(reader.read_at_async(at * MIB / 4, &parts[at][0], MIB / 4));
    std::string joined;
    for (std::size_t at = 0; at < parts.size(); ++at) {
        CHECK(futures[at].get() == MIB / 4);
        joined += parts[at];
    }
    CHECK(joined == bytes);
    std::string two(6, '\0');
    reader.read_ranges_async({{0, 3, &two[0]}, {MIB, 3, &two[3]}}).get();
    CHECK(two == bytes.substr(0, 3) + bytes.substr(MIB, 3));
    THROWS(invalid_input, reader.read_ranges_async({{bytes.size(), 1, &two[0]}}).get());
    // A replaced object is another one.
    store.put("a", "other");
    THROWS(replaced, reader.read_at_async(0, &two[0], 3).get());
}

TEST(futures_become_ready_when_their_reader_goes) {
    const Store store = bucket();
    store.put("hold-get", "12345678");
    char bytes[8];
    std::future<std::size_t> future;
    {
        const Reader reader = store.reader("hold-get", {{"random", "true"}});
        future = reader.read_at_async(0, bytes, sizeof bytes);
        CHECK(future.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
    }
    THROWS(cancelled, future.get());
    Reader reader = store.reader("hold-get", {{"random", "true"}});
    future = reader.read_at_async(0, bytes, sizeof bytes);
    reader.cancel();
    THROWS(cancelled, future.get());
    // A future that nobody waits for.
    (void)reader.read_at_async(0, bytes, sizeof bytes);
}

TEST(calls_of_another_thread_are_cancelled) {
    Writer writer = bucket().writer("hold-part", {{"part_size", "5MiB"}});
    std::atomic<bool> is_writing{false};
    std::thread other([&] {
        while (!is_writing) std::this_thread::yield();
        writer.cancel();
    });
    const std::string bytes = content(MIB);
    try {
        for (;;) {
            is_writing = true;
            writer.write(bytes);
        }
    } catch (const Error &error) {
        check_kind(Kind::cancelled, error, __FILE__, __LINE__, "write");
    }
    other.join();
    THROWS(cancelled, std::move(writer).finish());
    CHECK(!bucket().find("hold-part"));
}

// Is destroyed when its thread ends, after the values that the library has on the thread, because it was made before them.
struct AtTheEnd {
    const Store *store = nullptr;
    std::optional<Writer> writer;
    ~AtTheEnd() {
        if (store == nullptr) return;
        const std::string bytes = content(MIB);
        Writer late = store->writer("late");
        const std::size_t taken = late.write_some(bytes.data(), 1);
        late.write(std::string_view(bytes).substr(taken));
        std::move(late).finish();
        char some[2];
        CHECK(store->get("late") == bytes && store->reader("late").read_at_async(1, some, 2).get() == 2);
        writer->write(bytes);
    }
};
static thread_local AtTheEnd at_the_end;

TEST(a_thread_that_ends_makes_calls) {
    const Store store = bucket();
    std::thread([&] {
        at_the_end.store = &store;
        at_the_end.writer = store.writer("discarded");
    }).join();
    CHECK(store.head("late").size() == MIB && !store.find("discarded"));
}

TEST(a_finish_that_waits_is_cancelled) {
    Writer writer = bucket().writer("hold-put");
    writer.write("1");
    const std::uint64_t before = engine().progress().requests;
    std::thread other([&] { THROWS(cancelled, std::move(writer).finish()); });
    while (engine().progress().requests == before) std::this_thread::yield();
    writer.cancel();
    other.join();
    THROWS(cancelled, writer.write("2"));
}

TEST(a_size_that_is_known_saves_the_head) {
    const Store store = bucket();
    const std::string bytes = content(MIB);
    store.put("a", bytes);
    const std::uint64_t before = engine().progress().requests;
    Reader reader = store.reader("a", {{"random", "true"}, {"size", std::to_string(MIB)}});
    CHECK(reader.size() == MIB && reader.object().size() == MIB && reader.object().key() == "a");
    CHECK(engine().progress().requests == before);
    std::string read(100, '\0');
    std::vector<std::future<std::size_t>> futures;
    std::vector<std::string> parts(8, std::string(100, '\0'));
    for (std::size_t at = 0; at < parts.size(); ++at) futures.push_back(reader.read_at_async(at * 1000, &parts[at][0], 100));
    for (std::size_t at = 0; at < parts.size(); ++at)
        CHECK(futures[at].get() == 100 && parts[at] == bytes.substr(at * 1000, 100));
    reader.read_ranges({{7, 100, &read[0]}});
    CHECK(read == bytes.substr(7, 100) && engine().progress().requests == before + 9);
    // The first response said which object it is.
    std::string other = bytes;
    other[0] ^= 1;
    store.put("a", other);
    THROWS(replaced, reader.read_at(0, &read[0], 100));
    THROWS(replaced, reader.read_ranges({{0, 100, &read[0]}}));
    THROWS(replaced, reader.read(&read[0], 100));
    for (const char *wrong : {"10", "2000000"}) {
        Reader lied_to = store.reader("a", {{"random", "true"}, {"size", wrong}});
        THROWS(replaced, lied_to.read_at(0, &read[0], 5));
        THROWS(replaced, lied_to.read_ranges({{0, 5, &read[0]}}));
        THROWS(replaced, lied_to.read(&read[0], 5));
    }
    Reader in_order = store.reader("a", {{"random", "true"}, {"size", std::to_string(MIB)}});
    CHECK(in_order.read(&read[0], 100) > 0 && read[0] == other[0]);
    THROWS(invalid_input, store.reader("a", {{"size", "10"}}));
    THROWS(not_found, store.reader("none", {{"random", "true"}, {"size", "10"}}).read_at(0, &read[0], 5));
}

TEST(streams) {
    const Store stores[] = {bucket(), directory(), memory("streams")};
    const std::string bytes = content(6 * MIB);
    for (const Store &store : stores) {
        tidegate::ostream out(store, "lines");
        out << "first " << 1 << '\n' << std::flush;
        CHECK(out.good() && out.tellp() == 8);
        out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        for (int at = 0; at < 100000; ++at) out.put('x');
        CHECK(!store.find("lines"));
        CHECK(out.finish().size() == 8 + bytes.size() + 100000);
        // There is nothing to flush, and the stream is as good as it was.
        CHECK(out << std::flush);
        // Few bytes, which would fit into a buffer, are not lost silently.
        CHECK(!(out << "more") && out.bad());
        THROWS(closed, std::rethrow_exception(out.failure()));
        out.clear();
        CHECK(!out.put('x') && out.bad());
        out.clear();
        CHECK(!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())) && out.bad());
        THROWS(closed, out.finish());
        CHECK(store.head("lines").size() == 8 + bytes.size() + 100000);

        tidegate::istream in(store, "lines");
        std::string line;
        CHECK(std::getline(in, line) && line == "first 1");
        std::string rest(bytes.size(), '\0');
        CHECK(in.read(&rest[0], static_cast<std::streamsize>(rest.size())) && rest == bytes);
        std::ostringstream end;
        end << in.rdbuf();
        CHECK(end.str() == std::string(100000, 'x'));
        CHECK(in.get() == EOF && in.eof() && !in.bad() && in.failure() == nullptr);

        tidegate::istream empty(store.put("empty", "").size() == 0 ? store : memory("none"), "empty");
        CHECK(empty.get() == EOF && empty.eof() && !empty.bad());
        { tidegate::ostream discarded(store, "discarded"); discarded << "bytes" << std::flush; }
        CHECK(!store.find("discarded"));
        tidegate::ostream nothing(store, "nothing");
        CHECK(nothing.finish().size() == 0);
    }
}

TEST(a_stream_that_fails_publishes_nothing) {
    const Store store = bucket();
    const std::string bytes = content(MIB);
    tidegate::ostream out(store, "refused", {{"part_size", "5MiB"}});
    for (int at = 0; at < 200 && out; ++at) out << bytes;
    CHECK(out.bad());
    out.clear();
    CHECK(!(out << "more") && out.bad());
    out.clear();
    const Error cause = THROWS(permission_denied, out.finish());
    CHECK(cause.url() == setting("BUCKET") + "/refused");
    // It throws, where that is wanted: not ios_base::failure, but the cause.
    tidegate::ostream throwing(store, "refused", {{"part_size", "5MiB"}});
    throwing.exceptions(std::ios::badbit);
    THROWS(permission_denied, [&] {
        for (int at = 0; at < 200; ++at) throwing << bytes;
    }());
    THROWS(permission_denied, throwing.finish());
    // A failure of finish() too.
    tidegate::ostream late(store, "refused");
    late.exceptions(std::ios::badbit);
    late << "few bytes";
    THROWS(permission_denied, late.finish());
    CHECK(late.bad());
    THROWS(permission_denied, late.finish());
    // A source that fails.
    tidegate::ostream copy(store, "copy");
    struct Broken : std::streambuf {
        int_type underflow() override { throw std::runtime_error("broken"); }
    } broken;
    copy << "some" << &broken;
    CHECK(copy.fail());
    THROWS(source, copy.finish());
    CHECK(!store.find("refused") && !store.find("copy"));
}

TEST(a_stream_tells_an_error_from_the_end) {
    const Store store = bucket();
    store.put("corrupt", "1234567890");
    tidegate::istream in(store, "corrupt");
    std::string all;
    char byte;
    while (in.get(byte)) all += byte;
    CHECK(in.bad() && all.size() < 10);
    THROWS(integrity, std::rethrow_exception(in.failure()));
    in.clear();
    CHECK(!in.get(byte) && in.bad());
    tidegate::istream throwing(store, "corrupt");
    throwing.exceptions(std::ios::badbit);
    THROWS(integrity, [&] {
        while (throwing.get(byte)) {
        }
    }());
}

TEST(journals) {
    const std::string bytes = content(300000);
    const Engine journaled = Engine::shared({{"memory", "64MiB"}, {"journal", setting("DIRECTORY") + "/journals"}});
    const Store store = journaled.open("file://" + setting("DIRECTORY") + "/objects");
    {
        Writer writer = store.writer("resumed", {{"strategy", "journal"}});
        writer.write(bytes);
        CHECK(writer.sync() == bytes.size());
        const Recovery busy = journaled.recover();
        CHECK(busy.size() == 1 && !busy.problem(0).empty());
    }
    const auto ended = std::chrono::seconds(30);
    journaled.wait_for_aborts(ended);
    const Recovery left = journaled.recover();
    CHECK(left.size() == 1 && left.problem(0).empty() && left.length(0) == bytes.size() && !left.is_finished(0));
    CHECK(!left.id(0).empty() && left.url(0).find("resumed") != std::string_view::npos);
    auto resumed = left.resume(0, store);
    Writer writer = std::get<Writer>(std::move(resumed));
    CHECK(writer.position() == bytes.size());
    writer.write("end");
    std::move(writer).finish();
    CHECK(store.get("resumed") == bytes + "end");
    store.writer("aborted", {{"strategy", "journal"}}).write(bytes);
    journaled.wait_for_aborts(ended);
    CHECK(!journaled.recover().abort(0, store) && journaled.recover().size() == 0 && !store.find("aborted"));
    store.writer("forgotten", {{"strategy", "journal"}}).write(bytes);
    journaled.wait_for_aborts(ended);
    journaled.recover().forget(0);
    CHECK(journaled.recover().size() == 0);
    Writer other = store.writer("not");
    THROWS(unsupported, other.sync());
    THROWS(invalid_input, journaled.wait_for_aborts(std::chrono::milliseconds(-1)));
}

#if defined(__cpp_lib_span)
TEST(spans) {
    const Store store = memory("spans");
    const std::string bytes = content(1000);
    Writer writer = store.writer("a");
    writer.write(std::as_bytes(std::span(bytes)));
    writer.write(std::as_bytes(std::span(bytes)).first(10));
    std::move(writer).finish();
    std::vector<std::byte> read(10);
    Reader reader = store.reader("a");
    CHECK(reader.read(std::span(read)) == 10 && std::memcmp(read.data(), bytes.data(), 10) == 0);
    CHECK(reader.read_at(5, std::span(read)) == 10 && std::memcmp(read.data(), bytes.data() + 5, 10) == 0);
    CHECK(reader.read_at_async(7, std::span(read)).get() == 10 && std::memcmp(read.data(), bytes.data() + 7, 10) == 0);
    const Range range[] = {{1000, 10, read.data()}};
    reader.read_ranges(std::span<const Range>(range));
    CHECK(std::memcmp(read.data(), bytes.data(), 10) == 0);
}
#endif

#if defined(__cpp_lib_expected)
TEST(expected) {
    const Store store = bucket();
    CHECK(store.try_put("a", "1234"));
    CHECK(store.try_get("a").value() == "1234" && store.try_head("a")->size() == 4);
    CHECK(store.try_get("none").error().kind() == Kind::not_found);
    CHECK(Engine::try_shared({{"memory", "much"}}).error().kind() == Kind::invalid_input);
    CHECK(engine().try_open("s4://bucket").error().kind() == Kind::invalid_input);
    Expected<Writer> writer = store.try_writer("b");
    CHECK(writer && writer->try_write("12") && writer->try_write("34", 2) && std::move(*writer).try_finish());
    CHECK(writer->try_write("5").error().kind() == Kind::closed);
    Writer prepared = store.writer("c");
    prepared.write("1");
    const Expected<Pending> pending = std::move(prepared).try_prepare();
    CHECK(pending && store.try_commit(*pending)->size() == 1);
    Expected<Reader> reader = store.try_reader("b");
    char bytes[4];
    CHECK(reader && reader->try_read(bytes, 2) == 2U && reader->try_read_at(2, bytes, 2) == 2U);
    CHECK(reader->try_read_ranges({{0, 4, bytes}}) && std::memcmp(bytes, "1234", 4) == 0);
    CHECK(store.try_writer("refused")->try_write("1") && store.try_put("refused", "1").error().kind() == Kind::permission_denied);
    CHECK(store.try_remove("a") && !store.find("a"));
}
#endif

// Is destroyed after main has returned.
struct Late {
    std::optional<Store> store;
    std::optional<Writer> writer;
    ~Late() {
        if (!store) return;
        writer->write("late");
        std::move(*writer).finish();
        CHECK(store->get("late") == "late" && engine().memory().total == 64 * MIB);
        store->remove("late");
        write_text("late", "done");
    }
};
static Late late;

// Steps of tests that take several processes.
TEST(step_static_destructors) {
    late.store = bucket();
    late.writer = late.store->writer("late");
}

TEST(step_prepare) {
    Writer writer = bucket().writer("prepared");
    writer.write(content(13 * MIB));
    write_text("pending", std::move(writer).prepare().to_json());
    CHECK(!bucket().find("prepared"));
}

TEST(step_commit) {
    CHECK(bucket().commit(Pending::from_json(read_text("pending"))).size() == 13 * MIB);
    CHECK(bucket().get("prepared") == content(13 * MIB));
}

TEST(step_persist) {
    Writer writer = bucket().writer("resumed");
    const std::string bytes = content(13 * MIB);
    writer.write(std::string_view(bytes).substr(0, 7 * MIB + 5));
    write_text("point", writer.persist().to_json());
    CHECK(writer.warning().empty());
    writer.write(bytes);
}

TEST(step_resume) {
    const std::string bytes = content(13 * MIB);
    CHECK(!bucket().find("resumed"));
    Writer writer = bucket().resume(Resumable::from_json(read_text("point")));
    CHECK(writer.position() == 7 * MIB + 5);
    writer.write(std::string_view(bytes).substr(writer.position()));
    std::move(writer).finish();
    CHECK(bucket().get("resumed") == bytes);
}

int main(int count, char **arguments) { return run_test(count, arguments); }
