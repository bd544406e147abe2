// Tests of tidegate_velox.hpp, against velox_interface.h.
#include "tidegate_velox.hpp"

#include <atomic>

#include "check.hpp"

using namespace tidegate::velox;
using tidegate::Error;
using tidegate::Kind;
using namespace facebook::velox;
using filesystems::DirectoryOptions;
using filesystems::FileOptions;
using filesystems::FileSystem;
using filesystems::getFileSystem;

using Values = std::unordered_map<std::string, std::string>;

// The configuration for the test's bucket.
static std::shared_ptr<const config::ConfigBase> configured(const Values &more = {}) {
    Values values{{"tidegate.engine.memory", "64MiB"},
                  {"tidegate.engine.attempts", "2"},
                  {"tidegate.s3.endpoint_url", setting("ENDPOINT")},
                  {"tidegate.s3.access_key", "tidegate"},
                  {"tidegate.s3.secret_key", "tidegate"},
                  {"tidegate.s3.region", "us-east-1"},
                  {"hive.s3.endpoint", "http://another.example"}};
    for (const auto &[name, value] : more) values[name] = value;
    return std::make_shared<const config::ConfigBase>(values);
}

static std::shared_ptr<FileSystem> files(const Values &more = {}) {
    if (filesystems::registered().empty()) registerTidegate({"s3:", "s3a:", "gs:", "abfs:", "memory:"});
    return getFileSystem("s3://", configured(more));
}

static std::string path(const char *key) { return setting("BUCKET") + "/" + key; }

static std::string read_all(const std::string &of) {
    const auto file = files()->openFileForRead(of);
    return file->pread(0, file->size());
}

static void write_all(const std::string &to, std::string_view bytes) {
    const auto file = files()->openFileForWrite(to);
    file->append(bytes);
    file->close();
}

// Buffers that count how often they are freed.
static std::atomic<int> freed{0};

static std::unique_ptr<folly::IOBuf> counted(std::string bytes) {
    auto *owned = new std::string(std::move(bytes));
    const auto free = [](void *, void *user) {
        delete static_cast<std::string *>(user);
        ++freed;
    };
    return folly::IOBuf::takeOwnership(owned->data(), owned->size(), free, owned);
}

TEST(appends_of_text_and_chains) {
    const std::string bytes = content(3 * MIB);
    const auto file = files()->openFileForWrite(path("a"));
    CHECK(file->getName() == path("a") && file->size() == 0);
    file->append("begin ");
    auto chain = counted(bytes);
    chain->appendToChain(folly::IOBuf::copyBuffer("small ", 6));
    chain->appendToChain(std::make_unique<folly::IOBuf>());
    chain->appendToChain(counted(bytes));
    {
        // Memory that the buffer does not own ends with this block.
        std::string wrapped(200000, 'w');
        chain->appendToChain(folly::IOBuf::wrapBuffer(wrapped.data(), wrapped.size()));
        file->append(std::move(chain));
        wrapped.assign(200000, '!');
    }
    file->append(std::unique_ptr<folly::IOBuf>());
    file->flush();
    const std::string expected = "begin " + bytes + "small " + bytes + std::string(200000, 'w');
    CHECK(file->size() == expected.size() && !files()->exists(path("a")));
    file->close();
    CHECK(file->size() == expected.size() && freed == 2 && read_all(path("a")) == expected);
    // A second close does nothing, and no byte is taken after the first.
    file->close();
    THROWS(closed, file->append("more"));
    CHECK(read_all(path("a")) == expected);
}

TEST(buffers_of_a_chain_are_not_copied) {
    freed = 0;
    const auto file = files()->openFileForWrite(path("hold-part"), {.values = {{"part_size", "5MiB"}}});
    // The server answers no part, so the requests keep the buffers. A buffer that was copied would be freed by now.
    for (int at = 0; at < 6; ++at) file->append(counted(content(MIB)));
    CHECK(freed == 0 && file->size() == 6 * MIB);
}

