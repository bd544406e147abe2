// What every test uses: checks that end the program with the place and the reason, and the test's stores.
#ifndef CHECK_HPP
#define CHECK_HPP

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>

#include "tidegate.hpp"

#define CHECK(fact) ((fact) ? (void)0 : check_failed(__FILE__, __LINE__, #fact))
// A call that throws Error of this kind. Gives the Error.
#define THROWS(kind_, ...)                                                              \
    [&] {                                                                               \
        try {                                                                           \
            (void)(__VA_ARGS__);                                                        \
        } catch (const tidegate::Error &error) {                                        \
            check_kind(tidegate::Kind::kind_, error, __FILE__, __LINE__, #__VA_ARGS__); \
            return error;                                                               \
        }                                                                               \
        check_failed(__FILE__, __LINE__, "it throws: " #__VA_ARGS__);                   \
    }()
// A function that runs by its name.
#define TEST(name)                                        \
    static void name();                                   \
    static const bool is_test_##name = add(#name, &name); \
    static void name()

[[noreturn]] inline void check_failed(const char *file, int line, const char *fact) {
    std::fprintf(stderr, "%s:%d: not so: %s\n", file, line, fact);
    std::abort();
}

inline void check_kind(tidegate::Kind kind, const tidegate::Error &error, const char *file, int line, const char *call) {
    if (error.kind() == kind) return;
    std::fprintf(stderr, "%s:%d: %s: kind %d instead of %d: %s\n", file, line, call, static_cast<int>(error.kind()),
                 static_cast<int>(kind), error.what());
    std::abort();
}

inline std::map<std::string, void (*)()> &tests() {
    static std::map<std::string, void (*)()> all;
    return all;
}
inline bool add(const char *name, void (*test)()) { return tests().emplace(name, test).second; }

constexpr std::size_t MIB = std::size_t(1) << 20;

inline std::string setting(const char *name) {
    const char *value = std::getenv(name);
    if (value == nullptr) check_failed(__FILE__, __LINE__, name);
    return value;
}

// One engine for all, which makes few attempts.
inline tidegate::Engine engine() { return tidegate::Engine::shared({{"memory", "64MiB"}, {"attempts", "2"}}); }

// The test's bucket on the server, a directory, and a store in memory.
inline tidegate::Store bucket() {
    return engine().open(setting("BUCKET"), {{"endpoint_url", setting("ENDPOINT")},
                                             {"access_key", "tidegate"},
                                             {"secret_key", "tidegate"},
                                             {"region", "us-east-1"}});
}
inline tidegate::Store directory() { return engine().open("file://" + setting("DIRECTORY") + "/objects"); }
inline tidegate::Store memory(const char *name) { return engine().open(std::string("memory://") + name); }

// Bytes of which no two places close to each other are the same.
inline std::string content(std::size_t length) {
    std::string bytes(length, '\0');
    for (std::size_t at = 0; at < length; ++at) bytes[at] = static_cast<char>((at * 2654435761U) >> 13);
    return bytes;
}

inline void write_text(const char *name, const std::string &text) {
    std::ofstream(setting("DIRECTORY") + "/" + name, std::ios::binary) << text;
}
inline std::string read_text(const char *name) {
    std::ifstream file(setting("DIRECTORY") + "/" + name, std::ios::binary);
    CHECK(file.good());
    return {std::istreambuf_iterator<char>(file), {}};
}

// Runs one test: PROGRAM NAME
inline int run_test(int count, char **arguments) {
    CHECK(count == 2 && tests().count(arguments[1]) == 1);
    tests()[arguments[1]]();
    return 0;
}

#endif  // CHECK_HPP
