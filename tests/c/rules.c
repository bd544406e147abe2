/* A test for each rule of the header. */
#include "check.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#ifdef PANICS
void tg_test_panic(int32_t place);
#endif

/* Waits for a child, which has ended by itself. */
static void joined(pid_t child) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int released;

static void release(void *data, size_t length, void *user) {
    (void)data, (void)length, (void)user;
    __atomic_fetch_add(&released, 1, __ATOMIC_SEQ_CST);
}

static void never_done(void *user, tg_error *error) {
    (void)user, (void)error;
    CHECK(!"done runs although the call has failed");
}

void a_forked_child_is_inert(void) {
    tg_engine *engine = engine_with("memory", "64MiB", NULL), *own;
    tg_store *store = bucket(engine), *again;
    unsigned char *bytes = content(6 * MIB), found[8];
    tg_object *object = NULL;
    const tg_entry *entries;
    tg_progress progress;
    tg_writer *writer, *other;
    tg_reader *reader;
    tg_list *list;
    waiter waiter;
    size_t size;
    uint64_t number;
    char *json;
    pid_t child;
    tg_str k = key("forked");
    const int32_t kind = TG_KIND_FORKED;
    progress.struct_size = sizeof progress;
    waiter_init(&waiter);
    OK(tg_put(store, key("before"), "12345678", 8, NULL, NULL));
    OK(tg_writer_open(store, k, NULL, &writer));
    OK(tg_writer_write(writer, bytes, 6 * MIB));
    OK(tg_reader_open(store, key("before"), NULL, &reader));
    OK(tg_list_open(store, key(""), NULL, &list));
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        FAILS(kind, tg_engine_wait_for_aborts(engine, 10));
        FAILS(kind, tg_engine_memory(engine, NULL, NULL, NULL));
        FAILS(kind, tg_engine_progress(engine, &progress));
        FAILS(kind, tg_store_open(engine, "memory://a", NULL, &again));
        FAILS(kind, tg_put(store, k, "a", 1, NULL, NULL));
        FAILS(kind, tg_put_async(store, k, "a", 1, NULL, NULL, never_done, NULL, NULL));
        FAILS(kind, tg_head(store, k, &object));
        FAILS(kind, tg_delete(store, k));
        FAILS(kind, tg_delete_many(store, &k, 1, NULL));
        FAILS(kind, tg_copy(store, k, store, k, NULL, NULL));
        FAILS(kind, tg_rename(store, k, k, NULL));
        FAILS(kind, tg_list_next(list, &entries, &size));
        FAILS(kind, tg_writer_open(store, k, NULL, &other));
        FAILS(kind, tg_writer_write(writer, "a", 1));
        FAILS(kind, tg_writer_write_async(writer, "a", 1, never_done, NULL, NULL));
        FAILS(kind, tg_writer_try_write(writer, "a", 1, &size));
        FAILS(kind, tg_writer_write_owned(writer, bytes, 10, release, NULL));
        CHECK(released == 1);
        FAILS(kind, tg_writer_sync(writer, &number));
        FAILS(kind, tg_writer_finish(writer, NULL));
        FAILS(kind, tg_writer_prepare(writer, &json));
        FAILS(kind, tg_writer_persist(writer, &json));
        FAILS(kind, tg_writer_abort(writer));
        FAILS(kind, tg_writer_progress(writer, &progress));
        CHECK(tg_writer_position(writer) == 0);
        FAILS(kind, tg_reader_read(reader, found, 1, &size));
        FAILS(kind, tg_reader_read_at(reader, 0, found, 1, &size));
        tg_writer_cancel(writer);
        tg_reader_cancel(reader);
        tg_writer_free(writer);
        tg_reader_free(reader);
        tg_list_free(list);
        tg_store_free(store);
        tg_engine_free(engine);
        /* New engines work. */
        own = engine_with("memory", "64MiB", NULL);
        again = bucket(own);
        OK(tg_put(again, key("of-child"), bytes, 6 * MIB, NULL, NULL));
        tg_store_free(again);
        tg_engine_free(own);
        _exit(0);
    }
    joined(child);
    OK(tg_writer_write(writer, bytes, 100));
    OK(tg_writer_finish(writer, &object));
    CHECK(tg_object_size(object) == 6 * MIB + 100 && is_there(store, "of-child"));
    OK(tg_reader_read(reader, found, 8, &size));
    CHECK(size == 8 && memcmp(found, "12345678", 8) == 0);
    tg_object_free(object);
    tg_writer_free(writer);
    tg_reader_free(reader);
    tg_list_free(list);
    tg_store_free(store);
    tg_engine_free(engine);
    free(bytes);
}