TEST(a_close_after_a_failed_append_throws_and_publishes_nothing) {
    const std::string bytes = content(MIB);
    freed = 0;
    int appended = 0;
    {
        const auto file = files()->openFileForWrite(path("refused"), {.values = {{"part_size", "5MiB"}}});
        const Error first = THROWS(permission_denied, [&] {
            for (; appended < 200; ++appended) file->append(counted(bytes));
        }());
        // Each later call gives the same failure.
        CHECK(std::string(THROWS(permission_denied, file->close()).what()) == first.what());
        THROWS(permission_denied, file->append("more"));
        THROWS(permission_denied, file->close());
        CHECK(file->size() == appended * MIB);
    }
    const auto late = files()->openFileForWrite(path("refused"));
    late->append("few bytes");
    THROWS(permission_denied, late->close());
    THROWS(permission_denied, late->close());
    CHECK(!files()->exists(path("refused")));
    ::engine().wait_for_aborts(std::chrono::seconds(30));
    CHECK(freed == appended + 1);
}

TEST(the_destruction_of_an_aborted_task_publishes_nothing) {
    write_all(path("before"), "before");
    for (const char *key : {"aborted", "before"}) {
        FileOptions options;
        options.shouldThrowOnFileAlreadyExists = false;
        const auto file = files()->openFileForWrite(path(key), options);
        file->append(content(6 * MIB));
        file->append(counted(content(MIB)));
    }
    try {
        const auto file = files()->openFileForWrite(path("thrown"));
        file->append("bytes");
        throw std::runtime_error("the task was aborted");
    } catch (const std::runtime_error &) {
    }
    ::engine().wait_for_aborts(std::chrono::seconds(30));
    CHECK(!files()->exists(path("aborted")) && !files()->exists(path("thrown")) && read_all(path("before")) == "before");
}

TEST(a_flush_syncs_a_journal) {
    const std::string journals = setting("DIRECTORY") + "/journals";
    const auto system = files({{"tidegate.engine.journal", journals}});
    const auto file = system->openFileForWrite(path("journaled"), {.values = {{"strategy", "journal"}}});
    file->append(content(300000));
    file->flush();
    const auto same = tidegate::Engine::shared({{"memory", "64MiB"}, {"attempts", "2"}, {"journal", journals}});
    CHECK(same.recover().size() == 1 && same.progress().journaled == 300000);
    file->append("end");
    file->close();
    CHECK(read_all(path("journaled")) == content(300000) + "end" && same.recover().size() == 0);
    THROWS(closed, file->flush());
}

TEST(reads) {
    const std::string bytes = content(5 * MIB);
    write_all(path("a"), bytes);
    const auto file = files()->openFileForRead(path("a"));
    CHECK(file->size() == bytes.size() && file->getName() == path("a") && file->memoryUsage() > 0);
    CHECK(file->shouldCoalesce() && file->hasPreadvAsync() && file->getNaturalReadSize() == 8 * MIB);
    std::string buffer(1000, '\0');
    CHECK(file->pread(7, 1000, buffer.data()) == bytes.substr(7, 1000) && file->pread(0, 0).empty());
    CHECK(file->pread(bytes.size() - 5, 5) == bytes.substr(bytes.size() - 5) && file->bytesRead() == 1005);
    THROWS(invalid_input, file->pread(bytes.size() - 5, 6));
    THROWS(invalid_input, file->pread(0, UINT64_MAX));
    THROWS(invalid_input, file->pread(UINT64_MAX, 1, buffer.data()));
    // Buffers without memory are skipped.
    file->resetBytesRead();
    std::string first(100, '\0'), second(50, '\0');
    const std::vector<folly::Range<char *>> ranges{
        {first.data(), first.size()}, {static_cast<char *>(nullptr), 1000}, {second.data(), second.size()}};
    CHECK(file->preadv(10, ranges) == 1150 && file->bytesRead() == 150);
    CHECK(first == bytes.substr(10, 100) && second == bytes.substr(1110, 50));
    // The end of the object ends them.
    CHECK(file->preadv(bytes.size() - 1120, ranges) == 1120 && second.substr(0, 20) == bytes.substr(bytes.size() - 20));
    CHECK(file->preadv(bytes.size(), ranges) == 0 && file->preadv(UINT64_MAX, ranges) == 0);
    // Regions.
    const std::vector<common::Region> regions{{100, 5000}, {0, 0}, {4 * MIB, 70000}, {102, 10}};
    std::vector<folly::IOBuf> buffers(regions.size());
    const folly::Range<const common::Region *> wanted(regions.data(), regions.size());
    CHECK(file->preadv(wanted, folly::Range<folly::IOBuf *>(buffers.data(), buffers.size())) == 75010);
    for (std::size_t at = 0; at < regions.size(); ++at) {
        const std::string_view found(reinterpret_cast<const char *>(buffers[at].data()), buffers[at].length());
        CHECK(found == std::string_view(bytes).substr(regions[at].offset, regions[at].length));
    }
    THROWS(invalid_input, file->preadv(wanted, folly::Range<folly::IOBuf *>(buffers.data(), 1)));
    const std::vector<common::Region> beyond{{bytes.size(), 1}};
    const folly::Range<const common::Region *> past(beyond.data(), 1);
    THROWS(invalid_input, file->preadv(past, folly::Range<folly::IOBuf *>(buffers.data(), 1)));
    std::string third(10, '\0');
    const std::vector<folly::Range<char *>> places{{third.data(), 10}};
    const std::vector<common::Region> one{{102, 10}};
    const folly::Range<const common::Region *> region(one.data(), 1);
    CHECK(file->preadv(region, folly::Range<const folly::Range<char *> *>(places.data(), 1)) == 10);
    CHECK(third == bytes.substr(102, 10));
    THROWS(invalid_input, file->preadv(wanted, folly::Range<const folly::Range<char *> *>(places.data(), 1)));
    // The file is of one object.
    bucket().put("a", "another");
    THROWS(replaced, file->preadv(0, ranges));
}

