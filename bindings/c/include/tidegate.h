/*
 * Tidegate: byte streams into and out of object storage. docs/C.md is the guide; this is the contract.
 *
 * Errors. A function that can fail returns a tg_error: NULL is success, anything else is an error that the caller owns
 * (tg_error_free). Results go out through pointers, which are written on success only. A pointer may be NULL only where
 * that is said.
 *
 * Ownership. Each handle is freed once, by the function tg_..._free of its type, which takes NULL, reports nothing and
 * publishes nothing. A handle keeps alive what it came from: the order of frees does not matter. Strings that are
 * returned as const char * belong to the handle that they came from.
 *
 * Threads. Engines, stores, readers, objects, options that nobody sets, and errors may be used by many threads at once;
 * writers and listings by one at a time. What is freed must not be in use.
 *
 * Waiting. A function that says that it blocks waits for the network or a disk. On a thread of an engine, which is where
 * callbacks run, it fails with TG_KIND_INVALID_INPUT. An asynchronous form either returns an error, and then nothing was
 * begun and `done` never runs, or returns NULL, and then `done` runs exactly once. `op` may be NULL.
 *
 * Processes. After a fork, all handles of the parent are inert in the child: calls fail with TG_KIND_FORKED, and frees
 * leave the memory as it is. The child makes engines of its own. The library handles no signals, and raises none: writes
 * to closed sockets fail as errors, whatever SIGPIPE is set to. It is never unloaded.
 *
 * Callbacks run where SIGPIPE is blocked, and a program that one starts inherits that: unblock it in the child, between
 * fork and exec, or by posix_spawnattr_setsigmask. Never on the callback's own thread, where one may be pending.
 *
 * Exit. Handlers of atexit, and destructors of static and of thread-local objects, may make every call. Where a callback
 * calls exit, they run on a thread of the engine: then a call that blocks fails there, as in the callback.
 *
 * Text is UTF-8. Sizes and offsets are bytes.
 */


#ifndef TIDEGATE_H
#define TIDEGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of this interface. It changes only if a program must be compiled again. */
#define TG_ABI_VERSION 1

/* There is no object of this key. */
#define TG_KIND_NOT_FOUND 1

/* There is no bucket or root directory of this name. */
#define TG_KIND_NO_BUCKET 2

/* An object exists there, and `create_only` was set. Nothing was changed. */
#define TG_KIND_ALREADY_EXISTS 3

/* The bucket that was to be removed has objects. */
#define TG_KIND_NOT_EMPTY 4

/* The key has another object than the one that was being read or copied, or that was to be replaced. */
#define TG_KIND_REPLACED 5

/* The credentials do not allow the operation. */
#define TG_KIND_PERMISSION_DENIED 6

/* There are no usable credentials. */
#define TG_KIND_CREDENTIALS 7

/* The clocks of this machine and the store are too far apart. */
#define TG_KIND_CLOCK_SKEW 8

/* An argument or an option is wrong, or the call is not allowed at this moment or on this thread. */
#define TG_KIND_INVALID_INPUT 9

/* The object is larger than the store or the memory budget allows. */
#define TG_KIND_TOO_LARGE 10

/* The source of the bytes, a spool directory among them, failed. */
#define TG_KIND_SOURCE 11

/* The store asked for fewer requests for longer than the retries last. */
#define TG_KIND_THROTTLED 12

/* There was no answer in time, in any attempt. */
#define TG_KIND_TIMEOUT 13

/* The store or the network failed, in all attempts. */
#define TG_KIND_UNAVAILABLE 14

/* The endpoint is no object store. */
#define TG_KIND_NOT_A_STORE 15

/* The bytes at the store are not those that were sent. */
#define TG_KIND_INTEGRITY 16

/* The store can't say whether the object was published. */
#define TG_KIND_UNCERTAIN 17

/* A disk is full. */
#define TG_KIND_NO_SPACE 18

