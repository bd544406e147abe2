// Programs whose requests test_reads.py counts: each is a function by its name, on the file `READ` of the store `STORE`. They
// tell of each step, and go on when they are told to.
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <arrow/buffer.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/caching.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/future.h>
#include <tidegate_arrow.hpp>

using arrow::Status;
using arrow::io::ReadRange;

#define EXPECT(condition) \
    if (!(condition)) return Status::UnknownError(__LINE__, ": ", #condition)

namespace {

using Files = std::shared_ptr<tidegate::arrowfs::TideFileSystem>;
using File = std::shared_ptr<arrow::io::RandomAccessFile>;

constexpr std::int64_t kMiB = 1 << 20;

void Step() {
    std::cout << "step" << std::endl;
    std::string line;
    std::getline(std::cin, line);
}

// Ranges that are requests of their own.
std::vector<ReadRange> Ranges(std::int64_t count, std::int64_t size) {
    std::vector<ReadRange> ranges;
    for (std::int64_t at = 0; at < count; ++at) ranges.push_back({at * size, size - kMiB / 4});
    return ranges;
}

Status a_failed_fetch_is_forgotten(const Files &, const File &file) {
    ARROW_RETURN_NOT_OK(file->WillNeed({{kMiB, kMiB}}));
    // It succeeds if the fetch has failed before.
    const Status first = file->ReadAt(kMiB, 10).status();
    EXPECT(first.ok() || first.IsIOError());
    ARROW_ASSIGN_OR_RAISE(auto read, file->ReadAt(kMiB, 10));
    EXPECT(read->size() == 10);
    return Status::OK();
}

Status a_closed_file_downloads_nothing(const Files &, const File &file) {
    ARROW_RETURN_NOT_OK(file->WillNeed(Ranges(4, 8 * kMiB)));
    Step();
    ARROW_RETURN_NOT_OK(file->Close());
    Step();
    return Status::OK();
}

Status a_bound_holds_for_what_was_not_taken(const Files &, const File &file) {
    const auto ranges = Ranges(18, 8 * kMiB);
    ARROW_RETURN_NOT_OK(file->WillNeed(ranges));
    Step();
    for (const ReadRange &range : ranges) ARROW_RETURN_NOT_OK(file->ReadAt(range.offset, range.length));
    Step();
    return Status::OK();
}

Status a_range_beyond_the_bound_is_left_to_the_read(const Files &, const File &file) {
    ARROW_RETURN_NOT_OK(file->WillNeed({{0, 129 * kMiB}}));
    Step();
    return Status::OK();
}

Status a_cache_that_is_not_lazy_reads_each_range_once(const Files &, const File &file) {
    auto options = arrow::io::CacheOptions::Defaults();
    options.lazy = false;
    const auto ranges = Ranges(4, 8 * kMiB);
    arrow::io::internal::ReadRangeCache cache(file, file->io_context(), options);
    ARROW_RETURN_NOT_OK(cache.Cache(ranges));
    for (const ReadRange &range : ranges) ARROW_RETURN_NOT_OK(cache.Read(range));
    return Status::OK();
}

Status a_known_description_saves_the_request(const Files &files, const File &) {
    ARROW_ASSIGN_OR_RAISE(const auto info, files->GetFileInfo(std::getenv("READ")));
    Step();
    ARROW_ASSIGN_OR_RAISE(auto file, files->OpenInputFile(info));
    return file->ReadAt(0, 10).status();
}

Status an_exit_cancels_what_is_needed(const Files &, const File &file) { return file->WillNeed(Ranges(4, 8 * kMiB)); }

Status an_exit_cancels_what_is_read(const Files &, const File &file) {
    // Somebody waits for it when the program exits.
    file->ReadAsync(0, kMiB).AddCallback([](const auto &) {});
    return Status::OK();
}

const std::map<std::string, std::function<Status(const Files &, const File &)>> kPrograms = {
    {"a_failed_fetch_is_forgotten", a_failed_fetch_is_forgotten},
    {"a_closed_file_downloads_nothing", a_closed_file_downloads_nothing},
    {"a_bound_holds_for_what_was_not_taken", a_bound_holds_for_what_was_not_taken},
    {"a_range_beyond_the_bound_is_left_to_the_read", a_range_beyond_the_bound_is_left_to_the_read},
    {"a_cache_that_is_not_lazy_reads_each_range_once", a_cache_that_is_not_lazy_reads_each_range_once},
    {"a_known_description_saves_the_request", a_known_description_saves_the_request},
    {"an_exit_cancels_what_is_needed", an_exit_cancels_what_is_needed},
    {"an_exit_cancels_what_is_read", an_exit_cancels_what_is_read},
};

Status Run(const std::string &name) {
    tidegate::arrowfs::TideOptions options;
    options.store.emplace_back("endpoint_url", std::getenv("AWS_ENDPOINT_URL"));
    // No request is sent twice.
    options.engine = {{"attempts", "1"}, {"hedge", "false"}};
    ARROW_ASSIGN_OR_RAISE(auto files, tidegate::arrowfs::TideFileSystem::Make(std::getenv("STORE"), std::move(options)));
    ARROW_ASSIGN_OR_RAISE(auto file, files->OpenInputFile(std::getenv("READ")));
    return kPrograms.at(name)(files, file);
}

}  // namespace

int main(int count, char **arguments) {
    if (count != 2) return 2;
    const Status status = Run(arguments[1]);
    if (!status.ok()) std::cerr << status.ToString() << '\n';
    return status.ok() ? 0 : 1;
}
