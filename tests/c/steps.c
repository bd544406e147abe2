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
