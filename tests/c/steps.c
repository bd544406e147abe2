/* Steps of tests that take several processes. */
#include "check.h"

static tg_engine *engine;
static tg_store *store;
/* Where a check for leaks finds what a program leaves open. */
static tg_writer *writer;

static void begin(void) {
    engine = engine_with("memory", "64MiB", NULL);
    store = bucket(engine);
}

static void end(void) {
    tg_store_free(store);
    tg_engine_free(engine);
}

void step_prepare(void) {
    unsigned char *bytes = content(13 * MIB);
    char *json;
    begin();
    OK(tg_writer_open(store, key("prepared"), NULL, &writer));
    OK(tg_writer_write(writer, bytes, 13 * MIB));
    OK(tg_writer_prepare(writer, &json));
    write_text("pending", json);
    tg_string_free(json);
    tg_writer_free(writer);
    CHECK(!is_there(store, "prepared"));
    end();
    free(bytes);
}

void step_commit(void) {
    char *json = read_text("pending");
    tg_object *object;
    begin();
    OK(tg_commit(store, json, &object));
    CHECK(tg_object_size(object) == 13 * MIB);
    check_content(store, "prepared", 13 * MIB);
    tg_object_free(object);
    end();
    free(json);
}

/* Ends in the middle of a write, as a kill does. */
void step_persist(void) {
    unsigned char *bytes = content(13 * MIB);
    char *json;
    begin();
    OK(tg_writer_open(store, key("resumed"), NULL, &writer));
    OK(tg_writer_write(writer, bytes, 7 * MIB + 5));
    OK(tg_writer_persist(writer, &json));
    write_text("point", json);
    OK(tg_writer_write(writer, bytes, 3 * MIB));
    _exit(0);
}

void step_resume(void) {
    unsigned char *bytes = content(13 * MIB);
    char *json = read_text("point");
    size_t at;
    begin();
    CHECK(!is_there(store, "resumed"));
    OK(tg_resume(store, json, &writer));
    at = tg_writer_position(writer);
    CHECK(at == 7 * MIB + 5);
    OK(tg_writer_write(writer, bytes + at, 13 * MIB - at));
    OK(tg_writer_finish(writer, NULL));
    tg_writer_free(writer);
    check_content(store, "resumed", 13 * MIB);
    end();
    free(bytes);
    free(json);
}

static unsigned char *left;
static waiter waiting;

/* Exits with a writer, and a write that is under way. */
void step_exit_with_open_writers(void) {
    left = content(40 * MIB);
    begin();
    OK(tg_writer_open(store, key("hold-part-open"), NULL, &writer));
    OK(tg_writer_write(writer, left, 6 * MIB));
    waiter_init(&waiting);
    OK(tg_writer_write_async(writer, left, 40 * MIB, waiter_done, &waiting, NULL));
}

/* After `main`: the library's values of this thread are gone. */
static void exit_handler(void) {
    tg_engine *other = engine_with("memory", "32MiB", NULL);
    tg_store *in_memory = store_at(other, "memory://exit");
    tg_object *object = NULL;
    const tg_entry *entries;
    tg_reader *reader;
    tg_list *list;
    char found[8];
    size_t count;
    OK(tg_writer_write(writer, left, 6 * MIB));
    OK(tg_writer_finish(writer, NULL));
    tg_writer_free(writer);
    check_content(store, "late", 6 * MIB);
    OK(tg_reader_open(store, key("late"), NULL, &reader));
    OK(tg_reader_read(reader, found, sizeof found, &count));
    CHECK(count > 0 && memcmp(found, left, count) == 0);
    tg_reader_free(reader);
    OK(tg_list_open(store, key(""), NULL, &list));
    OK(tg_list_next(list, &entries, &count));
    CHECK(count == 1);
    tg_list_free(list);
    OK(tg_head_async(store, key("late"), &object, waiter_done, &waiting, NULL));
    CHECK(waiter_wait(&waiting) == 0 && tg_object_size(object) == 6 * MIB);
    tg_object_free(object);
    OK(tg_writer_open(store, key("discarded"), NULL, &writer));
    OK(tg_writer_write(writer, left, 6 * MIB));
    tg_writer_free(writer);
    OK(tg_engine_wait_for_aborts(engine, 20000));
    OK(tg_put(in_memory, key("a"), "a", 1, NULL, NULL));
    CHECK(is_there(in_memory, "a"));
    tg_store_free(in_memory);
    tg_engine_free(other);
    end();
    free(left);
    write_text("exit", "done");
}

void step_call_in_an_exit_handler(void) {
    left = content(6 * MIB);
    waiter_init(&waiting);
    begin();
    OK(tg_writer_open(store, key("late"), NULL, &writer));
    CHECK(atexit(exit_handler) == 0);
}

/* On a thread of the engine, as its callbacks are: it still can't wait for calls. */
static void exit_handler_of_the_engine(void) {
    tg_object *object = NULL;
    size_t taken = 0;
    FAILS(TG_KIND_INVALID_INPUT, tg_head(store, key("late"), &object));
    FAILS(TG_KIND_INVALID_INPUT, tg_writer_finish(writer, NULL));
    OK(tg_writer_try_write(writer, "a", 1, &taken));
    CHECK(taken == 1);
    tg_writer_free(writer);
    end();
    write_text("exit", "done");
}

static void done_exits(void *user, tg_error *error) {
    (void)user;
    CHECK(tg_error_kind(error) == TG_KIND_NOT_FOUND);
    tg_error_free(error);
    exit(0);
}

static tg_object *described;

void step_exit_in_a_callback(void) {
    begin();
    OK(tg_writer_open(store, key("late"), NULL, &writer));
    CHECK(atexit(exit_handler_of_the_engine) == 0);
    OK(tg_head_async(store, key("nothing"), &described, done_exits, NULL, NULL));
    for (;;) pause();
}
