/* Cancelled at every wait. The server never answers some requests of keys that begin with `hold-`. */
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

typedef struct {
    pthread_t thread;
    tg_error *error;
    tg_writer *writer;
    tg_reader *reader;
    unsigned char *bytes;
    size_t length, read;
    char *json;
} caller;

static void *writes(void *user) {
    caller *it = user;
    while (it->error == NULL) it->error = tg_writer_write(it->writer, it->bytes, it->length);
    return NULL;
}

static void *finishes(void *user) {
    caller *it = user;
    it->error = tg_writer_finish(it->writer, NULL);
    return NULL;
}

static void *prepares(void *user) {
    caller *it = user;
    it->error = tg_writer_prepare(it->writer, &it->json);
    return NULL;
}

static void *persists(void *user) {
    caller *it = user;
    it->error = tg_writer_persist(it->writer, &it->json);
    return NULL;
}

static void *aborts(void *user) {
    caller *it = user;
    it->error = tg_writer_abort(it->writer);
    return NULL;
}

static void *reads(void *user) {
    caller *it = user;
    it->error = tg_reader_read(it->reader, it->bytes, it->length, &it->read);
    return NULL;
}

static void *reads_at(void *user) {
    caller *it = user;
    it->error = tg_reader_read_at(it->reader, 0, it->bytes, it->length, &it->read);
    return NULL;
}

static void *reads_ranges(void *user) {
    caller *it = user;
    tg_range range = {0, it->length, it->bytes};
    it->error = tg_reader_read_ranges(it->reader, &range, 1);
    return NULL;
}

static uint64_t requests(tg_engine *engine) {
    tg_progress progress;
    progress.struct_size = sizeof progress;
    OK(tg_engine_progress(engine, &progress));
    return progress.requests;
}

static int waits(tg_writer *writer) {
    tg_progress progress;
    progress.struct_size = sizeof progress;
    OK(tg_writer_progress(writer, &progress));
    return progress.waiting != TG_WAITING_NONE;
}

static void is_cancelled(caller *caller) {
    CHECK(pthread_join(caller->thread, NULL) == 0);
    FAILS(TG_KIND_CANCELLED, caller->error);
    caller->error = NULL;
}

/* A writer whose last call waits for an answer. */
static void cancel_writer(tg_engine *engine, tg_store *store, const char *name, void *(*call)(void *), size_t length) {
    unsigned char *bytes = content(length);
    uint64_t before;
    caller it;
    memset(&it, 0, sizeof it);
    OK(tg_writer_open(store, key(name), NULL, &it.writer));
    OK(tg_writer_write(it.writer, bytes, length));
    /* Until parts that were full have ended, so that the next request is that of the call. */
    if (length > 8 * MIB) UNTIL(requests(engine) > 1 && !waits(it.writer));
    before = requests(engine);
    CHECK(pthread_create(&it.thread, NULL, call, &it) == 0);
    UNTIL(requests(engine) > before);
    tg_writer_cancel(it.writer);
    is_cancelled(&it);
    FAILS(TG_KIND_CANCELLED, tg_writer_write(it.writer, "a", 1));
    FAILS(TG_KIND_CANCELLED, tg_writer_finish(it.writer, NULL));
    CHECK(it.json == NULL);
    tg_writer_free(it.writer);
    free(bytes);
}

void cancelled_while_it_waits_for_memory(void) {
    tg_engine *engine = engine_with("memory", "16MiB", NULL);
    tg_store *store = bucket(engine);
    unsigned char *bytes = content(MIB);
    caller it;
    memset(&it, 0, sizeof it);
    it.bytes = bytes, it.length = MIB;
    OK(tg_writer_open(store, key("hold-part"), NULL, &it.writer));
    CHECK(pthread_create(&it.thread, NULL, writes, &it) == 0);
    UNTIL(waits(it.writer));
    tg_writer_cancel(it.writer);
    is_cancelled(&it);
    FAILS(TG_KIND_CANCELLED, tg_writer_finish(it.writer, NULL));
    tg_writer_free(it.writer);
    CHECK(!is_there(store, "hold-part"));
    tg_store_free(store);
    tg_engine_free(engine);
    free(bytes);
}