/* The wait for memory could not end. */
#define TG_KIND_STARVED 19

/* The writer took no byte for longer than its idle limit. */
#define TG_KIND_IDLE 20

/* The upload session is gone, or has lost parts. */
#define TG_KIND_SESSION_LOST 21

/* The writer or reader failed, was aborted or finished before. */
#define TG_KIND_CLOSED 22

/* This store can't do that. */
#define TG_KIND_UNSUPPORTED 23

/* The library has a bug, and panicked. The handle has failed; other handles go on. */
#define TG_KIND_PANIC 24

/* The handle was made by another process, from which this one was forked. */
#define TG_KIND_FORKED 25

/* The call was cancelled. */
#define TG_KIND_CANCELLED 26

/* A kind of a later version of the library. */
#define TG_KIND_OTHER 27

/* An object. */
#define TG_ENTRY_OBJECT 0

/* A prefix that ends with `/`, of a listing that is not recursive. */
#define TG_ENTRY_PREFIX 1

/* A name that is no object, such as a socket on a disk. */
#define TG_ENTRY_OTHER 2

/* The transfer does not wait. */
#define TG_WAITING_NONE 0

/* It waits for room on a journal's disk. */
#define TG_WAITING_DISK 1

/* It waits for room in the memory budget. */
#define TG_WAITING_MEMORY 2

/* It pauses before a request is made again. */
#define TG_WAITING_BACKOFF 3

/* It waits for its turn to make a request. */
#define TG_WAITING_REQUESTS 4

/* It waits for something that a later version knows. */
#define TG_WAITING_OTHER 5

/* An engine: a memory budget, limits, and the threads that carry out calls. Any thread may use it. */
typedef struct tg_engine tg_engine;

/* Why a call failed. The caller owns it, on any thread, and frees it with tg_error_free. */
typedef struct tg_error tg_error;

/* A listing. One thread at a time: a second call at the same moment fails. */
typedef struct tg_list tg_list;

/* An object as a store describes it. It does not change, so any thread may use it. Its strings live as long as it does. */
typedef struct tg_object tg_object;

/* An asynchronous call that is under way. Its owner frees it, at any time. */
typedef struct tg_op tg_op;

/*
 Options: names and values, as on the command line and in Python. One thread at a time may set them; calls read them
 until they return.
 */
typedef struct tg_options tg_options;

/*
 Reads one object, as it was when the reader was opened: if it is replaced, reads fail with TG_KIND_REPLACED. Any
 thread may use it, with any number of tg_reader_read_at and tg_reader_read_ranges at once; of tg_reader_read, a second
 call at the same moment fails.
 */
typedef struct tg_reader tg_reader;

/* A store: a bucket or a directory, or what is below a prefix of it. Any thread may use it. */
typedef struct tg_store tg_store;

/*
 The uploads in the journal directories of an engine, in no order. It does not change: an upload that was resumed,
 aborted or forgotten stays in it.
 */
typedef struct tg_unfinished_list tg_unfinished_list;

/*
 Writes one object, which becomes visible by tg_writer_finish and by nothing else.

 One thread at a time: a second call at the same moment fails with TG_KIND_INVALID_INPUT, and changes nothing. After a
 write that failed or was cancelled the writer has failed: what remains to do is to free it.
 */
typedef struct tg_writer tg_writer;

/* A key, or a prefix of keys: UTF-8 with its length in bytes. Nothing ends it. `data` may be NULL if `length` is 0. */
typedef struct tg_str {
  /* The first byte. */
  const char *data;
  /* How many bytes. */
  size_t length;
} tg_str;

/* An entry of a listing. */
typedef struct tg_entry {
  /* One of TG_ENTRY_... */
  int32_t kind;
  /* The key, relative to the store. */
  struct tg_str key;
  /* The description of the object; NULL if the entry is no object. */
  const struct tg_object *object;
} tg_entry;