/* A child that outlives its parent does not keep the parent's journals. */
void a_forked_child_gives_up_the_journals(void) {
    char *journals = path_to("fork-journals");
    tg_engine *engine = engine_with("memory", "64MiB", "journal", journals, NULL);
    tg_store *store = store_at(engine, "memory://journaled");
    tg_options *options = tg_options_new();
    tg_unfinished_list *list;
    tg_writer *writer;
    int wake[2];
    pid_t child;
    char byte;
    OK(tg_options_set(options, "strategy", "journal"));
    OK(tg_writer_open(store, key("j"), options, &writer));
    OK(tg_writer_write(writer, "some", 4));
    CHECK(pipe(wake) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(wake[1]);
        _exit(read(wake[0], &byte, 1) == 0 ? 0 : 1);
    }
    tg_writer_free(writer);
    OK(tg_engine_wait_for_aborts(engine, 20000));
    for (;;) {
        OK(tg_recover(engine, &list));
        CHECK(tg_unfinished_count(list) == 1);
        if (tg_unfinished_problem(list, 0) == NULL) break;
        /* The child may not have run its handler yet. */
        tg_unfinished_list_free(list);
        usleep(1000);
    }
    OK(tg_unfinished_abort(list, 0, store, NULL));
    tg_unfinished_list_free(list);
    close(wake[1]);
    joined(child);
    close(wake[0]);
    tg_options_free(options);
    tg_store_free(store);
    tg_engine_free(engine);
    free(journals);
}

#ifdef PANICS
void panics_end_at_the_border(void) {
    tg_engine *engine = engine_with("memory", "64MiB", NULL);
    tg_store *store = store_at(engine, "memory://panics");
    tg_object *object = NULL;
    tg_writer *writer, *other;
    tg_reader *reader;
    const tg_entry *entries;
    tg_list *list;
    waiter waiter;
    size_t size;
    char byte;
    waiter_init(&waiter);
    OK(tg_put(store, key("k"), "bytes", 5, NULL, NULL));
    OK(tg_writer_open(store, key("other"), NULL, &other));
    tg_test_panic(1);
    FAILS(TG_KIND_PANIC, tg_head(store, key("k"), &object));
    tg_test_panic(2);
    FAILS(TG_KIND_PANIC, tg_head(store, key("k"), &object));
    tg_test_panic(1);
    FAILS(TG_KIND_PANIC, tg_head_async(store, key("k"), &object, never_done, NULL, NULL));
    tg_test_panic(2);
    OK(tg_head_async(store, key("k"), &object, waiter_done, &waiter, NULL));
    CHECK(waiter_wait(&waiter) == TG_KIND_PANIC && object == NULL);

    OK(tg_writer_open(store, key("never"), NULL, &writer));
    tg_test_panic(2);
    FAILS(TG_KIND_PANIC, tg_writer_write(writer, "a", 1));
    FAILS(TG_KIND_CLOSED, tg_writer_write(writer, "b", 1));
    FAILS(TG_KIND_CLOSED, tg_writer_finish(writer, NULL));
    tg_writer_free(writer);
    OK(tg_writer_open(store, key("never"), NULL, &writer));
    OK(tg_writer_write(writer, "a", 1));
    tg_test_panic(2);
    OK(tg_writer_finish_async(writer, &object, waiter_done, &waiter, NULL));
    CHECK(waiter_wait(&waiter) == TG_KIND_PANIC);
    FAILS(TG_KIND_CLOSED, tg_writer_finish(writer, NULL));
    tg_writer_free(writer);
    CHECK(!is_there(store, "never"));

    OK(tg_reader_open(store, key("k"), NULL, &reader));
    tg_test_panic(2);
    FAILS(TG_KIND_PANIC, tg_reader_read_at(reader, 0, &byte, 1, &size));
    OK(tg_reader_read_at(reader, 0, &byte, 1, &size));
    tg_reader_free(reader);
    OK(tg_list_open(store, key(""), NULL, &list));
    tg_test_panic(2);
    FAILS(TG_KIND_PANIC, tg_list_next(list, &entries, &size));
    /* Its next page would lack what the panic took. */
    FAILS(TG_KIND_CLOSED, tg_list_next(list, &entries, &size));
    tg_list_free(list);

    /* Other handles go on. */
    OK(tg_writer_write(other, "a", 1));
    OK(tg_writer_finish(other, NULL));
    CHECK(is_there(store, "other"));
    tg_writer_free(other);
    tg_store_free(store);
    tg_engine_free(engine);
}
#endif

