#include "check.h"

#include <stdarg.h>

void check_failed(const char *file, int line, const char *fact) {
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, fact);
    abort();
}

void check_ok(tg_error *error, const char *file, int line, const char *call) {
    if (error != NULL) {
        fprintf(stderr, "%s:%d: %s: %s: %s\n", file, line, call, tg_error_kind_name(error), tg_error_message(error));
        abort();
    }
}

void check_fails(int32_t kind, tg_error *error, const char *file, int line, const char *call) {
    if (tg_error_kind(error) != kind) {
        fprintf(stderr, "%s:%d: %s: kind %d instead of %d: %s\n", file, line, call, tg_error_kind(error), kind,
                error == NULL ? "it succeeded" : tg_error_message(error));
        abort();
    }
    CHECK(strlen(tg_error_message(error)) > 0 && strlen(tg_error_kind_name(error)) > 0);
    CHECK(tg_error_operation(error) != NULL && tg_error_url(error) != NULL);
    tg_error_free(error);
}

void check_says(int32_t kind, const char *words, tg_error *error, const char *file, int line, const char *call) {
    if (error != NULL && (strstr(tg_error_message(error), words) == NULL || strlen(tg_error_url(error)) == 0)) {
        fprintf(stderr, "%s:%d: %s: not '%s': %s\n", file, line, call, words, tg_error_message(error));
        abort();
    }
    check_fails(kind, error, file, line, call);
}

tg_str key(const char *text) {
    tg_str key = {text, strlen(text)};
    return key;
}

const char *setting(const char *name) {
    const char *value = getenv(name);
    if (value == NULL) check_failed(__FILE__, __LINE__, name);
    return value;
}

tg_engine *engine_with(const char *first, ...) {
    tg_options *options = tg_options_new();
    tg_engine *engine;
    const char *name;
    va_list more;
    va_start(more, first);
    for (name = first; name != NULL; name = va_arg(more, const char *)) {
        OK(tg_options_set(options, name, va_arg(more, const char *)));
    }
    va_end(more);
    OK(tg_engine_new(options, &engine));
    tg_options_free(options);
    return engine;
}

tg_store *bucket(tg_engine *engine) {
    tg_options *options = tg_options_new();
    tg_store *store;
    OK(tg_options_set(options, "endpoint_url", setting("ENDPOINT")));
    OK(tg_options_set(options, "access_key", "tidegate"));
    OK(tg_options_set(options, "secret_key", "tidegate"));
    OK(tg_options_set(options, "region", "us-east-1"));
    OK(tg_options_set(options, "kept_conditions", "true"));
    OK(tg_store_open(engine, setting("BUCKET"), options, &store));
    tg_options_free(options);
    return store;
}

tg_store *store_at(tg_engine *engine, const char *url) {
    tg_store *store;
    OK(tg_store_open(engine, url, NULL, &store));
    return store;
}

char *path_to(const char *name) {
    const char *directory = setting("DIRECTORY");
    char *path = malloc(strlen(directory) + strlen(name) + 2);
    CHECK(path != NULL);
    sprintf(path, "%s/%s", directory, name);
    return path;
}

unsigned char *content(size_t length) {
    unsigned char *bytes = malloc(length + 1);
    unsigned int state = 1;
    size_t i;
    CHECK(bytes != NULL);
    for (i = 0; i < length; i++) {
        state = state * 1103515245u + 12345u;
        bytes[i] = (unsigned char)(state >> 16);
    }
    return bytes;
}

int is_there(tg_store *store, const char *name) {
    tg_object *object = NULL;
    tg_error *error = tg_head(store, key(name), &object);
    int found = error == NULL;
    CHECK(found || tg_error_kind(error) == TG_KIND_NOT_FOUND);
    tg_error_free(error);
    tg_object_free(object);
    return found;
}

void check_content(tg_store *store, const char *name, size_t length) {
    unsigned char *wanted = content(length), *found = malloc(length + 1);
    tg_reader *reader;
    size_t read;
    OK(tg_reader_open(store, key(name), NULL, &reader));
    CHECK(tg_reader_size(reader) == length);
    OK(tg_reader_read_at(reader, 0, found, length, &read));
    CHECK(read == length && memcmp(wanted, found, length) == 0);
    tg_reader_free(reader);
    free(wanted);
    free(found);
}

void write_text(const char *name, const char *text) {
    char *path = path_to(name);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    free(path);
}

char *read_text(const char *name) {
    char *path = path_to(name), *text = calloc(1, 1 << 16);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && text != NULL && fread(text, 1, (1 << 16) - 1, file) > 0 && fclose(file) == 0);
    free(path);
    return text;
}

void waiter_init(waiter *waiter) {
    pthread_mutex_init(&waiter->lock, NULL);
    pthread_cond_init(&waiter->ended, NULL);
    waiter->count = 0;
    waiter->kind = 0;
}

void waiter_done(void *user, tg_error *error) {
    waiter *it = user;
    pthread_mutex_lock(&it->lock);
    it->count++;
    it->kind = tg_error_kind(error);
    tg_error_free(error);
    pthread_cond_broadcast(&it->ended);
    pthread_mutex_unlock(&it->lock);
}

int32_t waiter_wait(waiter *waiter) {
    struct timespec limit;
    int32_t kind;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 60;
    pthread_mutex_lock(&waiter->lock);
    while (waiter->count == 0) {
        CHECK(pthread_cond_timedwait(&waiter->ended, &waiter->lock, &limit) == 0);
    }
    CHECK(waiter->count == 1);
    kind = waiter->kind;
    waiter->count = 0;
    pthread_mutex_unlock(&waiter->lock);
    return kind;
}