/*
 Tells that an asynchronous call has ended: with NULL, or with an error that it then owns. It runs exactly once, on a
 thread of the engine, and may call every function that does not block; one that blocks fails there.
 */
typedef void (*tg_done)(void *user, struct tg_error *error);

/*
 Figures at one moment, in bytes unless said otherwise. The caller sets `struct_size` to `sizeof(tg_progress)`, and gets
 as many fields as both sides know.
 */
typedef struct tg_progress {
  /* The size of the struct, as the caller knows it. */
  size_t struct_size;
  /* Bytes taken from the producer. */
  uint64_t accepted;
  /* Bytes in requests that the store has not answered. */
  uint64_t in_flight;
  /* Bytes that the store has acknowledged, and bytes that requests in flight have handed to their sockets. */
  uint64_t sent;
  /* Bytes that the store has acknowledged; of a read, bytes that were given to the reader. */
  uint64_t acknowledged;
  /* Requests made, retries and hedges among them. */
  uint64_t requests;
  /* Requests made again after one that failed. */
  uint64_t retries;
  /* Slow parts and ranges that were asked for a second time. */
  uint64_t hedges;
  /* Parts that the store has acknowledged. */
  uint64_t parts;
  /* Bytes of memory that were freed by spilling to the spool. */
  uint64_t spilled;
  /* Bytes that are in a journal, or were there until the store acknowledged them. */
  uint64_t journaled;
  /* What the transfer waits for: one of TG_WAITING_... */
  int32_t waiting;
} tg_progress;

/* A range to read: `length` bytes from `offset` on go to `to`. */
typedef struct tg_range {
  /* The first byte. */
  uint64_t offset;
  /* How many bytes. */
  size_t length;
  /* Where they go. */
  void *to;
} tg_range;

/* Gives memory back to its owner. Runs once, on any thread, and must not block or call a function that does. */
typedef void (*tg_release)(void *data, size_t length, void *user);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/* The TG_ABI_VERSION of the library that the program runs with. */
uint32_t tg_abi_version(void);

/* The version of the library, such as `0.1.0`. */
const char *tg_version(void);

/*
 Gives an engine. Calls with equal options in one process give the same engine, and with it one memory budget. Starts
 threads, and sends nothing.
 */
struct tg_error *tg_engine_new(const struct tg_options *options,
                               struct tg_engine **engine);

/*
 Frees this handle. The engine goes on for stores, readers and writers that came from it. The last of all of them to
 be freed waits until the sessions of discarded writers are aborted, for two seconds at most.
 */
void tg_engine_free(struct tg_engine *engine);

/*
 Waits until the sessions of all writers that failed or were discarded so far are aborted, for so many milliseconds at
 most: TG_KIND_TIMEOUT says that some are not. An error of another kind is that of a session that could not be
 aborted, and says how many more could not: their parts stay at the store until a sweep. Blocks.
 */
struct tg_error *tg_engine_wait_for_aborts(struct tg_engine *engine,
                                           uint64_t timeout_ms);

/*
 The memory budget in bytes: all of it, what is used now, and the most that was used at one moment. Each pointer may be
 NULL.
 */
struct tg_error *tg_engine_memory(struct tg_engine *engine,
                                  uint64_t *total,
                                  uint64_t *held,
                                  uint64_t *peak);

/* Which kind of failure it is: one of TG_KIND_...; 0 for NULL, which is success. */
int32_t tg_error_kind(const struct tg_error *error);

/* The kind as a word, such as `not_found`; NULL for NULL. Like every string of an error, it lives as long as the error. */
const char *tg_error_kind_name(const struct tg_error *error);

/* One sentence for people: the object, what failed, why, and what to do. */
const char *tg_error_message(const struct tg_error *error);

/* The operation that failed, such as `put`; empty where no operation of a store had begun. */
const char *tg_error_operation(const struct tg_error *error);

