/* Every error path: what fails says so, and leaves the results alone. */
#include "check.h"

#define MARK ((void *)&mark)

static int mark, released;

static void release(void *data, size_t length, void *user) {
    (void)data, (void)length, (void)user;
    released++;
}

static void never_done(void *user, tg_error *error) {
    (void)user, (void)error;
    CHECK(!"done runs although the call has failed");
}

void null_is_refused_everywhere(void) {
    tg_engine *engine = engine_with(NULL, NULL), *no_engine = MARK;
    tg_store *store = store_at(engine, "memory://null"), *no_store = MARK;
    tg_options *options = tg_options_new();
    tg_object *object = MARK;
    tg_writer *writer, *no_writer = MARK;
    tg_reader *reader, *no_reader = MARK;
    tg_list *list, *no_list = MARK;
    tg_unfinished_list *left = MARK;
    const tg_entry *entries = MARK;
    tg_op *op = MARK;
    tg_str bad_key = {NULL, 1}, invalid_key = {"\xff", 1}, k = {"k", 1};
    tg_range bad_range = {0, 1, NULL}, far_range = {UINT64_MAX, 1, MARK};
    tg_progress progress;
    char *json = MARK, byte = 1;
    size_t size = 77;
    uint64_t number = 77;
    const int32_t kind = TG_KIND_INVALID_INPUT;
    progress.struct_size = sizeof progress;
    OK(tg_put(store, k, "bytes", 5, NULL, NULL));
    OK(tg_writer_open(store, k, NULL, &writer));
    OK(tg_reader_open(store, k, NULL, &reader));
    OK(tg_list_open(store, k, NULL, &list));

    FAILS(kind, tg_options_set(NULL, "memory", "1"));
    FAILS(kind, tg_options_set(options, NULL, "1"));
    FAILS(kind, tg_options_set(options, "memory", NULL));
    FAILS(kind, tg_options_set(options, "memory", "\xff"));
    FAILS(kind, tg_options_set(options, "colour", "blue"));
    FAILS(kind, tg_options_set_object(options, "replaces", NULL));
    FAILS(kind, tg_options_set_object(NULL, "replaces", NULL));
    FAILS(kind, tg_engine_new(NULL, NULL));
    FAILS(kind, tg_engine_wait_for_aborts(NULL, 1));
    FAILS(kind, tg_engine_memory(NULL, &number, NULL, NULL));
    FAILS(kind, tg_engine_progress(NULL, &progress));
    FAILS(kind, tg_engine_progress(engine, NULL));
    FAILS(kind, tg_store_open(NULL, "memory://a", NULL, &no_store));
    FAILS(kind, tg_store_open(engine, NULL, NULL, &no_store));
    FAILS(kind, tg_store_open(engine, "memory://a", NULL, NULL));
    FAILS(kind, tg_store_open(engine, "gopher://a", NULL, &no_store));
    FAILS(kind, tg_put(NULL, k, "a", 1, NULL, &object));
    FAILS(kind, tg_put(store, bad_key, "a", 1, NULL, &object));
    FAILS(kind, tg_put(store, invalid_key, "a", 1, NULL, &object));
    FAILS(kind, tg_put(store, k, NULL, 1, NULL, &object));
    FAILS(kind, tg_put(store, k, "a", SIZE_MAX, NULL, &object));
    FAILS(kind, tg_put_async(NULL, k, "a", 1, NULL, &object, never_done, NULL, &op));
    FAILS(kind, tg_put_async(store, k, "a", 1, NULL, &object, NULL, NULL, &op));
    FAILS(kind, tg_head(NULL, k, &object));
    FAILS(kind, tg_head(store, k, NULL));
    FAILS(kind, tg_head(store, bad_key, &object));
    FAILS(kind, tg_head_async(store, k, NULL, never_done, NULL, &op));
    FAILS(kind, tg_head_async(store, k, &object, NULL, NULL, &op));
    FAILS(kind, tg_delete(NULL, k));
    FAILS(kind, tg_delete(store, bad_key));
    FAILS(kind, tg_delete_many(NULL, &k, 1, NULL));
    FAILS(kind, tg_delete_many(store, NULL, 1, NULL));
    FAILS(kind, tg_delete_many(store, &bad_key, 1, NULL));
    FAILS(kind, tg_copy(NULL, k, store, k, NULL, &object));
    FAILS(kind, tg_copy(store, k, NULL, k, NULL, &object));
    FAILS(kind, tg_copy(store, k, store, bad_key, NULL, &object));
    FAILS(kind, tg_rename(NULL, k, k, NULL));
    FAILS(kind, tg_rename(store, bad_key, k, NULL));
    FAILS(kind, tg_list_open(NULL, k, NULL, &no_list));
    FAILS(kind, tg_list_open(store, k, NULL, NULL));
    FAILS(kind, tg_list_open(store, bad_key, NULL, &no_list));
    FAILS(kind, tg_list_next(NULL, &entries, &size));
    FAILS(kind, tg_list_next(list, NULL, &size));
    FAILS(kind, tg_list_next(list, &entries, NULL));
    FAILS(kind, tg_list_next_async(list, &entries, &size, NULL, NULL, &op));
    FAILS(kind, tg_list_next_async(list, NULL, &size, never_done, NULL, &op));
    FAILS(kind, tg_writer_open(NULL, k, NULL, &no_writer));
    FAILS(kind, tg_writer_open(store, k, NULL, NULL));
    FAILS(kind, tg_writer_open(store, bad_key, NULL, &no_writer));
    FAILS(kind, tg_writer_write(NULL, "a", 1));
    FAILS(kind, tg_writer_write(writer, NULL, 1));
    FAILS(kind, tg_writer_write_async(writer, "a", 1, NULL, NULL, &op));
    FAILS(kind, tg_writer_write_async(writer, NULL, 1, never_done, NULL, &op));
    FAILS(kind, tg_writer_try_write(NULL, "a", 1, &size));
    FAILS(kind, tg_writer_try_write(writer, "a", 1, NULL));
    FAILS(kind, tg_writer_try_write(writer, NULL, 1, &size));
    FAILS(kind, tg_writer_write_owned(writer, &byte, 1, NULL, NULL));
    FAILS(kind, tg_writer_write_owned(NULL, &byte, 1, release, NULL));
    FAILS(kind, tg_writer_write_owned(writer, NULL, 1, release, NULL));
    CHECK(released == 2);
    FAILS(kind, tg_writer_sync(NULL, &number));
    FAILS(kind, tg_writer_sync(writer, NULL));
    FAILS(TG_KIND_UNSUPPORTED, tg_writer_sync(writer, &number));
    FAILS(kind, tg_writer_finish(NULL, &object));
    FAILS(kind, tg_writer_finish_async(writer, &object, NULL, NULL, &op));
    FAILS(kind, tg_writer_prepare(NULL, &json));
    FAILS(kind, tg_writer_prepare(writer, NULL));
    FAILS(kind, tg_writer_prepare_async(writer, NULL, never_done, NULL, &op));
    FAILS(kind, tg_writer_prepare_async(writer, &json, NULL, NULL, &op));
    FAILS(kind, tg_writer_persist(NULL, &json));
    FAILS(kind, tg_writer_persist(writer, NULL));
    FAILS(kind, tg_writer_abort(NULL));
    FAILS(kind, tg_writer_progress(NULL, &progress));
    FAILS(kind, tg_writer_progress(writer, NULL));
    FAILS(kind, tg_commit(NULL, "{}", &object));
    FAILS(kind, tg_commit(store, NULL, &object));
    FAILS(kind, tg_commit(store, "{}", &object));
    FAILS(kind, tg_commit_async(store, "{}", &object, never_done, NULL, &op));
    FAILS(kind, tg_abandon(NULL, "{}"));
    FAILS(kind, tg_abandon(store, "no json"));
    FAILS(kind, tg_resume(NULL, "{}", &no_writer));
    FAILS(kind, tg_resume(store, "{}", &no_writer));
    FAILS(kind, tg_resume(store, "{}", NULL));
    FAILS(kind, tg_reader_open(NULL, k, NULL, &no_reader));
    FAILS(kind, tg_reader_open(store, k, NULL, NULL));
    FAILS(kind, tg_reader_open(store, bad_key, NULL, &no_reader));
    FAILS(TG_KIND_NOT_FOUND, tg_reader_open(store, key("nothing"), NULL, &no_reader));
    FAILS(kind, tg_reader_read(NULL, &byte, 1, &size));
    FAILS(kind, tg_reader_read(reader, NULL, 1, &size));
    FAILS(kind, tg_reader_read(reader, &byte, 1, NULL));
    FAILS(kind, tg_reader_read_at(NULL, 0, &byte, 1, &size));
    FAILS(kind, tg_reader_read_at(reader, 0, NULL, 1, &size));
    FAILS(kind, tg_reader_read_at(reader, 0, &byte, 1, NULL));
    FAILS(kind, tg_reader_read_at_async(reader, 0, &byte, 1, &size, NULL, NULL, &op));
    FAILS(kind, tg_reader_read_at_async(reader, 0, &byte, 1, NULL, never_done, NULL, &op));
    FAILS(kind, tg_reader_read_ranges(NULL, &bad_range, 1));
    FAILS(kind, tg_reader_read_ranges(reader, NULL, 1));
    FAILS(kind, tg_reader_read_ranges(reader, &bad_range, 1));
    FAILS(kind, tg_reader_read_ranges(reader, &far_range, 1));
    FAILS(kind, tg_reader_read_ranges_async(reader, &bad_range, 1, never_done, NULL, &op));
    FAILS(kind, tg_reader_read_ranges_async(reader, NULL, 0, NULL, NULL, &op));
    FAILS(kind, tg_recover(NULL, &left));
    FAILS(kind, tg_recover(engine, NULL));
    FAILS(kind, tg_unfinished_resume(NULL, 0, NULL, &object, &no_writer));
    FAILS(kind, tg_unfinished_abort(NULL, 0, NULL, &object));
    FAILS(kind, tg_unfinished_forget(NULL, 0));

    CHECK(no_engine == MARK && no_store == MARK && object == MARK && no_writer == MARK && no_reader == MARK);
    CHECK(no_list == MARK && left == MARK && (const void *)entries == MARK && op == MARK && json == MARK);
    CHECK(size == 77 && number == 77 && byte == 1 && progress.struct_size == sizeof progress);

    /* The writer has survived all of that. */
    OK(tg_writer_write(writer, "fine", 4));
    OK(tg_writer_finish(writer, NULL));

    CHECK(tg_error_kind(NULL) == 0 && tg_error_message(NULL) == NULL && tg_error_kind_name(NULL) == NULL);
    CHECK(tg_error_operation(NULL) == NULL && tg_error_url(NULL) == NULL && tg_error_remedy(NULL) == NULL);
    CHECK(tg_error_attempts(NULL) == 0 && tg_error_elapsed_ms(NULL) == 0 && !tg_error_is_unreachable(NULL));
    CHECK(tg_object_key(NULL).data == NULL && tg_object_size(NULL) == 0 && !tg_object_has_size(NULL));
    CHECK(tg_object_text(NULL, "etag") == NULL && tg_object_metadata_count(NULL) == 0);
    CHECK(tg_object_metadata_value(NULL, 0) == NULL && !tg_object_is_same(NULL, NULL));
    CHECK(tg_object_modified_ms(NULL) == INT64_MIN);
    CHECK(tg_writer_position(NULL) == 0 && tg_writer_warning(NULL) == NULL && tg_reader_size(NULL) == 0);
    CHECK(tg_reader_object(NULL) == NULL && tg_unfinished_count(NULL) == 0 && tg_unfinished_url(NULL, 0) == NULL);
    tg_writer_cancel(NULL);
    tg_reader_cancel(NULL);
    tg_op_cancel(NULL);
    tg_error_free(NULL), tg_options_free(NULL), tg_engine_free(NULL), tg_store_free(NULL), tg_object_free(NULL);
    tg_list_free(NULL), tg_writer_free(NULL), tg_reader_free(NULL), tg_op_free(NULL), tg_string_free(NULL);
    tg_unfinished_list_free(NULL);
    tg_writer_free(writer);
    tg_reader_free(reader);
    tg_list_free(list);
    tg_options_free(options);
    tg_store_free(store);
    tg_engine_free(engine);
}

