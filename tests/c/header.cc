// The header in C++: every function has C's linkage and types that C++ takes.
#include "tidegate.h"

#include <type_traits>

static_assert(std::is_same<decltype(&tg_writer_free), void (*)(tg_writer *)>::value, "");
static_assert(std::is_same<decltype(&tg_error_message), const char *(*)(const tg_error *)>::value, "");
static_assert(sizeof(tg_str) == sizeof(void *) + sizeof(size_t), "");

int main() { return tg_abi_version() == TG_ABI_VERSION ? 0 : 1; }