/* The URL of the object or bucket that the error is about; empty if no object or bucket is known. */
const char *tg_error_url(const struct tg_error *error);

/* What to do; NULL if there is no advice. */
const char *tg_error_remedy(const struct tg_error *error);

/* How many requests were made; 0 if there was none. */
uint32_t tg_error_attempts(const struct tg_error *error);

/* Milliseconds from the first attempt to giving up. */
uint64_t tg_error_elapsed_ms(const struct tg_error *error);

/* Whether the store could not be reached at all. */
bool tg_error_is_unreachable(const struct tg_error *error);

/* Frees an error. */
void tg_error_free(struct tg_error *error);

/*
 Lists the objects whose keys begin with `prefix`, in key order: all of them, or with the option `recursive` set to
 `false` those before the next `/`, and prefixes. Sends nothing yet.
 */
struct tg_error *tg_list_open(struct tg_store *store,
                              struct tg_str prefix,
                              const struct tg_options *options,
                              struct tg_list **list);

/*
 The next entries, at least one; `count` is 0 at the end, and only there. They live until the next call or the free of
 the listing. After an error the listing has failed. Blocks.
 */
struct tg_error *tg_list_next(struct tg_list *list,
                              const struct tg_entry **entries,
                              size_t *count);

/*
 The asynchronous form of tg_list_next. `entries` and `count` must stay writable until `done` has run. If it is
 cancelled, the next call goes on where this one began.
 */
struct tg_error *tg_list_next_async(struct tg_list *list,
                                    const struct tg_entry **entries,
                                    size_t *count,
                                    tg_done done,
                                    void *user,
                                    struct tg_op **op);

/* Frees a listing and its entries. An asynchronous call that is under way keeps what it needs until its `done` has run. */
void tg_list_free(struct tg_list *list);

/* The key within the store. */
struct tg_str tg_object_key(const struct tg_object *object);

/* Size in bytes; 0 where it is not known. */
uint64_t tg_object_size(const struct tg_object *object);

/* Whether the size is known. Some stores leave it out of listings; tg_head gives it. */
bool tg_object_has_size(const struct tg_object *object);

/* When the store last changed it, in milliseconds since 1970 (UTC); INT64_MIN where that is not known. */
int64_t tg_object_modified_ms(const struct tg_object *object);

/*
 A property as text, NULL where the store does not say: `etag`, `version`, `crc64nvme`, `crc32c` (both in base64),
 `content_type`, `cache_control`, `content_encoding`, `content_disposition`, `content_language`, `expires`,
 `storage_class`, `encryption`.
 */
const char *tg_object_text(const struct tg_object *object,
                           const char *name);

/* How many entries of user metadata it has. Listings have none. */
size_t tg_object_metadata_count(const struct tg_object *object);

/* The name of an entry of user metadata, in lower case; NULL past the last. */
const char *tg_object_metadata_name(const struct tg_object *object, size_t index);

/* The value of an entry of user metadata; NULL past the last. */
const char *tg_object_metadata_value(const struct tg_object *object, size_t index);

/* Whether both describe the same bytes: equal sizes, and the same tag or version. */
bool tg_object_is_same(const struct tg_object *one, const struct tg_object *other);

/* Frees an object. */
void tg_object_free(struct tg_object *object);

/*
 Cancels the call, unless it has ended. Its `done` still runs, soon, with TG_KIND_CANCELLED or with what the call came
 to. A writer whose call was cancelled has failed. What the store was carrying out at that moment may still be done:
 tg_head tells. Any thread.
 */
void tg_op_cancel(struct tg_op *op);

/* Frees the handle. The call goes on. */
void tg_op_free(struct tg_op *op);

/* New options, none of them set. Wherever options are passed, NULL stands for none. */
struct tg_options *tg_options_new(void);