TEST(asynchronous_reads) {
    const std::string bytes = content(4 * MIB);
    write_all(path("a"), bytes);
    const auto file = files()->openFileForRead(path("a"));
    std::vector<std::string> parts(32, std::string(1000, '\0'));
    std::vector<folly::SemiFuture<std::uint64_t>> futures;
    for (std::size_t at = 0; at < parts.size(); ++at)
        futures.push_back(file->preadvAsync(
            at * 100000,
            {{parts[at].data(), 500}, {static_cast<char *>(nullptr), 2000}, {parts[at].data() + 500, 500}}));
    for (std::size_t at = 0; at < parts.size(); ++at) {
        CHECK(std::move(futures[at]).get() == 3000);
        CHECK(parts[at] == bytes.substr(at * 100000, 500) + bytes.substr(at * 100000 + 2500, 500));
    }
    CHECK(file->preadvAsync(bytes.size(), {{parts[0].data(), 10}}).get() == 0);
    // A reader that goes ends its reads.
    write_all(path("hold-get"), "12345678");
    auto held = files()->openFileForRead(path("hold-get"));
    auto left = held->preadvAsync(0, {{parts[0].data(), 8}});
    CHECK(!left.isReady());
    held.reset();
    THROWS(cancelled, std::move(left).get());
}

TEST(options_of_files) {
    write_all(path("a"), "first");
    // create_only is what Velox has by default.
    auto file = files()->openFileForWrite(path("a"));
    file->append("second");
    THROWS(already_exists, file->close());
    CHECK(read_all(path("a")) == "first");
    FileOptions options;
    options.shouldThrowOnFileAlreadyExists = false;
    options.properties = Values{{"team", "tide"}};
    options.values = {{"content_type", "text/x-tide"}, {"file-create-config", "cache_control=no-store,part_size=6MiB"}};
    file = files()->openFileForWrite(path("a"), options);
    file->append("third");
    file->close();
    CHECK(read_all(path("a")) == "third");
    const tidegate::Object described = bucket().head("a");
    CHECK(described.text("content_type") == std::optional<std::string_view>("text/x-tide"));
    CHECK(described.text("cache_control") == std::optional<std::string_view>("no-store"));
    options.values = {{"file-create-config", ""}};
    files()->openFileForWrite(path("a"), options)->append("discarded");
    options.values = {{"file-create-config", "zstd"}};
    THROWS(invalid_input, files()->openFileForWrite(path("a"), options));
    options.values = {{"no_such_option", "1"}};
    THROWS(invalid_input, files()->openFileForWrite(path("a"), options));
    THROWS(invalid_input, files()->openFileForRead(path("a"), options));
    FileOptions with_token;
    with_token.tokenProvider = std::make_shared<filesystems::TokenProvider>();
    THROWS(unsupported, files()->openFileForRead(path("a"), with_token));
    THROWS(unsupported, files()->openFileForWrite(path("a"), with_token));
    // The options of all writes.
    const auto typed = files({{"tidegate.write.content_type", "text/x-all"}});
    options.values = {};
    file = typed->openFileForWrite(path("a"), options);
    file->close();
    CHECK(bucket().head("a").text("content_type") == std::optional<std::string_view>("text/x-all"));
}

