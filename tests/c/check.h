/* What every test uses: checks that end the program with the place and the reason. */
#ifndef CHECK_H
#define CHECK_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tidegate.h"

#define CHECK(fact) ((fact) ? (void)0 : check_failed(__FILE__, __LINE__, #fact))
/* A call that succeeds. */
#define OK(call) check_ok((call), __FILE__, __LINE__, #call)
/* A call that fails with this kind. */
#define FAILS(kind, call) check_fails((kind), (call), __FILE__, __LINE__, #call)
/* The same, whose message has these words, and which names what it is about. */
#define SAYS(kind, words, call) check_says((kind), (words), (call), __FILE__, __LINE__, #call)
#define MIB ((size_t)1 << 20)

void check_failed(const char *file, int line, const char *fact);
void check_ok(tg_error *error, const char *file, int line, const char *call);
void check_fails(int32_t kind, tg_error *error, const char *file, int line, const char *call);
void check_says(int32_t kind, const char *words, tg_error *error, const char *file, int line, const char *call);

/* A key. */
tg_str key(const char *text);
/* What an environment variable says. */
const char *setting(const char *name);
/* An engine with options, which are names and values up to a NULL. */
tg_engine *engine_with(const char *first, ...);
/* The test's bucket on the server, and other stores. */
tg_store *bucket(tg_engine *engine);
tg_store *store_at(tg_engine *engine, const char *url);
/* A path in the test's own directory. */
char *path_to(const char *name);
/* Bytes of which no two places close to each other are the same. */
unsigned char *content(size_t length);
/* Whether a store has an object. */
int is_there(tg_store *store, const char *name);
/* Checks that an object has the first bytes of `content`. */
void check_content(tg_store *store, const char *name, size_t length);
/* A file of text. */
void write_text(const char *name, const char *text);
char *read_text(const char *name);

/* Waits until a condition holds, and fails after 30 seconds. */
#define UNTIL(condition)                                              \
    do {                                                              \
        time_t until_ = time(NULL) + 30;                              \
        while (!(condition)) {                                        \
            if (time(NULL) > until_) check_failed(__FILE__, __LINE__, "in time: " #condition); \
            usleep(1000);                                             \
        }                                                             \
    } while (0)

/* The end of an asynchronous call. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int count;
    int32_t kind;
} waiter;

void waiter_init(waiter *waiter);
void waiter_done(void *user, tg_error *error);
/* Waits for the end; the kind of the error, or 0. */
int32_t waiter_wait(waiter *waiter);

#endif