/*
 Sets an option; docs/C.md lists the names. Sizes are written as `16MiB` or a number of bytes, times as `20ms` or a number of seconds, switches
 as `true` or `false`. `spool`, `journal`, `owner`, `metadata` and `tags` (`NAME=VALUE`) may be set several times. An
 unknown name fails here; a wrong value, or an option that a call does not have, fails where the options are passed.
 */
struct tg_error *tg_options_set(struct tg_options *options,
                                const char *name,
                                const char *value);

/* Sets an option to an object: `replaces` of a write, `if_unchanged` of a read. The object is copied. */
struct tg_error *tg_options_set_object(struct tg_options *options,
                                       const char *name,
                                       const struct tg_object *object);

/* Frees options. */
void tg_options_free(struct tg_options *options);

/*
 Publishes a prepared upload. Twice, or by two processes, publishes it once, and both get the object; after
 tg_abandon it fails with TG_KIND_SESSION_LOST. The store must be of the bucket that the upload was prepared in.
 `object` may be NULL. Blocks.
 */
struct tg_error *tg_commit(struct tg_store *store,
                           const char *json,
                           struct tg_object **object);

/* The asynchronous form of tg_commit. `json` is copied; `object` must stay writable until `done` has run. */
struct tg_error *tg_commit_async(struct tg_store *store,
                                 const char *json,
                                 struct tg_object **object,
                                 tg_done done,
                                 void *user,
                                 struct tg_op **op);

/* Gives up what tg_writer_prepare or tg_writer_persist has described: nothing of it becomes visible. Blocks. */
struct tg_error *tg_abandon(struct tg_store *store,
                            const char *json);

/* Continues an upload from a point of tg_writer_persist: tg_writer_position says from which byte. Blocks. */
struct tg_error *tg_resume(struct tg_store *store,
                           const char *json,
                           struct tg_writer **writer);

/* Frees a string that a function gave as `json`. */
void tg_string_free(char *text);

/* Figures of everything that an engine does, summed up. */
struct tg_error *tg_engine_progress(struct tg_engine *engine, struct tg_progress *progress);

/* Figures of one writer. Any thread, also during a call. */
struct tg_error *tg_writer_progress(struct tg_writer *writer, struct tg_progress *progress);

/*
 Opens an object. Without options, one request does that, and asks for all bytes, which tg_reader_read takes as they
 come. With the option `random` set to `true` it asks only for the description, and with `random` and either
 `if_unchanged` or `size` for nothing: after `size`, the first read finds out which object it is, and reads fail with
 TG_KIND_REPLACED if it has another size. Blocks.
 */
struct tg_error *tg_reader_open(struct tg_store *store,
                                struct tg_str key,
                                const struct tg_options *options,
                                struct tg_reader **reader);

/* The size of the object, in bytes. */
uint64_t tg_reader_size(struct tg_reader *reader);

/* The object, which lives as long as the reader. */
const struct tg_object *tg_reader_object(struct tg_reader *reader);

/*
 Reads the next bytes, `length` at most, as many as are there; `read` is 0 at the end of the object, and only there,
 or if `length` is 0. Bytes are read ahead. The last bytes are given only after the checksum of the whole object has
 matched. After an error every later tg_reader_read fails with TG_KIND_CLOSED. Blocks.
 */
struct tg_error *tg_reader_read(struct tg_reader *reader,
                                void *to,
                                size_t length,
                                size_t *read);

/*
 Reads the bytes from `offset` on: `length` bytes, or fewer at the object's end; `read` says how many. One request, and
 none past the end. Blocks.
 */
struct tg_error *tg_reader_read_at(struct tg_reader *reader,
                                   uint64_t offset,
                                   void *to,
                                   size_t length,
                                   size_t *read);

/*
 The asynchronous form of tg_reader_read_at. `to` and `read` must stay writable, and be used by nobody else, until
 `done` has run.
 */
struct tg_error *tg_reader_read_at_async(struct tg_reader *reader,
                                         uint64_t offset,
                                         void *to,
                                         size_t length,
                                         size_t *read,
                                         tg_done done,
                                         void *user,
                                         struct tg_op **op);