void cancelled_while_it_finishes(void) {
    tg_engine *engine = engine_with("memory", "64MiB", NULL);
    tg_store *store = bucket(engine);
    cancel_writer(engine, store, "hold-part-1", finishes, 6 * MIB);
    cancel_writer(engine, store, "hold-part-2", prepares, 6 * MIB);
    cancel_writer(engine, store, "hold-part-3", persists, 6 * MIB);
    tg_store_free(store);
    tg_engine_free(engine);
}

void cancelled_while_it_publishes(void) {
    tg_engine *engine = engine_with("memory", "64MiB", NULL);
    tg_store *store = bucket(engine);
    cancel_writer(engine, store, "hold-put", finishes, 1000);
    tg_store_free(store);
    tg_engine_free(engine);
}

void cancelled_while_it_aborts(void) {
    tg_engine *engine = engine_with("memory", "64MiB", "attempts", "1", NULL);
    tg_store *store = bucket(engine);
    unsigned char *bytes = content(20 * MIB);
    caller it;
    uint64_t before;
    tg_progress progress;
    memset(&it, 0, sizeof it);
    progress.struct_size = sizeof progress;
    OK(tg_writer_open(store, key("hold-abort"), NULL, &it.writer));
    OK(tg_writer_write(it.writer, bytes, 20 * MIB));
    do {
        usleep(1000);
        OK(tg_writer_progress(it.writer, &progress));
    } while (progress.acknowledged == 0 || progress.in_flight > 0);
    before = requests(engine);
    CHECK(pthread_create(&it.thread, NULL, aborts, &it) == 0);
    UNTIL(requests(engine) > before);
    tg_writer_cancel(it.writer);
    is_cancelled(&it);
    tg_writer_free(it.writer);
    CHECK(!is_there(store, "hold-abort"));
    FAILS(TG_KIND_TIMEOUT, tg_engine_wait_for_aborts(engine, 100));
    tg_store_free(store);
    tg_engine_free(engine);
    free(bytes);
}

static void cancel_reader(tg_engine *engine, tg_store *store, void *(*call)(void *)) {
    tg_options *options = tg_options_new();
    unsigned char bytes[100];
    uint64_t before;
    caller it;
    memset(&it, 0, sizeof it);
    it.bytes = bytes, it.length = sizeof bytes, it.read = 77;
    OK(tg_options_set(options, "random", "true"));
    OK(tg_reader_open(store, key("hold-get"), options, &it.reader));
    before = requests(engine);
    CHECK(pthread_create(&it.thread, NULL, call, &it) == 0);
    UNTIL(requests(engine) > before);
    tg_reader_cancel(it.reader);
    is_cancelled(&it);
    CHECK(it.read == 77);
    FAILS(TG_KIND_CANCELLED, tg_reader_read_at(it.reader, 0, bytes, 1, &it.read));
    tg_reader_free(it.reader);
    tg_options_free(options);
}

void cancelled_while_it_reads(void) {
    tg_engine *engine = engine_with("memory", "64MiB", NULL);
    tg_store *store = bucket(engine);
    unsigned char *bytes = content(1000);
    OK(tg_put(store, key("hold-get"), bytes, 1000, NULL, NULL));
    cancel_reader(engine, store, reads);
    cancel_reader(engine, store, reads_at);
    cancel_reader(engine, store, reads_ranges);
    tg_store_free(store);
    tg_engine_free(engine);
    free(bytes);
}

/* Cancels an asynchronous call once its request is on its way. */
#define CANCEL(engine, call)                           \
    do {                                               \
        uint64_t before_ = requests(engine);           \
        OK(call);                                      \
        UNTIL(requests(engine) > before_);             \
        tg_op_cancel(op);                              \
        CHECK(waiter_wait(&waiter) == TG_KIND_CANCELLED); \
        tg_op_cancel(op);                              \
        tg_op_free(op);                                \
    } while (0)