/* What a callback looks at while it runs. */
typedef struct {
    waiter *waiter;
    const tg_entry *entries;
    size_t count;
    bool is_right;
} page;

static void page_done(void *user, tg_error *error) {
    page *page = user;
    page->is_right = error == NULL && page->count == 1 && page->entries[0].key.length == 6 &&
                     memcmp(page->entries[0].key.data, "listed", 6) == 0;
    waiter_done(page->waiter, error);
}

void handles_are_freed_during_asynchronous_calls(void) {
    tg_engine *engine = engine_with("memory", "64MiB", NULL);
    tg_store *store = bucket(engine);
    unsigned char *bytes = content(20 * MIB), found[100];
    tg_options *options = tg_options_new();
    page page = {NULL, NULL, 0, false};
    tg_object *object = NULL;
    tg_writer *writer;
    tg_reader *reader;
    tg_list *list;
    waiter waiter;
    size_t size = 77;
    int32_t kind;
    tg_op *op;
    waiter_init(&waiter);
    OK(tg_options_set(options, "random", "true"));
    OK(tg_put(store, key("hold-get"), bytes, 1000, NULL, NULL));

    OK(tg_writer_open(store, key("hold-part-6"), NULL, &writer));
    OK(tg_writer_write_async(writer, bytes, 20 * MIB, waiter_done, &waiter, &op));
    tg_op_free(op);
    tg_writer_free(writer);
    kind = waiter_wait(&waiter);
    CHECK(kind == TG_KIND_CANCELLED || kind == 0);
    OK(tg_writer_open(store, key("hold-put"), NULL, &writer));
    OK(tg_writer_write(writer, bytes, 100));
    OK(tg_writer_finish_async(writer, &object, waiter_done, &waiter, NULL));
    tg_writer_free(writer);
    CHECK(waiter_wait(&waiter) == TG_KIND_CANCELLED && object == NULL);

    OK(tg_reader_open(store, key("hold-get"), options, &reader));
    OK(tg_reader_read_at_async(reader, 0, found, 100, &size, waiter_done, &waiter, NULL));
    tg_reader_free(reader);
    CHECK(waiter_wait(&waiter) == TG_KIND_CANCELLED && size == 77);
    OK(tg_put(store, key("listed"), "a", 1, NULL, NULL));
    OK(tg_list_open(store, key("listed"), NULL, &list));
    page.waiter = &waiter;
    OK(tg_list_next_async(list, &page.entries, &page.count, page_done, &page, NULL));
    tg_list_free(list);
    CHECK(waiter_wait(&waiter) == 0 && page.is_right);
    /* The store and the engine too. */
    OK(tg_head_async(store, key("listed"), &object, waiter_done, &waiter, NULL));
    tg_store_free(store);
    tg_engine_free(engine);
    CHECK(waiter_wait(&waiter) == 0 && tg_object_size(object) == 1);
    tg_object_free(object);
    tg_options_free(options);
    free(bytes);
}

typedef struct {
    tg_store *store;
    tg_writer *writer;
    tg_object *object;
    waiter waiter;
} chain;

static void finished(void *user, tg_error *error) {
    chain *it = user;
    CHECK(error == NULL);
    tg_writer_free(it->writer);
    waiter_done(&it->waiter, error);
}

static void written(void *user, tg_error *error) {
    chain *it = user;
    tg_object *object = NULL;
    size_t taken = 0;
    CHECK(error == NULL);
    FAILS(TG_KIND_INVALID_INPUT, tg_writer_write(it->writer, "b", 1));
    FAILS(TG_KIND_INVALID_INPUT, tg_writer_finish(it->writer, NULL));
    FAILS(TG_KIND_INVALID_INPUT, tg_head(it->store, key("chain"), &object));
    OK(tg_writer_try_write(it->writer, "b", 1, &taken));
    CHECK(taken == 1 && tg_writer_position(it->writer) == 2);
    OK(tg_writer_finish_async(it->writer, &it->object, finished, it, NULL));
}

void callbacks_call_what_does_not_block(void) {
    tg_engine *engine = engine_with("memory", "64MiB", NULL);
    chain it;
    it.store = store_at(engine, "memory://callbacks");
    it.object = NULL;
    waiter_init(&it.waiter);
    OK(tg_writer_open(it.store, key("chain"), NULL, &it.writer));
    OK(tg_writer_write_async(it.writer, "a", 1, written, &it, NULL));
    CHECK(waiter_wait(&it.waiter) == 0 && tg_object_size(it.object) == 2);
    tg_object_free(it.object);
    tg_store_free(it.store);
    tg_engine_free(engine);
}