/*
 Reads many ranges, all of them whole: each must lie within the object. They may overlap, and come in any order; those
 that lie close together share a request. Blocks.
 */
struct tg_error *tg_reader_read_ranges(struct tg_reader *reader,
                                       const struct tg_range *ranges,
                                       size_t count);

/*
 The asynchronous form of tg_reader_read_ranges. The array is copied; the memory of each range must stay writable, and
 be used by nobody else, until `done` has run.
 */
struct tg_error *tg_reader_read_ranges_async(struct tg_reader *reader,
                                             const struct tg_range *ranges,
                                             size_t count,
                                             tg_done done,
                                             void *user,
                                             struct tg_op **op);

/*
 Ends all calls that are under way, and all later ones, with TG_KIND_CANCELLED. Any thread, but not after
 tg_reader_free.
 */
void tg_reader_cancel(struct tg_reader *reader);

/*
 Frees a reader. Asynchronous calls that are under way are cancelled, and their `done` still runs. No blocking call may
 be under way.
 */
void tg_reader_free(struct tg_reader *reader);

/*
 Lists the uploads in the journal directories of the engine's option `journal`: those that a process left, and those
 that one is writing now. Changes none of them. Blocks.
 */
struct tg_error *tg_recover(struct tg_engine *engine,
                            struct tg_unfinished_list **list);

/* How many uploads there are; 0 in a forked child. */
size_t tg_unfinished_count(struct tg_unfinished_list *list);

/* The id of an upload; NULL past the last. Lives as long as the list. */
const char *tg_unfinished_id(struct tg_unfinished_list *list, size_t index);

/* The URL of the object to be; NULL if the journal cannot be read. Lives as long as the list. */
const char *tg_unfinished_url(struct tg_unfinished_list *list, size_t index);

/* Why it cannot be resumed, such as that a process is writing it; NULL if it can. Lives as long as the list. */
const char *tg_unfinished_problem(struct tg_unfinished_list *list,
                                  size_t index);

/* How many bytes of the object are in the journal or at the store. */
uint64_t tg_unfinished_length(struct tg_unfinished_list *list, size_t index);

/* Whether its producer had finished: resuming it then publishes the object. */
bool tg_unfinished_is_finished(struct tg_unfinished_list *list, size_t index);

/*
 Resumes an upload, on `store` if it is not NULL: a journal does not keep how its store is reached. Of the two results
 one is set, and the other becomes NULL: the object, if its producer had finished, else a writer, whose position says
 from which byte to go on. Blocks.
 */
struct tg_error *tg_unfinished_resume(struct tg_unfinished_list *list,
                                      size_t index,
                                      struct tg_store *store,
                                      struct tg_object **object,
                                      struct tg_writer **writer);

/*
 Ends an upload without an object, and removes its journal. If its object turns out to have been published, the object
 stays and `published` gets it; otherwise `published`, which may be NULL, gets NULL. Blocks.
 */
struct tg_error *tg_unfinished_abort(struct tg_unfinished_list *list,
                                     size_t index,
                                     struct tg_store *store,
                                     struct tg_object **published);

/* Removes a journal with all its bytes, and sends nothing to the store. Blocks. */
struct tg_error *tg_unfinished_forget(struct tg_unfinished_list *list, size_t index);

/* Frees a list. The uploads stay as they are. */
void tg_unfinished_list_free(struct tg_unfinished_list *list);

/*
 Opens a store: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`, a directory as a path or
 `file:///path`, or `memory://name`. Sends nothing to the store. The options are those of the scheme, such as
 `endpoint_url` and `region`. Blocks, but not for long: a thread of an engine may not call it.
 */
struct tg_error *tg_store_open(struct tg_engine *engine,
                               const char *url,
                               const struct tg_options *options,
                               struct tg_store **store);

