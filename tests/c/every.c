/* Every function, on memory, a directory and a server. */
#include "check.h"

static int released;

static void release(void *data, size_t length, void *user) {
    CHECK(user == &released && length > 0);
    free(data);
    __atomic_fetch_add(&released, 1, __ATOMIC_SEQ_CST);
}

static void objects(tg_store *store, int keeps_attributes) {
    tg_options *options = tg_options_new();
    tg_object *object, *described, *copied;
    tg_str keys[2];
    tg_error *each[2] = {NULL, NULL};
    if (keeps_attributes) {
        OK(tg_options_set(options, "content_type", "text/plain"));
        OK(tg_options_set(options, "metadata", "origin=tide"));
    }
    OK(tg_options_set(options, "create_only", "true"));
    OK(tg_put(store, key("a/one"), "hello", 5, options, &object));
    CHECK(tg_object_size(object) == 5 && tg_object_has_size(object));
    CHECK(tg_object_key(object).length == 5 && memcmp(tg_object_key(object).data, "a/one", 5) == 0);
    FAILS(TG_KIND_ALREADY_EXISTS, tg_put(store, key("a/one"), "again", 5, options, NULL));
    OK(tg_head(store, key("a/one"), &described));
    CHECK(tg_object_is_same(object, described));
    CHECK(tg_object_modified_ms(described) > 1700000000000);
    if (keeps_attributes) {
        CHECK(strcmp(tg_object_text(described, "content_type"), "text/plain") == 0);
        CHECK(tg_object_text(described, "etag") != NULL && tg_object_text(described, "colour") == NULL);
        CHECK(tg_object_metadata_count(described) == 1);
        CHECK(strcmp(tg_object_metadata_name(described, 0), "origin") == 0);
        CHECK(strcmp(tg_object_metadata_value(described, 0), "tide") == 0);
    }
    CHECK(tg_object_metadata_name(described, 1) == NULL);
    OK(tg_copy(store, key("a/one"), store, key("a/two"), NULL, &copied));
    CHECK(tg_object_size(copied) == 5);
    OK(tg_rename(store, key("a/two"), key("a/three"), NULL));
    CHECK(!is_there(store, "a/two") && is_there(store, "a/three"));
    OK(tg_put(store, key("empty"), NULL, 0, NULL, NULL));
    OK(tg_delete(store, key("a/one")));
    keys[0] = key("a/three"), keys[1] = key("empty");
    OK(tg_delete_many(store, keys, 2, each));
    CHECK(each[0] == NULL && each[1] == NULL && !is_there(store, "empty"));
    OK(tg_delete_many(store, NULL, 0, NULL));
    tg_object_free(object);
    tg_object_free(described);
    tg_object_free(copied);
    tg_options_free(options);
}

static void listings(tg_store *store) {
    static const char *const names[] = {"l/a", "l/b", "l/sub/c"};
    tg_options *options = tg_options_new();
    const tg_entry *entries;
    tg_list *list;
    waiter waiter;
    size_t count, i, all = 0;
    for (i = 0; i < 3; i++) OK(tg_put(store, key(names[i]), names[i], strlen(names[i]), NULL, NULL));
    OK(tg_list_open(store, key("l/"), NULL, &list));
    do {
        OK(tg_list_next(list, &entries, &count));
        for (i = 0; i < count; i++, all++) {
            CHECK(entries[i].kind == TG_ENTRY_OBJECT && tg_object_size(entries[i].object) == entries[i].key.length);
            CHECK(memcmp(entries[i].key.data, names[all], entries[i].key.length) == 0);
        }
    } while (count > 0);
    CHECK(all == 3);
    OK(tg_list_next(list, &entries, &count));
    CHECK(count == 0);
    tg_list_free(list);

    OK(tg_options_set(options, "recursive", "false"));
    OK(tg_options_set(options, "start_after", "l/a"));
    OK(tg_list_open(store, key("l/"), options, &list));
    waiter_init(&waiter);
    for (all = 0;;) {
        OK(tg_list_next_async(list, &entries, &count, waiter_done, &waiter, NULL));
        CHECK(waiter_wait(&waiter) == 0);
        if (count == 0) break;
        for (i = 0; i < count; i++, all++) {
            CHECK(entries[i].kind == (all == 0 ? TG_ENTRY_OBJECT : TG_ENTRY_PREFIX));
            CHECK((entries[i].object == NULL) == (all == 1));
        }
    }
    CHECK(all == 2);
    tg_list_free(list);
    tg_options_free(options);
}