void options_are_refused_where_they_do_not_belong(void) {
    tg_engine *engine = engine_with(NULL, NULL), *none = MARK;
    tg_store *store = store_at(engine, "memory://options"), *no_store = MARK;
    tg_options *memory = tg_options_new(), *wrong = tg_options_new(), *type = tg_options_new();
    tg_writer *writer = MARK;
    tg_reader *reader = MARK;
    tg_list *list = MARK;
    tg_error *error;
    OK(tg_options_set(memory, "memory", "64MiB"));
    OK(tg_options_set(wrong, "memory", "lots"));
    OK(tg_options_set(type, "content_type", "text/plain"));
    error = tg_engine_new(wrong, &none);
    CHECK(tg_error_kind(error) == TG_KIND_INVALID_INPUT && strstr(tg_error_message(error), "`lots`") != NULL);
    CHECK(strcmp(tg_error_kind_name(error), "invalid_input") == 0);
    tg_error_free(error);
    FAILS(TG_KIND_INVALID_INPUT, tg_engine_new(type, &none));
    FAILS(TG_KIND_INVALID_INPUT, tg_store_open(engine, "s3://bucket", memory, &no_store));
    FAILS(TG_KIND_INVALID_INPUT, tg_writer_open(store, key("k"), memory, &writer));
    FAILS(TG_KIND_INVALID_INPUT, tg_reader_open(store, key("k"), memory, &reader));
    FAILS(TG_KIND_INVALID_INPUT, tg_list_open(store, key("k"), memory, &list));
    FAILS(TG_KIND_INVALID_INPUT, tg_put(store, key("k"), "a", 1, memory, NULL));
    FAILS(TG_KIND_INVALID_INPUT, tg_rename(store, key("k"), key("l"), type));
    CHECK(none == MARK && no_store == MARK && writer == MARK && reader == MARK && list == MARK);
    CHECK(!is_there(store, "k"));
    tg_options_free(memory);
    tg_options_free(wrong);
    tg_options_free(type);
    tg_store_free(store);
    tg_engine_free(engine);
}