/* Frees a store. Its readers and writers go on. */
void tg_store_free(struct tg_store *store);

/*
 Writes a whole object in one call. The bytes are copied, and the copy lies beside the memory budget until the call has
 ended: a writer takes large objects. When this returns NULL, the object is visible; otherwise it is not, unless the kind
 is TG_KIND_UNCERTAIN, or is TG_KIND_CANCELLED or TG_KIND_PANIC and the store was publishing it at that moment: look with
 tg_head. `object` may be NULL. Blocks.
 */
struct tg_error *tg_put(struct tg_store *store,
                        struct tg_str key,
                        const void *data,
                        size_t length,
                        const struct tg_options *options,
                        struct tg_object **object);

/*
 The asynchronous form of tg_put. The key and the bytes are copied before it returns; `object` must stay writable until
 `done` has run. Where any asynchronous form returns an error, nothing was begun and `done` does not run.
 */
struct tg_error *tg_put_async(struct tg_store *store,
                              struct tg_str key,
                              const void *data,
                              size_t length,
                              const struct tg_options *options,
                              struct tg_object **object,
                              tg_done done,
                              void *user,
                              struct tg_op **op);

/* Describes an object. Blocks. */
struct tg_error *tg_head(struct tg_store *store,
                         struct tg_str key,
                         struct tg_object **object);

/* The asynchronous form of tg_head. `object` must stay writable until `done` has run. */
struct tg_error *tg_head_async(struct tg_store *store,
                               struct tg_str key,
                               struct tg_object **object,
                               tg_done done,
                               void *user,
                               struct tg_op **op);

/* Removes an object. Succeeds if there is no object of this key. Blocks. */
struct tg_error *tg_delete(struct tg_store *store, struct tg_str key);

/*
 Removes many objects, in as few requests as the store has. Returns an error if a key was not removed. `each` may be
 NULL, or has `count` places, which the caller sets to NULL before: the place of each key that was not removed gets an
 error, which the caller owns. Blocks.
 */
struct tg_error *tg_delete_many(struct tg_store *store,
                                const struct tg_str *keys,
                                size_t count,
                                struct tg_error **each);

/*
 Has the store copy an object; both stores must be reached by the same endpoint and account. `object` may be NULL.
 Blocks.
 */
struct tg_error *tg_copy(struct tg_store *from,
                         struct tg_str key,
                         struct tg_store *to,
                         struct tg_str to_key,
                         const struct tg_options *options,
                         struct tg_object **object);

/* Gives an object another key. Of the options it has `create_only`. Blocks. */
struct tg_error *tg_rename(struct tg_store *store,
                           struct tg_str from,
                           struct tg_str to,
                           const struct tg_options *options);

/* Opens a writer. `key` need not exist; an object that exists stays until tg_writer_finish. Blocks. */
struct tg_error *tg_writer_open(struct tg_store *store,
                                struct tg_str key,
                                const struct tg_options *options,
                                struct tg_writer **writer);

/*
 Writes bytes. They are copied: when this returns, the memory is the caller's again. Waits while the memory budget is
 used up, or as many parts are in flight as the strategy allows. Blocks.
 */
struct tg_error *tg_writer_write(struct tg_writer *writer,
                                 const void *data,
                                 size_t length);

/* The asynchronous form of tg_writer_write. The memory must stay readable and unchanged until `done` has run. */
struct tg_error *tg_writer_write_async(struct tg_writer *writer,
                                       const void *data,
                                       size_t length,
                                       tg_done done,
                                       void *user,
                                       struct tg_op **op);

/*
 Writes as many bytes as there is room for, and never waits; `taken` says how many. After 0, use another form of write
 before long: the writer may hold its place in the line for memory until then. With the strategy `journal` that is
 always so, because a write there waits for the disk.
 */
struct tg_error *tg_writer_try_write(struct tg_writer *writer,
                                     const void *data,
                                     size_t length,
                                     size_t *taken);

