/*
 * Prints ranges of an object in hexadecimal: read_ranges STORE KEY FIRST-LAST...
 *
 * All ranges are read by one call, in as few requests as fit, and all are of the same object: one that is replaced
 * meanwhile is an error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidegate.h>

static int failed(tg_error *error) {
    if (error == NULL) return 0;
    fprintf(stderr, "%s\n", tg_error_message(error));
    tg_error_free(error);
    return 1;
}

int main(int count, char **arguments) {
    tg_engine *engine = NULL;
    tg_store *store = NULL;
    tg_options *options = tg_options_new();
    tg_reader *reader = NULL;
    tg_range *ranges;
    tg_str key;
    size_t number, i, j;
    int status = 1;
    if (count < 4) {
        fprintf(stderr, "usage: read_ranges STORE KEY FIRST-LAST...\n");
        return 2;
    }
    key.data = arguments[2], key.length = strlen(arguments[2]);
    number = (size_t)count - 3;
    ranges = calloc(number, sizeof *ranges);
    if (ranges == NULL) return 1;
    for (i = 0; i < number; i++) {
        unsigned long long first, last;
        if (sscanf(arguments[i + 3], "%llu-%llu", &first, &last) != 2 || last < first) {
            fprintf(stderr, "%s is no range: write FIRST-LAST\n", arguments[i + 3]);
            goto end;
        }
        ranges[i].offset = first;
        ranges[i].length = (size_t)(last - first + 1);
        ranges[i].to = malloc(ranges[i].length);
        if (ranges[i].to == NULL) goto end;
    }
    /* Only ranges are read: the reader need not ask for all bytes. */
    if (failed(tg_options_set(options, "random", "true")) || failed(tg_engine_new(NULL, &engine)) ||
        failed(tg_store_open(engine, arguments[1], NULL, &store)) ||
        failed(tg_reader_open(store, key, options, &reader)) ||
        failed(tg_reader_read_ranges(reader, ranges, number))) {
        goto end;
    }
    for (i = 0; i < number; i++) {
        printf("%s: ", arguments[i + 3]);
        for (j = 0; j < ranges[i].length; j++) printf("%02x", ((unsigned char *)ranges[i].to)[j]);
        printf("\n");
    }
    status = 0;

end:
    for (i = 0; i < number; i++) free(ranges[i].to);
    free(ranges);
    tg_reader_free(reader);
    tg_options_free(options);
    tg_store_free(store);
    tg_engine_free(engine);
    return status;
}