static void writing(tg_store *store, size_t length) {
    unsigned char *bytes = content(length), *lent;
    tg_writer *writer;
    tg_object *object;
    tg_progress progress;
    size_t at = 0, taken;
    waiter waiter;
    released = 0;
    OK(tg_writer_open(store, key("w/all"), NULL, &writer));
    OK(tg_writer_write(writer, bytes, 10));
    OK(tg_writer_write(writer, NULL, 0));
    at = 10;
    OK(tg_writer_try_write(writer, bytes + at, 1000, &taken));
    CHECK(taken <= 1000);
    at += taken;
    waiter_init(&waiter);
    OK(tg_writer_write_async(writer, bytes + at, 3000, waiter_done, &waiter, NULL));
    CHECK(waiter_wait(&waiter) == 0);
    at += 3000;
    lent = malloc(100000);
    memcpy(lent, bytes + at, 100000);
    OK(tg_writer_write_owned(writer, lent, 100000, release, &released));
    at += 100000;
    while (at < length) {
        size_t piece = length - at < 70000 ? length - at : 70000;
        OK(tg_writer_write(writer, bytes + at, piece));
        at += piece;
    }
    CHECK(tg_writer_position(writer) == length);
    progress.struct_size = sizeof progress;
    OK(tg_writer_progress(writer, &progress));
    CHECK(progress.accepted == length);
    CHECK(!is_there(store, "w/all"));
    OK(tg_writer_finish(writer, &object));
    CHECK(tg_object_size(object) == length);
    FAILS(TG_KIND_CLOSED, tg_writer_finish(writer, NULL));
    FAILS(TG_KIND_CLOSED, tg_writer_write(writer, bytes, 1));
    FAILS(TG_KIND_CLOSED, tg_writer_abort(writer));
    tg_object_free(object);
    tg_writer_free(writer);
    UNTIL(__atomic_load_n(&released, __ATOMIC_SEQ_CST) == 1);
    check_content(store, "w/all", length);

    OK(tg_writer_open(store, key("w/async"), NULL, &writer));
    OK(tg_writer_write(writer, bytes, 100));
    OK(tg_writer_finish_async(writer, &object, waiter_done, &waiter, NULL));
    CHECK(waiter_wait(&waiter) == 0 && tg_object_size(object) == 100);
    tg_object_free(object);
    tg_writer_free(writer);

    OK(tg_writer_open(store, key("w/aborted"), NULL, &writer));
    OK(tg_writer_write(writer, bytes, length));
    OK(tg_writer_abort(writer));
    tg_writer_free(writer);
    OK(tg_writer_open(store, key("w/freed"), NULL, &writer));
    OK(tg_writer_write(writer, bytes, length));
    tg_writer_free(writer);
    OK(tg_writer_open(store, key("w/cancelled"), NULL, &writer));
    OK(tg_writer_write(writer, bytes, length));
    tg_writer_cancel(writer);
    FAILS(TG_KIND_CANCELLED, tg_writer_finish(writer, NULL));
    tg_writer_free(writer);
    CHECK(!is_there(store, "w/aborted") && !is_there(store, "w/freed") && !is_there(store, "w/cancelled"));
    free(bytes);
}