/* A store whose server takes connections and never answers; the socket is to be closed. */
static tg_store *silent(tg_engine *engine, int *listener) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    tg_options *options = tg_options_new();
    tg_store *store;
    char url[64];
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(*listener, (struct sockaddr *)&address, length) == 0 && listen(*listener, 8) == 0);
    CHECK(getsockname(*listener, (struct sockaddr *)&address, &length) == 0);
    sprintf(url, "http://127.0.0.1:%d", ntohs(address.sin_port));
    OK(tg_options_set(options, "endpoint_url", url));
    OK(tg_options_set(options, "anonymous", "true"));
    OK(tg_store_open(engine, "s3://silent", options, &store));
    tg_options_free(options);
    return store;
}

void asynchronous_calls_are_cancelled(void) {
    tg_engine *engine = engine_with("memory", "64MiB", NULL);
    tg_engine *tight;
    tg_store *store = bucket(engine), *nowhere, *small;
    unsigned char *bytes = content(20 * MIB), found[100];
    tg_options *options = tg_options_new();
    tg_object *object = (tg_object *)found;
    int listener;
    const tg_entry *entries = NULL;
    size_t read = 77, count = 77;
    tg_range range = {0, 100, NULL};
    tg_reader *reader;
    tg_writer *writer;
    tg_list *list;
    waiter waiter;
    char *json = NULL, *pending;
    tg_op *op;
    range.to = found;
    waiter_init(&waiter);
    CANCEL(engine, tg_put_async(store, key("hold-put"), bytes, 10, NULL, &object, waiter_done, &waiter, &op));
    CANCEL(engine, tg_head_async(store, key("hold-head"), &object, waiter_done, &waiter, &op));
    nowhere = silent(engine, &listener);
    OK(tg_list_open(nowhere, key(""), NULL, &list));
    CANCEL(engine, tg_list_next_async(list, &entries, &count, waiter_done, &waiter, &op));
    tg_list_free(list);
    tg_store_free(nowhere);
    close(listener);
    OK(tg_put(store, key("hold-get"), bytes, 1000, NULL, NULL));
    OK(tg_options_set(options, "random", "true"));
    OK(tg_reader_open(store, key("hold-get"), options, &reader));
    CANCEL(engine, tg_reader_read_at_async(reader, 0, found, 100, &read, waiter_done, &waiter, &op));
    CANCEL(engine, tg_reader_read_ranges_async(reader, &range, 1, waiter_done, &waiter, &op));
    tg_reader_free(reader);

    tight = engine_with("memory", "16MiB", NULL);
    small = bucket(tight);
    OK(tg_writer_open(small, key("hold-part-4"), NULL, &writer));
    OK(tg_writer_write(writer, bytes, 1000));
    CANCEL(tight, tg_writer_write_async(writer, bytes, 20 * MIB, waiter_done, &waiter, &op));
    SAYS(TG_KIND_CLOSED, "nothing was published", tg_writer_finish(writer, NULL));
    tg_writer_free(writer);
    tg_store_free(small);
    tg_engine_free(tight);
    OK(tg_writer_open(store, key("hold-put"), NULL, &writer));
    OK(tg_writer_write(writer, bytes, 1000));
    CANCEL(engine, tg_writer_finish_async(writer, &object, waiter_done, &waiter, &op));
    SAYS(TG_KIND_CLOSED, "look with tg_head", tg_writer_finish(writer, NULL));
    SAYS(TG_KIND_CLOSED, "look with tg_head", tg_writer_abort(writer));
    tg_writer_free(writer);
    OK(tg_writer_open(store, key("hold-part-5"), NULL, &writer));
    OK(tg_writer_write(writer, bytes, 6 * MIB));
    CANCEL(engine, tg_writer_prepare_async(writer, &json, waiter_done, &waiter, &op));
    tg_writer_free(writer);
    OK(tg_writer_open(store, key("hold-complete"), NULL, &writer));
    OK(tg_writer_write(writer, bytes, 6 * MIB));
    OK(tg_writer_prepare(writer, &pending));
    tg_writer_free(writer);
    CANCEL(engine, tg_commit_async(store, pending, &object, waiter_done, &waiter, &op));
    CHECK((unsigned char *)object == found && json == NULL && entries == NULL && read == 77 && count == 77);
    CHECK(!is_there(store, "hold-part-4") && !is_there(store, "hold-part-5"));
    tg_string_free(pending);
    tg_options_free(options);
    tg_store_free(store);
    tg_engine_free(engine);
    free(bytes);
}