TEST(a_file_size_saves_the_head) {
    const std::string bytes = content(100000);
    write_all(path("a"), bytes);
    FileOptions options;
    options.fileSize = 100000;
    const std::uint64_t before = ::engine().progress().requests;
    const auto file = files()->openFileForRead(path("a"), options);
    CHECK(file->size() == 100000 && ::engine().progress().requests == before);
    CHECK(file->pread(5, 10) == bytes.substr(5, 10) && ::engine().progress().requests == before + 1);
    options.fileSize = 5;
    THROWS(replaced, files()->openFileForRead(path("a"), options)->pread(0, 5));
    options.fileSize = -1;
    THROWS(invalid_input, files()->openFileForRead(path("a"), options));
}

TEST(a_missing_object_is_an_error_of_velox) {
    for (const bool has_size : {false, true}) {
        FileOptions options;
        if (has_size) options.fileSize = 5;
        try {
            files()->openFileForRead(path("none"), options)->pread(0, 5);
            CHECK(!"it throws");
        } catch (const VeloxRuntimeError &error) {
            CHECK(error.errorCode() == "FILE_NOT_FOUND" && std::string(error.what()).find("none") != std::string::npos);
        }
    }
}

TEST(file_systems) {
    const auto system = files();
    CHECK(system->name() == "Tidegate" && system->extractPath("s3://bucket/a") == "bucket/a");
    // Equal settings share one, and paths of one bucket are one store.
    CHECK(system == files() && system != files({{"tidegate.write.part_size", "8MiB"}}));
    for (const char *key : {"table/a", "table/b/c", "tables"}) write_all(path(key), key);
    CHECK(system->exists(path("table/a")) && !system->exists(path("table")) && !system->exists(path("table/")));
    CHECK(system->isDirectory(path("table")) && system->isDirectory(path("table/b/")) && !system->isDirectory(path("tables")));
    CHECK((system->list(path("table")) == std::vector<std::string>{path("table/a"), path("table/b/c")}));
    CHECK(system->list(setting("BUCKET")).size() == 3);
    CHECK(read_all("s3a" + path("tables").substr(2)) == "tables");
    system->mkdir(path("table"));
    DirectoryOptions options;
    options.failIfExists = true;
    system->mkdir(path("new"), options);
    THROWS(already_exists, system->mkdir(path("table"), options));
    THROWS(already_exists, system->rename(path("tables"), path("table/a")));
    system->rename(path("tables"), path("table/a"), true);
    CHECK(read_all(path("table/a")) == "tables" && !system->exists(path("tables")));
    THROWS(unsupported, system->rename(path("table/a"), "s3://t-another/a"));
    write_all(path("tables"), "stays");
    system->rmdir(path("table"));
    system->remove(path("none"));
    CHECK((system->list(setting("BUCKET")) == std::vector<std::string>{path("tables")}));
    THROWS(invalid_input, system->rmdir(setting("BUCKET") + "/"));
    THROWS(invalid_input, system->exists("s3://"));
    THROWS(invalid_input, system->exists("tables"));
}

TEST(registration) {
    registerTidegate();
    for (const char *known : {"s3://a/b", "gs://a/b", "abfs://a@b.dfs.core.windows.net/c"})
        CHECK(filesystems::isPathSupportedByRegisteredFileSystems(known));
    for (const char *other : {"file:/a", "hdfs://a/b", "/s3:", "memory://a/b", "s3a://a/b"})
        CHECK(!filesystems::isPathSupportedByRegisteredFileSystems(other));
    registerTidegate({"memory:"});
    const auto memory = getFileSystem("memory://a/b", nullptr);
    const auto file = memory->openFileForWrite("memory://velox/a/b");
    file->append("bytes");
    file->close();
    CHECK(memory->openFileForRead("memory://velox/a/b")->pread(0, 5) == "bytes");
    THROWS(unsupported, registerTidegate({"hdfs:"}));
    for (const char *wrong : {"tidegate.memory", "tidegate.sheme.region", "tidegate.engine.no_such_option"})
        THROWS(invalid_input, getFileSystem("s3://a/b", configured({{wrong, "1"}})));
    THROWS(invalid_input, getFileSystem("s3://a/b", configured({{"tidegate.s3.memory", "1"}}))->exists("s3://a/b"));
}

int main(int count, char **arguments) { return run_test(count, arguments); }