void errors_say_what_happened(void) {
    tg_engine *engine = engine_with("attempts", "2", "patience", "2", NULL);
    tg_store *store = bucket(engine), *nowhere;
    tg_options *options = tg_options_new();
    tg_error *error, *each[2] = {NULL, NULL};
    tg_object *object = MARK;
    tg_str keys[2];
    error = tg_head(store, key("nothing"), &object);
    CHECK(tg_error_kind(error) == TG_KIND_NOT_FOUND && strcmp(tg_error_kind_name(error), "not_found") == 0);
    CHECK(strcmp(tg_error_operation(error), "head") == 0 && strstr(tg_error_url(error), "/nothing") != NULL);
    CHECK(tg_error_attempts(error) == 1 && !tg_error_is_unreachable(error));
    tg_error_free(error);

    OK(tg_put(store, key("there"), "a", 1, NULL, NULL));
    keys[0] = key(""), keys[1] = key("there");
    FAILS(TG_KIND_INVALID_INPUT, tg_delete_many(store, keys, 2, each));
    CHECK(each[0] != NULL && each[1] == NULL && !is_there(store, "there"));
    FAILS(TG_KIND_INVALID_INPUT, each[0]);
    FAILS(TG_KIND_INVALID_INPUT, tg_delete_many(store, keys, 1, NULL));

    OK(tg_options_set(options, "endpoint_url", "http://127.0.0.1:1"));
    OK(tg_options_set(options, "anonymous", "true"));
    OK(tg_store_open(engine, "s3://bucket", options, &nowhere));
    error = tg_head(nowhere, key("k"), &object);
    CHECK(tg_error_kind(error) == TG_KIND_UNAVAILABLE && tg_error_is_unreachable(error));
    CHECK(tg_error_attempts(error) == 2 && tg_error_remedy(error) != NULL);
    tg_error_free(error);
    CHECK(object == MARK);
    tg_options_free(options);
    tg_store_free(nowhere);
    tg_store_free(store);
    tg_engine_free(engine);
}