static void reading(tg_store *store, size_t length) {
    unsigned char *bytes = content(length), *found = malloc(length);
    tg_options *options = tg_options_new();
    tg_range ranges[4];
    tg_reader *reader;
    tg_object *object;
    size_t at, read, i;
    waiter waiter;
    OK(tg_put(store, key("r"), bytes, length, NULL, NULL));
    OK(tg_reader_open(store, key("r"), NULL, &reader));
    CHECK(tg_reader_size(reader) == length && tg_object_size(tg_reader_object(reader)) == length);
    for (at = 0;; at += read) {
        OK(tg_reader_read(reader, found + at, length - at < 9999 ? length - at : 9999, &read));
        if (read == 0) break;
    }
    CHECK(at == length && memcmp(bytes, found, length) == 0);
    OK(tg_reader_read(reader, found, 10, &read));
    CHECK(read == 0);
    OK(tg_reader_read_at(reader, length - 5, found, 100, &read));
    CHECK(read == 5 && memcmp(found, bytes + length - 5, 5) == 0);
    OK(tg_reader_read_at(reader, length, found, 1, &read));
    CHECK(read == 0);
    tg_reader_free(reader);

    OK(tg_head(store, key("r"), &object));
    OK(tg_options_set(options, "random", "true"));
    OK(tg_options_set_object(options, "if_unchanged", object));
    OK(tg_reader_open(store, key("r"), options, &reader));
    memset(found, 0, length);
    ranges[0].offset = length / 2, ranges[0].length = length / 4, ranges[0].to = found + length / 2;
    ranges[1].offset = 0, ranges[1].length = 10, ranges[1].to = found;
    ranges[2].offset = 5, ranges[2].length = 0, ranges[2].to = NULL;
    ranges[3].offset = length / 2 + 7, ranges[3].length = 11, ranges[3].to = found + 100;
    OK(tg_reader_read_ranges(reader, ranges, 4));
    CHECK(memcmp(found, bytes, 10) == 0 && memcmp(found + 100, bytes + length / 2 + 7, 11) == 0);
    CHECK(memcmp(found + length / 2, bytes + length / 2, length / 4) == 0);
    for (i = 10; i < 100; i++) CHECK(found[i] == 0);
    waiter_init(&waiter);
    memset(found, 0, length);
    OK(tg_reader_read_ranges_async(reader, ranges, 4, waiter_done, &waiter, NULL));
    CHECK(waiter_wait(&waiter) == 0 && memcmp(found + 100, bytes + length / 2 + 7, 11) == 0);
    OK(tg_reader_read_at_async(reader, 3, found, 20, &read, waiter_done, &waiter, NULL));
    CHECK(waiter_wait(&waiter) == 0 && read == 20 && memcmp(found, bytes + 3, 20) == 0);
    OK(tg_reader_read_ranges(reader, NULL, 0));
    /* Sequential reads work with a random reader too. */
    OK(tg_reader_read(reader, found, 1, &read));
    CHECK(read == 1 && found[0] == bytes[0]);

    OK(tg_put(store, key("r"), "other", 5, NULL, NULL));
    SAYS(TG_KIND_REPLACED, "/r", tg_reader_read_at(reader, 0, found, 1, &read));
    SAYS(TG_KIND_REPLACED, "/r", tg_reader_read_ranges(reader, ranges, 2));
    tg_reader_cancel(reader);
    SAYS(TG_KIND_CANCELLED, "/r", tg_reader_read_at(reader, 0, found, 1, &read));
    tg_reader_free(reader);
    OK(tg_options_set(options, "size", "4"));
    FAILS(TG_KIND_INVALID_INPUT, tg_reader_open(store, key("r"), options, &reader));
    tg_object_free(object);
    tg_options_free(options);
    options = tg_options_new();
    OK(tg_options_set(options, "random", "true"));
    OK(tg_options_set(options, "size", "4"));
    OK(tg_reader_open(store, key("r"), options, &reader));
    SAYS(TG_KIND_REPLACED, "5 bytes, and not 4", tg_reader_read_at(reader, 0, found, 1, &read));
    tg_reader_free(reader);
    tg_options_free(options);
    free(bytes);
    free(found);
}

static void asynchronous(tg_store *store) {
    tg_object *object = NULL;
    waiter waiter;
    tg_op *op;
    waiter_init(&waiter);
    OK(tg_put_async(store, key("p"), "12345", 5, NULL, &object, waiter_done, &waiter, &op));
    CHECK(waiter_wait(&waiter) == 0 && tg_object_size(object) == 5);
    tg_op_cancel(op);
    tg_op_free(op);
    tg_object_free(object);
    OK(tg_head_async(store, key("p"), &object, waiter_done, &waiter, NULL));
    CHECK(waiter_wait(&waiter) == 0 && tg_object_size(object) == 5);
    tg_object_free(object);
    object = NULL;
    OK(tg_head_async(store, key("nothing"), &object, waiter_done, &waiter, NULL));
    CHECK(waiter_wait(&waiter) == TG_KIND_NOT_FOUND && object == NULL);
}