/*
 Writes bytes without a copy, where they are 64 KiB or more: the library reads them until `release` gives the memory
 back, which is when the store has them, or after the write has failed. `release` runs exactly once whatever this
 returns, perhaps before it returns; unless `release` itself is NULL, which is refused. Blocks as tg_writer_write does.
 */
struct tg_error *tg_writer_write_owned(struct tg_writer *writer,
                                       void *data,
                                       size_t length,
                                       tg_release release,
                                       void *user);

/*
 With the strategy `journal`: makes all bytes survive a loss of power, and says how many that are. With other
 strategies it fails with TG_KIND_UNSUPPORTED, and the writer goes on. Blocks.
 */
struct tg_error *tg_writer_sync(struct tg_writer *writer,
                                uint64_t *durable);

/*
 How many bytes were written, by all calls that have succeeded. A resumed writer begins where its upload stopped. 0 in a
 forked child.
 */
uint64_t tg_writer_position(struct tg_writer *writer);

/*
 Publishes the object: when this returns NULL, the whole object is visible. After an error it is not, and the writer has
 failed; only TG_KIND_UNCERTAIN, and TG_KIND_CANCELLED or TG_KIND_PANIC where the store was publishing it at that moment,
 leave that open: look with tg_head. The writer is still to be freed. `object` may be NULL. Blocks.
 */
struct tg_error *tg_writer_finish(struct tg_writer *writer,
                                  struct tg_object **object);

/* The asynchronous form of tg_writer_finish. `object` must stay writable until `done` has run. */
struct tg_error *tg_writer_finish_async(struct tg_writer *writer,
                                        struct tg_object **object,
                                        tg_done done,
                                        void *user,
                                        struct tg_op **op);

/*
 Ends the write with all bytes at the store and nothing visible. `json` gets a description by which any process
 publishes the object (tg_commit) or gives it up (tg_abandon) within six days; the caller frees it with tg_string_free.
 It may name a Google session, whose holder can write the object: keep it as secret as a password. Blocks.
 */
struct tg_error *tg_writer_prepare(struct tg_writer *writer,
                                   char **json);

/* The asynchronous form of tg_writer_prepare. `json` must stay writable until `done` has run. */
struct tg_error *tg_writer_prepare_async(struct tg_writer *writer,
                                         char **json,
                                         tg_done done,
                                         void *user,
                                         struct tg_op **op);

/*
 Makes all bytes so far outlast this process and this machine, and goes on. `json` gets a point from which any process
 continues the upload within six days (tg_resume); the caller frees it with tg_string_free. From then on a free of the
 writer leaves the session to the processes that have the point. Blocks.
 */
struct tg_error *tg_writer_persist(struct tg_writer *writer,
                                   char **json);

/*
 Why the store may end an upload before its six days, after tg_writer_prepare or tg_writer_persist; NULL if nothing is
 known. Lives as long as the writer.
 */
const char *tg_writer_warning(struct tg_writer *writer);

/*
 Aborts the upload, and waits until the store has released the session; with the strategy `journal` the journal is
 removed too. Nothing is published. The writer is still to be freed. Blocks.
 */
struct tg_error *tg_writer_abort(struct tg_writer *writer);

/*
 Ends the call that is under way, and discards the upload: each call then fails with TG_KIND_CANCELLED. A writer that
 was finished or prepared stays so. Any thread, but not after tg_writer_free.
 */
void tg_writer_cancel(struct tg_writer *writer);

/*
 Frees a writer. One that was not finished is discarded: nothing becomes visible, and its session is aborted in the
 background (tg_engine_wait_for_aborts); with the strategy `journal`, or after tg_writer_persist, what can be resumed
 stays. An asynchronous call that is under way is cancelled, and its `done` still runs. No blocking call may be under
 way.
 */
void tg_writer_free(struct tg_writer *writer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TIDEGATE_H */