/* A listing that fails never looks as if it had come to its end. */
void a_failed_listing_has_no_end(void) {
    tg_engine *engine = engine_with("attempts", "1", NULL);
    tg_options *options = tg_options_new();
    const tg_entry *entries = MARK;
    tg_store *nowhere;
    tg_list *list;
    size_t count = 77;
    OK(tg_options_set(options, "endpoint_url", "http://127.0.0.1:1"));
    OK(tg_options_set(options, "anonymous", "true"));
    OK(tg_store_open(engine, "s3://bucket", options, &nowhere));
    OK(tg_list_open(nowhere, key(""), NULL, &list));
    FAILS(TG_KIND_UNAVAILABLE, tg_list_next(list, &entries, &count));
    FAILS(TG_KIND_CLOSED, tg_list_next(list, &entries, &count));
    CHECK(count == 77 && (const void *)entries == MARK);
    tg_list_free(list);
    tg_options_free(options);
    tg_store_free(nowhere);
    tg_engine_free(engine);
}

/* Neither does a read whose bytes are not those that were written. */
void a_corrupt_read_gives_no_last_byte(void) {
    tg_engine *engine = engine_with("attempts", "1", NULL);
    tg_store *store = bucket(engine);
    unsigned char *bytes = content(200000), *found = malloc(200000);
    tg_reader *reader;
    tg_error *error = NULL;
    size_t at = 0, read = 1;
    OK(tg_put(store, key("corrupt"), bytes, 200000, NULL, NULL));
    OK(tg_reader_open(store, key("corrupt"), NULL, &reader));
    while (error == NULL && read > 0) {
        error = tg_reader_read(reader, found, 200000, &read);
        at += error == NULL ? read : 0;
    }
    CHECK(tg_error_kind(error) == TG_KIND_INTEGRITY && at < 200000);
    tg_error_free(error);
    FAILS(TG_KIND_CLOSED, tg_reader_read(reader, found, 1, &read));
    tg_reader_free(reader);
    tg_store_free(store);
    tg_engine_free(engine);
    free(bytes);
    free(found);
}
