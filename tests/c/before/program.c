/* A program that was compiled with the header beside it, and runs with the library of today. */
#include "tidegate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(fact) ((fact) ? (void)0 : failed(__LINE__, #fact, NULL))
#define OK(call) succeeds((call), __LINE__, #call)

static void failed(int line, const char *what, const char *why) {
    fprintf(stderr, "line %d: %s: %s\n", line, what, why == NULL ? "not so" : why);
    abort();
}

static void succeeds(tg_error *error, int line, const char *call) {
    if (error != NULL) failed(line, call, tg_error_message(error));
}

static void release(void *data, size_t length, void *user) {
    (void)length;
    free(data);
    ++*(int *)user;
}

static volatile int ended;

static void done(void *user, tg_error *error) {
    CHECK(user == &ended && error == NULL);
    __atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
}

int main(void) {
    const struct timespec moment = {0, 1000000};
    tg_str key = {"a", 1}, other = {"b", 1}, all = {NULL, 0};
    tg_options *options = tg_options_new();
    tg_object *object = NULL, *described = NULL;
    const tg_entry *entries;
    tg_progress progress;
    char found[6] = "", *lent = malloc(3);
    size_t count, taken;
    tg_engine *engine;
    tg_store *store;
    tg_writer *writer;
    tg_reader *reader;
    tg_list *list;
    tg_error *error;
    tg_range ranges[2];
    int released = 0;

    CHECK(tg_abi_version() == TG_ABI_VERSION && strlen(tg_version()) > 0);
    OK(tg_options_set(options, "memory", "64MiB"));
    OK(tg_engine_new(options, &engine));
    OK(tg_store_open(engine, "memory://before", NULL, &store));
    OK(tg_writer_open(store, key, NULL, &writer));
    OK(tg_writer_write(writer, "123", 3));
    memcpy(lent, "456", 3);
    OK(tg_writer_write_owned(writer, lent, 3, release, &released));
    OK(tg_writer_try_write(writer, "", 0, &taken));
    progress.struct_size = sizeof progress;
    OK(tg_writer_progress(writer, &progress));
    CHECK(progress.struct_size == sizeof progress && progress.accepted == 6 && progress.waiting == TG_WAITING_NONE);
    OK(tg_writer_finish(writer, &object));
    CHECK(tg_object_size(object) == 6 && released == 1);
    tg_writer_free(writer);

    OK(tg_reader_open(store, key, NULL, &reader));
    ranges[0].offset = 0, ranges[0].length = 2, ranges[0].to = found;
    ranges[1].offset = 2, ranges[1].length = 4, ranges[1].to = found + 2;
    OK(tg_reader_read_ranges(reader, ranges, 2));
    CHECK(memcmp(found, "123456", 6) == 0);
    tg_reader_free(reader);

    OK(tg_list_open(store, all, NULL, &list));
    OK(tg_list_next(list, &entries, &count));
    CHECK(count == 1 && entries[0].kind == TG_ENTRY_OBJECT && entries[0].key.length == 1);
    CHECK(tg_object_is_same(entries[0].object, object));
    tg_list_free(list);

    OK(tg_head_async(store, key, &described, done, (void *)&ended, NULL));
    while (!__atomic_load_n(&ended, __ATOMIC_SEQ_CST)) nanosleep(&moment, NULL);
    CHECK(tg_object_is_same(object, described));
    error = tg_head(store, other, &described);
    CHECK(tg_error_kind(error) == TG_KIND_NOT_FOUND && strcmp(tg_error_kind_name(error), "not_found") == 0);
    tg_error_free(error);

    tg_object_free(object);
    tg_object_free(described);
    tg_options_free(options);
    tg_store_free(store);
    tg_engine_free(engine);
    return 0;
}