static void pending(tg_store *store) {
    unsigned char *bytes = content(100000);
    tg_writer *writer;
    tg_object *object;
    waiter waiter;
    char *json;
    OK(tg_writer_open(store, key("later"), NULL, &writer));
    OK(tg_writer_write(writer, bytes, 100000));
    OK(tg_writer_prepare(writer, &json));
    (void)tg_writer_warning(writer);
    FAILS(TG_KIND_CLOSED, tg_writer_write(writer, bytes, 1));
    tg_writer_free(writer);
    CHECK(!is_there(store, "later"));
    waiter_init(&waiter);
    OK(tg_commit_async(store, json, &object, waiter_done, &waiter, NULL));
    CHECK(waiter_wait(&waiter) == 0 && tg_object_size(object) == 100000);
    tg_object_free(object);
    OK(tg_commit(store, json, NULL));
    tg_string_free(json);
    check_content(store, "later", 100000);

    OK(tg_writer_open(store, key("never"), NULL, &writer));
    OK(tg_writer_write(writer, bytes, 100000));
    OK(tg_writer_prepare_async(writer, &json, waiter_done, &waiter, NULL));
    CHECK(waiter_wait(&waiter) == 0);
    tg_writer_free(writer);
    OK(tg_abandon(store, json));
    FAILS(TG_KIND_SESSION_LOST, tg_commit(store, json, NULL));
    tg_string_free(json);

    OK(tg_writer_open(store, key("point"), NULL, &writer));
    OK(tg_writer_write(writer, bytes, 60000));
    OK(tg_writer_persist(writer, &json));
    OK(tg_writer_write(writer, bytes, 5));
    tg_writer_free(writer);
    OK(tg_resume(store, json, &writer));
    CHECK(tg_writer_position(writer) == 60000);
    OK(tg_writer_write(writer, bytes + 60000, 40000));
    OK(tg_writer_finish(writer, NULL));
    tg_writer_free(writer);
    tg_string_free(json);
    check_content(store, "point", 100000);

    OK(tg_writer_open(store, key("point"), NULL, &writer));
    OK(tg_writer_persist(writer, &json));
    tg_writer_free(writer);
    OK(tg_abandon(store, json));
    tg_string_free(json);
    free(bytes);
}

static void all_of(tg_store *store, size_t length, int keeps_attributes) {
    objects(store, keeps_attributes);
    listings(store);
    writing(store, length);
    reading(store, length);
    asynchronous(store);
    pending(store);
}

void every_function_on_memory(void) {
    tg_engine *engine = engine_with("memory", "64MiB", NULL);
    tg_store *store = store_at(engine, "memory://every");
    all_of(store, 3 * MIB, 1);
    tg_store_free(store);
    tg_engine_free(engine);
}

void every_function_on_a_directory(void) {
    tg_engine *engine = engine_with("memory", "64MiB", NULL);
    char *path = path_to("objects");
    tg_store *store = store_at(engine, path);
    free(path);
    all_of(store, 3 * MIB, 0);
    tg_store_free(store);
    tg_engine_free(engine);
}

void every_function_on_a_server(void) {
    tg_engine *engine = engine_with("memory", "64MiB", NULL), *same = engine_with("memory", "64MiB", NULL);
    tg_engine *other = engine_with("memory", "32MiB", NULL);
    tg_store *store = bucket(engine);
    tg_progress progress, of_other;
    uint64_t total, held, peak;
    all_of(store, 13 * MIB, 1);
    OK(tg_engine_wait_for_aborts(engine, 20000));
    progress.struct_size = of_other.struct_size = sizeof progress;
    OK(tg_engine_progress(same, &progress));
    CHECK(progress.requests > 0 && progress.acknowledged > 0);
    OK(tg_engine_progress(other, &of_other));
    CHECK(of_other.requests == 0 && of_other.waiting == TG_WAITING_NONE);
    OK(tg_engine_memory(same, &total, &held, &peak));
    CHECK(total == 64 * MIB && held <= peak && peak <= total && peak > 0);
    OK(tg_engine_memory(same, NULL, NULL, NULL));
    tg_engine_free(same);
    tg_engine_free(other);
    /* Handles may be freed in any order. */
    tg_engine_free(engine);
    CHECK(is_there(store, "w/all"));
    tg_store_free(store);
    CHECK(tg_abi_version() == TG_ABI_VERSION && strchr(tg_version(), '.') != NULL);
}