void a_second_call_at_the_same_moment_is_refused(void) {
    tg_engine *engine = engine_with("memory", "64MiB", NULL);
    tg_store *store = bucket(engine);
    tg_object *object = NULL;
    tg_writer *writer;
    waiter waiter;
    size_t taken = 77;
    char *json = NULL;
    const int32_t kind = TG_KIND_INVALID_INPUT;
    waiter_init(&waiter);
    released = 0;
    OK(tg_writer_open(store, key("hold-put"), NULL, &writer));
    OK(tg_writer_write(writer, "a", 1));
    OK(tg_writer_finish_async(writer, &object, waiter_done, &waiter, NULL));
    FAILS(kind, tg_writer_write(writer, "b", 1));
    FAILS(kind, tg_writer_try_write(writer, "b", 1, &taken));
    FAILS(kind, tg_writer_write_async(writer, "b", 1, never_done, NULL, NULL));
    FAILS(kind, tg_writer_write_owned(writer, &taken, 1, release, NULL));
    FAILS(kind, tg_writer_finish(writer, NULL));
    FAILS(kind, tg_writer_prepare(writer, &json));
    FAILS(kind, tg_writer_persist(writer, &json));
    FAILS(kind, tg_writer_abort(writer));
    CHECK(taken == 77 && json == NULL && released == 1 && tg_writer_position(writer) == 1);
    tg_writer_cancel(writer);
    CHECK(waiter_wait(&waiter) == TG_KIND_CANCELLED);
    tg_writer_free(writer);
    tg_store_free(store);
    tg_engine_free(engine);
}

/* The server resets the connection in the middle of a part. Not every reset meets a write that sends the signal: five do
 * almost surely. a_sigpipe_of_the_library_ends_no_program leaves nothing to chance. */
