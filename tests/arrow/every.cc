// What Python cannot ask of the file system: each test is a function by its name, on a store in memory, or on the one that
// STORE names.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <thread>

#include <arrow/buffer.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/buffered.h>
#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <arrow/util/future.h>
#include <arrow/util/key_value_metadata.h>
#include <tidegate_arrow.hpp>

using arrow::Status;
using arrow::fs::FileType;
using tidegate::arrowfs::TideFileSystem;

#define EXPECT(condition) \
    if (!(condition)) return Status::UnknownError(__LINE__, ": ", #condition)

namespace {

using Files = std::shared_ptr<TideFileSystem>;

// Bytes of Arrow's pool that differ from place to place.
std::shared_ptr<arrow::Buffer> Bytes(std::int64_t size) {
    std::shared_ptr<arrow::Buffer> bytes = *arrow::AllocateBuffer(size);
    for (std::int64_t at = 0; at < size; ++at) bytes->mutable_data()[at] = static_cast<std::uint8_t>(at * 7 + at / 251);
    return bytes;
}

Status Put(const Files &files, const std::string &path, const std::shared_ptr<arrow::Buffer> &bytes) {
    ARROW_ASSIGN_OR_RAISE(auto stream, files->OpenOutputStream(path));
    ARROW_RETURN_NOT_OK(stream->Write(bytes));
    return stream->Close();
}

arrow::Result<bool> IsThere(const Files &files, const std::string &path) {
    ARROW_ASSIGN_OR_RAISE(auto info, files->GetFileInfo(path));
    return info.type() == FileType::File;
}

Status only_close_publishes(const Files &files) {
    const auto bytes = Bytes(20 << 20);
    {
        ARROW_ASSIGN_OR_RAISE(auto stream, files->OpenOutputStream("aborted"));
        ARROW_RETURN_NOT_OK(stream->Write(bytes));
        ARROW_RETURN_NOT_OK(stream->Abort());
        EXPECT(stream->closed());
        EXPECT(stream->Close().ok());
        EXPECT(stream->Write("x", 1).IsInvalid());
    }
    {
        ARROW_ASSIGN_OR_RAISE(auto stream, files->OpenOutputStream("destroyed"));
        ARROW_RETURN_NOT_OK(stream->Write(bytes));
    }
    ARROW_ASSIGN_OR_RAISE(auto stream, files->OpenOutputStream("closed"));
    ARROW_RETURN_NOT_OK(stream->Write(bytes));
    ARROW_ASSIGN_OR_RAISE(const bool before, IsThere(files, "closed"));
    EXPECT(!before);
    ARROW_RETURN_NOT_OK(stream->Close());
    EXPECT(stream->Close().ok());
    for (const char *path : {"aborted", "destroyed"}) {
        ARROW_ASSIGN_OR_RAISE(const bool is_there, IsThere(files, path));
        EXPECT(!is_there);
    }
    ARROW_ASSIGN_OR_RAISE(const bool is_there, IsThere(files, "closed"));
    EXPECT(is_there);
    return files->WaitForAborts(std::chrono::seconds(10));
}

Status a_close_after_a_failed_write_fails_again(const Files &) {
    ARROW_ASSIGN_OR_RAISE(auto files, TideFileSystem::Make("memory://failed", {{}, {}, {{"exact_size", "10"}}}));
    ARROW_ASSIGN_OR_RAISE(auto stream, files->OpenOutputStream("a"));
    EXPECT(!stream->Write(Bytes(1 << 20)).ok());
    EXPECT(!stream->Write("x", 1).ok());
    const Status first = stream->Close(), second = stream->Close();
    EXPECT(!first.ok() && first.message() == second.message());
    EXPECT(first.message().find("memory://failed/a") != std::string::npos);
    ARROW_ASSIGN_OR_RAISE(stream, files->OpenOutputStream("a"));
    EXPECT(!stream->Write(Bytes(1 << 20)).ok());
    EXPECT(stream->Abort().ok());
    ARROW_ASSIGN_OR_RAISE(const bool is_there, IsThere(files, "a"));
    EXPECT(!is_there);
    return Status::OK();
}

Status an_exception_publishes_nothing(const Files &files) {
    try {
        const auto stream = *files->OpenOutputStream("torn");
        // Its destructor closes the stream.
        const auto buffered = *arrow::io::BufferedOutputStream::Create(1 << 20, arrow::default_memory_pool(), stream);
        ARROW_RETURN_NOT_OK(buffered->Write("half of it", 10));
        throw std::runtime_error("the other half failed");
    } catch (const std::runtime_error &) {
        // While one is handled, none unwinds: a file that is closed here is whole.
        ARROW_RETURN_NOT_OK(Put(files, "whole", Bytes(10)));
    }
    ARROW_ASSIGN_OR_RAISE(const bool is_torn_there, IsThere(files, "torn"));
    ARROW_ASSIGN_OR_RAISE(const bool is_whole_there, IsThere(files, "whole"));
    EXPECT(!is_torn_there && is_whole_there);
    return files->WaitForAborts(std::chrono::seconds(10));
}

Status a_failed_close_fails_again(const Files &) {
    ARROW_ASSIGN_OR_RAISE(auto files, TideFileSystem::Make("memory://short", {{}, {}, {{"exact_size", "10"}}}));
    ARROW_ASSIGN_OR_RAISE(auto stream, files->OpenOutputStream("a"));
    ARROW_RETURN_NOT_OK(stream->Write("x", 1));
    EXPECT(!stream->Close().ok());
    EXPECT(!stream->Close().ok());
    ARROW_ASSIGN_OR_RAISE(const bool is_there, IsThere(files, "a"));
    EXPECT(!is_there);
    return Status::OK();
}

Status memory_that_is_not_arrows_is_copied(const Files &files) {
    ARROW_ASSIGN_OR_RAISE(auto stream, files->OpenOutputStream("copied"));
    const auto kept = Bytes(3 << 20);
    {
        std::string mine(reinterpret_cast<const char *>(kept->data()), static_cast<std::size_t>(kept->size()));
        ARROW_RETURN_NOT_OK(stream->Write(arrow::Buffer::Wrap(mine.data(), mine.size())));
        std::memset(mine.data(), 0, mine.size());
    }
    ARROW_RETURN_NOT_OK(stream->Close());
    ARROW_ASSIGN_OR_RAISE(auto file, files->OpenInputFile("copied"));
    ARROW_ASSIGN_OR_RAISE(auto read, file->ReadAt(0, 4 << 20));
    EXPECT(read->Equals(*kept));
    return Status::OK();
}

Status memory_of_arrow_is_handed_over(const Files &files) {
    ARROW_ASSIGN_OR_RAISE(auto stream, files->OpenOutputStream("handed"));
    const auto arrows = Bytes(1 << 20), small = Bytes(1000);
    const auto others = std::make_shared<arrow::Buffer>(arrows->data(), arrows->size());
    for (const auto &bytes : {arrows, small, others}) ARROW_RETURN_NOT_OK(stream->Write(bytes));
    // The library has it too, until the store has the bytes; the others it has copied.
    EXPECT(arrows.use_count() == 2 && small.use_count() == 1 && others.use_count() == 1);
    return stream->Close();
}

Status every_read_of_ranges_is_right(const Files &files) {
    for (const std::int64_t size : {std::int64_t{1000}, std::int64_t{300} << 10, std::int64_t{5} << 20}) {
        const auto bytes = Bytes(size);
        ARROW_RETURN_NOT_OK(Put(files, "ranges", bytes));
        const std::vector<arrow::io::ReadRange> ranges = {
            {size / 2, size / 5}, {0, 10}, {size - 5, 5}, {size / 2 + 1, 7}, {0, 0}, {size, 0}, {size - 5, 500}, {20, 900}};
        for (const bool is_ahead : {false, true}) {
            ARROW_ASSIGN_OR_RAISE(auto file, files->OpenInputFile("ranges"));
            if (is_ahead) ARROW_RETURN_NOT_OK(file->WillNeed(ranges));
            auto many = file->ReadManyAsync(ranges);
            for (std::size_t at = 0; at < ranges.size(); ++at) {
                const std::int64_t offset = ranges[at].offset, length = std::min(ranges[at].length, size - offset);
                const auto wanted = arrow::SliceBuffer(bytes, offset, length);
                ARROW_ASSIGN_OR_RAISE(auto one, many[at].result());
                const auto future = file->ReadAsync(offset, ranges[at].length);
                ARROW_ASSIGN_OR_RAISE(auto async, future.result());
                ARROW_ASSIGN_OR_RAISE(auto blocking, file->ReadAt(offset, ranges[at].length));
                std::string into(static_cast<std::size_t>(length), '?');
                ARROW_ASSIGN_OR_RAISE(auto read, file->ReadAt(offset, ranges[at].length, into.data()));
                EXPECT(read == length && one->Equals(*wanted) && async->Equals(*wanted) && blocking->Equals(*wanted));
                EXPECT(std::memcmp(into.data(), wanted->data(), into.size()) == 0);
            }
            EXPECT(file->ReadAt(size - 5, 500, /*allow_short_read=*/false).status().IsIOError());
            EXPECT(file->ReadAsync(file->io_context(), size - 5, 500, false).status().IsIOError());
            EXPECT(file->ReadAt(size + 1, 1).status().IsIOError());
            EXPECT(file->ReadAt(-1, 1).status().IsInvalid());
            ARROW_RETURN_NOT_OK(file->Close());
            EXPECT(file->ReadAt(0, 1).status().IsInvalid());
            EXPECT(file->WillNeed(ranges).IsInvalid());
        }
    }
    return Status::OK();
}

Status a_file_that_is_replaced_is_never_mixed(const Files &files) {
    ARROW_RETURN_NOT_OK(Put(files, "replaced", Bytes(1 << 20)));
    ARROW_ASSIGN_OR_RAISE(auto file, files->OpenInputFile("replaced"));
    ARROW_RETURN_NOT_OK(Put(files, "replaced", arrow::SliceBuffer(Bytes((1 << 20) + 1), 1)));
    ARROW_RETURN_NOT_OK(file->WillNeed({{1000, 1000}}));
    const Status ahead = file->ReadAt(1000, 1000).status();
    EXPECT(ahead.IsIOError() && ahead.message().find("replaced") != std::string::npos);
    return Status::OK();
}

Status more_is_needed_than_is_fetched_ahead(const Files &files) {
    const std::int64_t size = 40 << 20;
    const auto bytes = Bytes(size);
    ARROW_RETURN_NOT_OK(Put(files, "large", bytes));
    ARROW_ASSIGN_OR_RAISE(auto file, files->OpenInputFile("large"));
    // Four times over: more than is fetched ahead of what is taken.
    for (int time = 0; time < 4; ++time) {
        std::vector<arrow::io::ReadRange> ranges;
        for (std::int64_t at = 0; at < size; at += 5 << 20) ranges.push_back({at, 5 << 20});
        ARROW_RETURN_NOT_OK(file->WillNeed(ranges));
        std::atomic<int> wrong = 0;
        std::vector<std::thread> threads;
        for (const auto &range : ranges)
            threads.emplace_back([&, range] {
                const auto read = file->ReadAt(range.offset, range.length);
                if (!read.ok() || !(*read)->Equals(*arrow::SliceBuffer(bytes, range.offset, range.length))) ++wrong;
            });
        for (std::thread &thread : threads) thread.join();
        EXPECT(wrong == 0);
    }
    return Status::OK();
}

Status a_description_of_nothing_is_refused(const Files &files) {
    ARROW_RETURN_NOT_OK(Put(files, "known", Bytes(1000)));
    ARROW_ASSIGN_OR_RAISE(auto info, files->GetFileInfo("known"));
    ARROW_ASSIGN_OR_RAISE(auto file, files->OpenInputFile(info));
    ARROW_ASSIGN_OR_RAISE(auto read, file->ReadAt(0, 2000));
    EXPECT(read->Equals(*Bytes(1000)));
    info.set_type(FileType::NotFound);
    EXPECT(files->OpenInputFile(info).status().IsIOError());
    return Status::OK();
}

Status many_paths_are_looked_up_in_order(const Files &files) {
    ARROW_RETURN_NOT_OK(Put(files, "many/599", Bytes(7)));
    std::vector<std::string> paths;
    for (int number = 0; number < 600; ++number) paths.push_back("many/" + std::to_string(number));
    ARROW_ASSIGN_OR_RAISE(const auto infos, files->GetFileInfo(paths));
    EXPECT(infos.size() == 600);
    for (std::size_t at = 0; at < 600; ++at) {
        EXPECT(infos[at].path() == paths[at]);
        EXPECT(infos[at].type() == (at == 599 ? FileType::File : FileType::NotFound));
    }
    EXPECT(infos[599].size() == 7);
    return Status::OK();
}

Status a_selector_has_a_depth(const Files &files) {
    ARROW_RETURN_NOT_OK(Put(files, "deep/a/b/c", Bytes(1)));
    arrow::fs::FileSelector select;
    select.base_dir = "deep";
    select.recursive = true;
    for (const auto &[most, count] : std::map<int, std::size_t>{{0, 1}, {1, 2}, {2, 3}, {INT32_MAX, 3}}) {
        select.max_recursion = most;
        ARROW_ASSIGN_OR_RAISE(auto found, files->GetFileInfo(select));
        EXPECT(found.size() == count);
    }
    return Status::OK();
}

Status what_cannot_be_is_refused(const Files &files) {
    EXPECT(files->OpenAppendStream("a", nullptr).status().IsNotImplemented());
    EXPECT(TideFileSystem::Make("/tmp").status().IsNotImplemented());
    EXPECT(TideFileSystem::Make("file:///tmp").status().IsNotImplemented());
    EXPECT(TideFileSystem::Make("memory://a", {{}, {}, {{"regio", "b"}}}).status().IsInvalid());
    EXPECT(files->DeleteDirContents("/").IsInvalid());
    ARROW_ASSIGN_OR_RAISE(auto path, files->PathFromUri(files->url() + "/a/b"));
    EXPECT(path == "a/b");
    EXPECT(files->PathFromUri(files->url() + "other/a").status().IsInvalid());
    std::string out;
    ARROW_ASSIGN_OR_RAISE(auto found, arrow::fs::FileSystemFromUri("tidegatememory://name/a/b", &out));
    EXPECT(out == "a/b" && found->type_name() == "subtree");
    return Status::OK();
}

const std::map<std::string, std::function<Status(const Files &)>> kTests = {
    {"only_close_publishes", only_close_publishes},
    {"a_close_after_a_failed_write_fails_again", a_close_after_a_failed_write_fails_again},
    {"a_failed_close_fails_again", a_failed_close_fails_again},
    {"an_exception_publishes_nothing", an_exception_publishes_nothing},
    {"memory_that_is_not_arrows_is_copied", memory_that_is_not_arrows_is_copied},
    {"memory_of_arrow_is_handed_over", memory_of_arrow_is_handed_over},
    {"every_read_of_ranges_is_right", every_read_of_ranges_is_right},
    {"a_file_that_is_replaced_is_never_mixed", a_file_that_is_replaced_is_never_mixed},
    {"more_is_needed_than_is_fetched_ahead", more_is_needed_than_is_fetched_ahead},
    {"a_description_of_nothing_is_refused", a_description_of_nothing_is_refused},
    {"many_paths_are_looked_up_in_order", many_paths_are_looked_up_in_order},
    {"a_selector_has_a_depth", a_selector_has_a_depth},
    {"what_cannot_be_is_refused", what_cannot_be_is_refused},
};

}  // namespace

int main(int count, char **arguments) {
    if (count != 2) {
        for (const auto &test : kTests) std::cout << test.first << '\n';
        return 0;
    }
    tidegate::arrowfs::TideOptions options;
    const char *store = std::getenv("STORE"), *endpoint = std::getenv("AWS_ENDPOINT_URL");
    if (endpoint != nullptr) options.store.emplace_back("endpoint_url", endpoint);
    const auto files = TideFileSystem::Make(store == nullptr ? "memory://tests" : store, std::move(options));
    const Status status = files.ok() ? kTests.at(arguments[1])(*files) : files.status();
    if (!status.ok()) std::cerr << status.ToString() << '\n';
    return status.ok() ? 0 : 1;
}