/* A struct of an older and of a newer program. */
void progress_fills_what_both_sides_know(void) {
    struct {
        tg_progress progress;
        uint64_t after;
    } newer;
    tg_engine *engine = engine_with(NULL, NULL);
    memset(&newer, 7, sizeof newer);
    newer.progress.struct_size = sizeof newer;
    OK(tg_engine_progress(engine, &newer.progress));
    CHECK(newer.progress.struct_size == sizeof newer && newer.progress.accepted == 0);
    CHECK(newer.after == 0x0707070707070707u);
    memset(&newer, 7, sizeof newer);
    newer.progress.struct_size = offsetof(tg_progress, sent);
    OK(tg_engine_progress(engine, &newer.progress));
    CHECK(newer.progress.accepted == 0 && newer.progress.sent == 0x0707070707070707u);
    newer.progress.struct_size = 3;
    FAILS(TG_KIND_INVALID_INPUT, tg_engine_progress(engine, &newer.progress));
    tg_engine_free(engine);
}

void journals_are_recovered(void) {
    char *journals = path_to("journals");
    tg_engine *engine;
    tg_store *store;
    tg_options *options = tg_options_new();
    tg_unfinished_list *list;
    tg_writer *writer;
    tg_object *object;
    unsigned char *bytes = content(100000);
    uint64_t durable = 0;
    size_t taken = 9, i, count;
    engine = engine_with("memory", "64MiB", "journal", journals, "durability", "sync", NULL);
    store = bucket(engine);
    OK(tg_options_set(options, "strategy", "journal"));
    OK(tg_writer_open(store, key("j/one"), options, &writer));
    OK(tg_writer_write(writer, bytes, 40000));
    OK(tg_writer_try_write(writer, bytes, 10, &taken));
    CHECK(taken == 0);
    OK(tg_writer_sync(writer, &durable));
    CHECK(durable == 40000);
    OK(tg_recover(engine, &list));
    CHECK(tg_unfinished_count(list) == 1 && tg_unfinished_problem(list, 0) != NULL);
    FAILS(TG_KIND_INVALID_INPUT, tg_unfinished_forget(list, 0));
    tg_unfinished_list_free(list);
    tg_writer_free(writer);
    OK(tg_engine_wait_for_aborts(engine, 20000));

    OK(tg_recover(engine, &list));
    CHECK(tg_unfinished_count(list) == 1 && tg_unfinished_problem(list, 0) == NULL);
    CHECK(strlen(tg_unfinished_id(list, 0)) > 0 && strstr(tg_unfinished_url(list, 0), "/j/one") != NULL);
    CHECK(tg_unfinished_length(list, 0) == 40000 && !tg_unfinished_is_finished(list, 0));
    CHECK(tg_unfinished_id(list, 1) == NULL && tg_unfinished_length(list, 1) == 0);
    FAILS(TG_KIND_INVALID_INPUT, tg_unfinished_resume(list, 1, store, &object, &writer));
    OK(tg_unfinished_resume(list, 0, store, &object, &writer));
    CHECK(object == NULL && tg_writer_position(writer) == 40000);
    OK(tg_writer_write(writer, bytes + 40000, 60000));
    OK(tg_writer_finish(writer, NULL));
    tg_writer_free(writer);
    tg_unfinished_list_free(list);
    check_content(store, "j/one", 100000);

    for (i = 0; i < 2; i++) {
        OK(tg_writer_open(store, key(i == 0 ? "j/two" : "j/three"), options, &writer));
        OK(tg_writer_write(writer, bytes, 1000));
        tg_writer_free(writer);
    }
    OK(tg_engine_wait_for_aborts(engine, 20000));
    OK(tg_recover(engine, &list));
    CHECK(tg_unfinished_count(list) == 2);
    object = (tg_object *)&durable;
    OK(tg_unfinished_abort(list, 0, store, &object));
    CHECK(object == NULL);
    OK(tg_unfinished_forget(list, 1));
    tg_unfinished_list_free(list);
    OK(tg_recover(engine, &list));
    count = tg_unfinished_count(list);
    CHECK(count == 0);
    tg_unfinished_list_free(list);
    tg_options_free(options);
    tg_store_free(store);
    tg_engine_free(engine);
    free(bytes);
    free(journals);
}