void a_closed_socket_raises_no_signal(void) {
    static const char *const names[] = {"reset-1", "reset-2", "reset-3", "reset-4", "reset-5"};
    tg_engine *engine = engine_with("memory", "64MiB", NULL);
    tg_store *store = bucket(engine);
    unsigned char *bytes = content(12 * MIB);
    struct sigaction action;
    tg_progress progress;
    tg_writer *writer;
    size_t i;
    CHECK(sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        OK(tg_writer_open(store, key(names[i]), NULL, &writer));
        OK(tg_writer_write(writer, bytes, 12 * MIB));
        OK(tg_writer_finish(writer, NULL));
        progress.struct_size = sizeof progress;
        OK(tg_writer_progress(writer, &progress));
        CHECK(progress.retries > 0);
        tg_writer_free(writer);
        check_content(store, names[i], 12 * MIB);
    }
    CHECK(sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    tg_store_free(store);
    tg_engine_free(engine);
    free(bytes);
}

/* A pipe that nobody reads: a write to it sends SIGPIPE to the thread that writes. */
static int broken_pipe;

static void break_a_pipe(void) {
    int ends[2];
    CHECK(pipe(ends) == 0 && close(ends[0]) == 0);
    broken_pipe = ends[1];
}

static void writes_to_the_broken_pipe(void) {
    CHECK(write(broken_pipe, "a", 1) == -1 && errno == EPIPE);
}

static void release_writes(void *data, size_t length, void *user) {
    writes_to_the_broken_pipe();
    release(data, length, user);
}

static void done_writes(void *user, tg_error *error) {
    writes_to_the_broken_pipe();
    waiter_done(user, error);
}

/* Whether SIGPIPE is in the set that this thread blocks, and whether one waits for it. */
static bool blocks_sigpipe(void) {
    sigset_t now;
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
    return sigismember(&now, SIGPIPE) == 1;
}

static bool has_a_sigpipe(void) {
    sigset_t pending;
    CHECK(sigpending(&pending) == 0);
    return sigismember(&pending, SIGPIPE) == 1;
}

/* SIGPIPE, which by default ends the program, is raised where the library writes to its sockets: on a thread of the
 * engine, and on this thread during a call. */
void a_sigpipe_of_the_library_ends_no_program(void) {
    tg_engine *engine = engine_with("memory", "64MiB", NULL);
    tg_store *store = store_at(engine, "memory://signals");
    struct sigaction action;
    tg_object *object;
    tg_writer *writer;
    waiter waiter;
    sigset_t sigpipe;
    waiter_init(&waiter);
    break_a_pipe();
    released = 0;
    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    CHECK(sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL && !blocks_sigpipe());
    OK(tg_put(store, key("a"), "a", 1, NULL, NULL));
    OK(tg_head_async(store, key("a"), &object, done_writes, &waiter, NULL));
    CHECK(waiter_wait(&waiter) == 0);
    tg_object_free(object);
    /* Few bytes are copied, and given back before the call returns. */
    OK(tg_writer_open(store, key("b"), NULL, &writer));
    OK(tg_writer_write_owned(writer, "b", 1, release_writes, NULL));
    CHECK(released == 1 && !blocks_sigpipe() && !has_a_sigpipe());
    /* One that waits for a program that blocks it goes on waiting. */
    CHECK(pthread_sigmask(SIG_BLOCK, &sigpipe, NULL) == 0 && raise(SIGPIPE) == 0);
    OK(tg_writer_write_owned(writer, "c", 1, release_writes, NULL));
    CHECK(released == 2 && blocks_sigpipe() && has_a_sigpipe());
    tg_writer_free(writer);
    tg_store_free(store);
    tg_engine_free(engine);
}

/* A thread that makes calls, and counts them. */
static struct {
    tg_engine *engine;
    unsigned long count;
    bool ends;
} calling;

static void *calls(void *user) {
    (void)user;
    while (!__atomic_load_n(&calling.ends, __ATOMIC_SEQ_CST)) {
        OK(tg_engine_memory(calling.engine, NULL, NULL, NULL));
        __atomic_fetch_add(&calling.count, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void ignore(int signal) { (void)signal; }

/* A SIGPIPE from outside is seen at the end of a call, and gone to another thread before the call takes it. */
void a_sigpipe_that_another_took_is_not_waited_for(void) {
    enum { ROUNDS = 30000 };
    const struct timespec at_once = {0, 0};
    struct sigaction action;
    pthread_t thread;
    sigset_t sigpipe;
    unsigned long before;
    int round;
    memset(&action, 0, sizeof action);
    action.sa_handler = ignore;
    action.sa_flags = SA_RESTART;
    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    CHECK(sigaction(SIGPIPE, &action, NULL) == 0);
    calling.engine = engine_with("memory", "64MiB", NULL);
    CHECK(pthread_create(&thread, NULL, calls, NULL) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &sigpipe, NULL) == 0);
    for (round = 0; round < ROUNDS; round++) {
        CHECK(kill(getpid(), SIGPIPE) == 0);
        sigtimedwait(&sigpipe, NULL, &at_once);
        if (round % 100 == 0) {
            before = __atomic_load_n(&calling.count, __ATOMIC_SEQ_CST);
            UNTIL(__atomic_load_n(&calling.count, __ATOMIC_SEQ_CST) > before);
        }
    }
    __atomic_store_n(&calling.ends, true, __ATOMIC_SEQ_CST);
    CHECK(pthread_join(thread, NULL) == 0);
    tg_engine_free(calling.engine);
}

void a_thousand_writers_share_16_mib(void) {
    enum { WRITERS = 1000, PIECE = 5000, ROUNDS = 4 };
    static tg_writer *writers[WRITERS];
    char *spool = path_to("spool"), name[32];
    tg_engine *engine = engine_with("memory", "16MiB", "spool", spool, NULL);
    tg_store *store = store_at(engine, "memory://thousand");
    unsigned char *bytes = content(PIECE * ROUNDS);
    uint64_t total, peak;
    int i, round;
    for (i = 0; i < WRITERS; i++) {
        sprintf(name, "thousand/%d", i);
        OK(tg_writer_open(store, key(name), NULL, &writers[i]));
    }
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < WRITERS; i++) OK(tg_writer_write(writers[i], bytes + round * PIECE, PIECE));
    }
    for (i = 0; i < WRITERS; i++) {
        if (i % 2 == 0) OK(tg_writer_finish(writers[i], NULL));
        tg_writer_free(writers[i]);
    }
    OK(tg_engine_memory(engine, &total, NULL, &peak));
    CHECK(total == 16 * MIB && peak <= 16 * MIB);
    for (i = 0; i < WRITERS; i += 100) {
        sprintf(name, "thousand/%d", i);
        check_content(store, name, PIECE * ROUNDS);
        sprintf(name, "thousand/%d", i + 1);
        CHECK(!is_there(store, name));
    }
    tg_store_free(store);
    tg_engine_free(engine);
    free(bytes);
    free(spool);
}
