// Measures synchronous against asynchronous uploads through Velox's WriteFile: upload BUCKET-URL ENDPOINT MAX-MIB
//
// Synchronous is one part at a time, each acknowledged before append returns (the strategy `chunked`, with parts of
// 10 MiB, as Velox's own file for S3 has them). Asynchronous is what TideWriteFile does by itself.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tidegate_velox.hpp"

using namespace facebook::velox;

// Seconds for a file of so many MiB, appended 1 MiB at a time, as a writer of column chunks does.
static double upload(filesystems::FileSystem &files, const std::string &path, std::size_t mib, bool is_synchronous) {
    static const std::string piece(std::size_t(1) << 20, 'v');
    filesystems::FileOptions options;
    options.shouldThrowOnFileAlreadyExists = false;
    if (is_synchronous) options.values = {{"strategy", "chunked"}, {"part_size", "10MiB"}};
    const auto began = std::chrono::steady_clock::now();
    const auto file = files.openFileForWrite(path, options);
    for (std::size_t at = 0; at < mib; ++at) file->append(piece);
    file->close();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

int main(int count, char **arguments) {
    if (count != 4) {
        std::fprintf(stderr, "upload BUCKET-URL ENDPOINT MAX-MIB\n");
        return 2;
    }
    try {
        tidegate::velox::registerTidegate();
        std::unordered_map<std::string, std::string> values{{"tidegate.s3.endpoint_url", arguments[2]},
                                                            {"tidegate.s3.access_key", "tidegate"},
                                                            {"tidegate.s3.secret_key", "tidegate"},
                                                            {"tidegate.s3.region", "us-east-1"}};
        const std::string bucket = arguments[1];
        const auto files = filesystems::getFileSystem(bucket, std::make_shared<const config::ConfigBase>(values));
        std::printf("| size | synchronous | asynchronous | times as fast |\n|---|---|---|---|\n");
        const std::size_t most = std::strtoul(arguments[3], nullptr, 10);
        for (std::size_t mib = 4; mib <= most; mib *= 2) {
            const double synchronous = upload(*files, bucket + "/synchronous", mib, true);
            const double asynchronous = upload(*files, bucket + "/asynchronous", mib, false);
            std::printf("| %zu MiB | %.2f s | %.2f s | %.1f |\n", mib, synchronous, asynchronous, synchronous / asynchronous);
            std::fflush(stdout);
        }
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
