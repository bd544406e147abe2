package io.tidegate;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystems;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * A bucket or a directory, or what is below a prefix of it. Any number of threads may use it, and
 * it needs no closing.
 *
 * <p>Keys are relative to the store. Every method that waits fails with {@link TidegateException},
 * or with {@link java.io.InterruptedIOException} within 100 ms after its thread was interrupted.
 */
public final class Store {
    private static final System.Logger LOGGER = System.getLogger("io.tidegate");

    /** How many keys one call has in memory: ten requests' worth, on most stores. */
    private static final int KEYS_AT_ONCE = 10_000;

    private final Handle handle;
    private final WriteSessionConfig sessions;

    Store(Handle handle, WriteSessionConfig sessions) {
        this.handle = handle;
        this.sessions = sessions;
    }

    Handle handle() {
        return handle;
    }

    /** The URL of the store. */
    public String location() throws IOException {
        Call.Reply reply = await(Native::location);
        return new String(reply.payload(), StandardCharsets.UTF_8);
    }

    /**
     * The part of this store below {@code prefix}: keys are then relative to it. A slash is added
     * to a prefix that does not end with one. Sends nothing.
     */
    public Store within(String prefix) throws IOException {
        byte[] encoded = Wire.utf8(prefix);
        return new Store(new Handle(handle.use(store -> Native.within(store, encoded))), sessions);
    }

    /** Writes a whole object, as {@link #put(String, ByteBuffer, Options)}. */
    public ObjectInfo put(String key, byte[] bytes) throws IOException {
        return put(key, ByteBuffer.wrap(bytes), Options.none());
    }

    /**
     * Writes a whole object: when this returns, it is visible. The bytes are copied; {@link
     * #writer} takes large objects.
     *
     * @param bytes what remains of it is the object; its position moves to its limit
     * @param options those of a write: {@code create_only}, {@code content_type}, {@code metadata}
     *     and others
     * @throws TidegateException and nothing was published, unless the kind is {@code UNCERTAIN}
     */
    public ObjectInfo put(String key, ByteBuffer bytes, Options options) throws IOException {
        byte[] encodedKey = Wire.utf8(key);
        byte[] encoded = options.encoded();
        Bytes from = Bytes.toRead(bytes, Integer.MAX_VALUE);
        Call.Reply reply =
                await(
                        (store, token) ->
                                Native.put(
                                        store,
                                        token,
                                        encodedKey,
                                        from.array(),
                                        from.direct(),
                                        from.start(),
                                        from.length(),
                                        encoded));
        bytes.position(bytes.limit());
        return ObjectInfo.of(reply);
    }

    /**
     * All bytes of an object, whose checksum was compared. {@link #reader} reads large objects.
     *
     * @throws TidegateException of kind {@code NOT_FOUND} if there is no such object
     */
    public byte[] get(String key) throws IOException {
        byte[] encodedKey = Wire.utf8(key);
        return await((store, token) -> Native.get(store, token, encodedKey)).payload();
    }

    /**
     * Describes an object.
     *
     * @throws TidegateException of kind {@code NOT_FOUND} if there is no such object
     */
    public ObjectInfo stat(String key) throws IOException {
        byte[] encodedKey = Wire.utf8(key);
        return ObjectInfo.of(await((store, token) -> Native.stat(store, token, encodedKey)));
    }

    /** Describes an object; empty if there is none of this key. */
    public Optional<ObjectInfo> find(String key) throws IOException {
        byte[] encodedKey = Wire.utf8(key);
        return ObjectInfo.ofOptional(
                await((store, token) -> Native.find(store, token, encodedKey)));
    }

    /** Whether there is an object of this key. */
    public boolean exists(String key) throws IOException {
        byte[] encodedKey = Wire.utf8(key);
        return await((store, token) -> Native.exists(store, token, encodedKey)).value() == 1;
    }

    /** Removes an object. Succeeds if there is none of this key. */
    public void delete(String key) throws IOException {
        byte[] encodedKey = Wire.utf8(key);
        await((store, token) -> Native.delete(store, token, encodedKey));
    }

    /**
     * Removes objects, as many in one request as the store takes. A key without an object counts as
     * removed, and a failure does not stop the others. An interrupt does: objects of requests in
     * flight may then be there or not.
     *
     * @param keys is read as the objects are removed, and may be of any length
     * @return what was removed, and each other key with the reason
     */
    public DeleteReport deleteAll(Iterable<String> keys) throws IOException {
        long deleted = 0;
        Map<String, TidegateException> failed = new LinkedHashMap<>();
        Iterator<String> rest = keys.iterator();
        while (rest.hasNext()) {
            Wire.Encoder encoded = new Wire.Encoder();
            for (int count = 0; count < KEYS_AT_ONCE && rest.hasNext(); count++) {
                encoded.text(Objects.requireNonNull(rest.next()));
            }
            byte[] some = encoded.bytes();
            Call.Reply reply = await((store, token) -> Native.deleteAll(store, token, some));
            deleted += reply.value();
            Wire.Decoder from = new Wire.Decoder(reply.payload());
            while (from.hasMore()) {
                failed.put(from.text(), TidegateException.of(from));
            }
        }
        return new DeleteReport(deleted, failed);
    }

    /** Gives an object another key, without options. */
    public ObjectInfo rename(String key, String toKey) throws IOException {
        return rename(key, toKey, Options.none());
    }

    /**
     * Gives an object another key, and replaces an object there. On a local disk that is one step.
     * Object stores copy the object and then remove the source, if it is still that object: in
     * between, both keys have it.
     *
     * @param options {@code create_only}
     * @return the object with its new key
     * @throws TidegateException of kind {@code REPLACED} if the source got another object
     *     meanwhile: that one stays, and the target has the one that was copied
     */
    public ObjectInfo rename(String key, String toKey, Options options) throws IOException {
        byte[] encodedKey = Wire.utf8(key);
        byte[] encodedToKey = Wire.utf8(toKey);
        byte[] encoded = options.encoded();
        return ObjectInfo.of(
                await(
                        (store, token) ->
                                Native.rename(store, token, encodedKey, encodedToKey, encoded)));
    }

    /** Uploads a file without options. */
    public ObjectInfo upload(Path file, String key) throws IOException {
        return upload(file, key, Options.none());
    }

    /**
     * Uploads a file: when this returns, the object is visible. The bytes go from the disk to the
     * store, and none through the heap.
     *
     * @param options those of a write, and {@code preserve}: the object's metadata keeps the time
     *     and the permissions of the file
     * @throws TidegateException and nothing was published, unless the kind is {@code UNCERTAIN}; of
     *     kind {@code SOURCE} if the file can't be read or changes meanwhile
     */
    public ObjectInfo upload(Path file, String key, Options options) throws IOException {
        byte[] path = path(file);
        byte[] encodedKey = Wire.utf8(key);
        byte[] encoded = options.encoded();
        return ObjectInfo.of(
                await((store, token) -> Native.upload(store, token, path, encodedKey, encoded)));
    }

    /** Downloads an object without options. */
    public ObjectInfo download(String key, Path file) throws IOException {
        return download(key, file, Options.none());
    }

    /**
     * Downloads an object into a file, which appears, or replaces the file there, when all bytes
     * have arrived and match the store's checksum. A later download of the object to the same path
     * goes on where one was cut off; why it can't is logged as a warning.
     *
     * @param options {@code create_only} (fails if there is a file), {@code sync} (survives a loss
     *     of power), {@code keep_modified} (the file gets the object's time), {@code preserve} (the
     *     file gets the time and permissions that an upload kept), {@code size_hint}
     * @throws TidegateException and the file is as it was
     */
    public ObjectInfo download(String key, Path file, Options options) throws IOException {
        byte[] path = path(file);
        byte[] encodedKey = Wire.utf8(key);
        byte[] encoded = options.encoded();
        Call.Reply reply =
                await((store, token) -> Native.download(store, token, encodedKey, path, encoded));
        Wire.Decoder from = new Wire.Decoder(reply.payload());
        ObjectInfo object = ObjectInfo.of(from);
        while (from.hasMore()) {
            LOGGER.log(Level.WARNING, from.text());
        }
        return object;
    }

    private Call.Reply await(Call.Begin begin) throws IOException {
        return Call.await(handle, begin);
    }

    private static byte[] path(Path file) throws TidegateException {
        if (file.getFileSystem() != FileSystems.getDefault()) {
            throw TidegateException.invalid(file + " is no file of this machine's disks", null);
        }
        // A name that is not text in the JVM's encoding would become that of another file.
        String text = file.toAbsolutePath().toString();
        boolean isWhole;
        try {
            isWhole = Path.of(text).equals(file.toAbsolutePath());
        } catch (InvalidPathException e) {
            isWhole = false;
        }
        if (!isWhole) {
            String message = ": its name can't be written in the encoding of this JVM";
            throw TidegateException.invalid(file + message, null);
        }
        return Wire.utf8(text);
    }

    /** Has the store copy an object to another key. */
    public ObjectInfo copy(String key, String toKey) throws IOException {
        return copy(key, this, toKey, Options.none());
    }

    /**
     * Has the store copy an object; no bytes pass through this machine.
     *
     * @param to a store that is reached by the same endpoint and account
     * @param options those of a copy: {@code create_only}, {@code metadata} and others
     */
    public ObjectInfo copy(String key, Store to, String toKey, Options options) throws IOException {
        byte[] encodedKey = Wire.utf8(key);
        byte[] encodedToKey = Wire.utf8(toKey);
        byte[] encoded = options.encoded();
        Call.Begin begin =
                (store, token) ->
                        to.handle.use(
                                target -> {
                                    Native.copy(
                                            store,
                                            token,
                                            encodedKey,
                                            target,
                                            encodedToKey,
                                            encoded);
                                    return null;
                                });
        return ObjectInfo.of(await(begin));
    }

    /** Lists all objects whose keys begin with {@code prefix}. */
    public Stream<Entry> list(String prefix) throws IOException {
        return list(prefix, Options.none());
    }

    /**
     * Lists objects whose keys begin with {@code prefix}, in the order of keys. The store is asked
     * for a page at a time, as the stream is read, by one thread; a failure then is an {@link
     * java.io.UncheckedIOException}.
     *
     * @param options {@code recursive} ({@code false} stops at the next {@code /}), {@code
     *     start_after}
     */
    public Stream<Entry> list(String prefix, Options options) throws IOException {
        byte[] encodedPrefix = Wire.utf8(prefix);
        byte[] encoded = options.encoded();
        long list = handle.use(store -> Native.openList(store, encodedPrefix, encoded));
        return new Listing(new Handle(list)).stream();
    }

    /** Opens a writer without options. */
    public Writer writer(String key) throws IOException {
        return writer(key, Options.none());
    }

    /**
     * Opens a writer of an object, whose size need not be known. An object that exists stays until
     * {@link Writer#finish}.
     *
     * @param options those of a write: {@code create_only}, {@code strategy}, {@code size_hint} and
     *     others
     */
    public Writer writer(String key, Options options) throws IOException {
        byte[] encodedKey = Wire.utf8(key);
        byte[] encoded = options.encoded();
        Call.Reply reply =
                await((store, token) -> Native.openWriter(store, token, encodedKey, encoded));
        return new Writer(reply, key);
    }

    /** A session without options. */
    public WriteSession session(String key) {
        return session(key, Options.none());
    }

    /**
     * A write of one object with a future of its result: see {@link WriteSession}. Sends nothing.
     *
     * @param options those of a write; they win over those of the engine's {@link
     *     WriteSessionConfig}
     */
    public WriteSession session(String key, Options options) {
        return new ChannelSession(this, key, sessions.ofWrite().and(options));
    }

    /** Opens a reader without options: one request opens it and asks for all bytes. */
    public Reader reader(String key) throws IOException {
        return reader(key, Options.none());
    }

    /**
     * Opens a reader of the object that {@code object} describes, for reads at any positions. Sends
     * nothing, unless the description has no size, as in the listings of some stores.
     *
     * @throws TidegateException from the first read on, of kind {@code REPLACED}, if the key has
     *     another object now
     */
    public Reader reader(ObjectInfo object) throws IOException {
        return reader(object.key(), Options.of("random", "true").and("if_unchanged", object));
    }

    /**
     * Opens a reader of an object.
     *
     * @param options {@code random} set to {@code true} asks for bytes range by range and for none
     *     before; {@code if_unchanged} fails with {@code REPLACED} unless the key still has that
     *     object
     */
    public Reader reader(String key, Options options) throws IOException {
        byte[] encodedKey = Wire.utf8(key);
        byte[] encoded = options.encoded();
        Call.Reply reply =
                await((store, token) -> Native.openReader(store, token, encodedKey, encoded));
        return new Reader(new Handle(reply.value()), ObjectInfo.of(reply), options.isRandom());
    }

    /**
     * Publishes a pending upload of this bucket: when this returns, the whole object is visible. A
     * second commit, or two at once, publish it once and both give the object. After {@code
     * UNCERTAIN}, an interrupt or a crash, commit again.
     *
     * @throws TidegateException of kind {@code SESSION_LOST} if the upload is gone: it was
     *     abandoned, its lifetime is over, or its object was removed or replaced since; {@code
     *     ALREADY_EXISTS} or {@code REPLACED} for its condition, and the upload stays
     */
    public ObjectInfo commit(Pending pending) throws IOException {
        byte[] json = Wire.utf8(pending.toJson());
        return ObjectInfo.of(await((store, token) -> Native.commit(store, token, json)));
    }

    /**
     * Gives up an upload: nothing of it becomes visible, and its points end. Succeeds if it was
     * given up before.
     *
     * @throws TidegateException of kind {@code CLOSED} if the object was published, and is there
     */
    public void abandon(Unpublished upload) throws IOException {
        byte[] json = Wire.utf8(upload.toJson());
        boolean isPoint = upload instanceof Resumable;
        await((store, token) -> Native.abandon(store, token, json, isPoint));
    }

    /**
     * Goes on with an upload from a point: {@link Writer#position} says from which byte. One
     * process at a time.
     *
     * @throws TidegateException of kind {@code SESSION_LOST} if the upload was finished or given
     *     up, or its lifetime is over
     */
    public Writer resume(Resumable point) throws IOException {
        byte[] json = Wire.utf8(point.toJson());
        Call.Reply reply = await((store, token) -> Native.resume(store, token, json));
        return new Writer(reply, point.key());
    }

    /**
     * Removes what the store keeps for this point alone. Nobody goes on from it then; the upload
     * and its later points stay.
     */
    public void forget(Resumable point) throws IOException {
        byte[] json = Wire.utf8(point.toJson());
        await((store, token) -> Native.forget(store, token, json));
    }

    /**
     * Ends several writes as one set, whose uploads wait six days for {@link #commitAll}. No other
     * thread may use the writers meanwhile.
     *
     * @param pointer the key, in this store, by which readers find the set
     * @throws TidegateException and all writers are discarded
     */
    public Manifest prepareAll(String pointer, List<Writer> writers) throws IOException {
        return prepareAll(pointer, writers, Writer.NO_LIFETIME);
    }

    /**
     * The same as {@link #prepareAll(String, List)}, with another lifetime: {@link
     * Writer#prepare(Duration)}.
     */
    public Manifest prepareAll(String pointer, List<Writer> writers, Duration lifetime)
            throws IOException {
        return prepareAll(pointer, writers, Writer.millis(lifetime));
    }

    private Manifest prepareAll(String pointer, List<Writer> writers, long lifetimeMillis)
            throws IOException {
        byte[] encodedPointer = Wire.utf8(pointer);
        try {
            for (Writer writer : writers) {
                writer.passOn();
            }
            long[] handles = writers.stream().mapToLong(each -> each.handle().address()).toArray();
            Call.Reply reply =
                    await(
                            (store, token) ->
                                    Native.prepareAll(
                                            store, token, encodedPointer, handles, lifetimeMillis));
            Manifest manifest = new Manifest(reply.payload());
            manifest.pending().forEach(Writer::warned);
            return manifest;
        } finally {
            // What is prepared stays so.
            for (Writer writer : writers) {
                writer.close();
            }
        }
    }

    /**
     * Publishes a set: all its objects, and then the pointer, which names them. May be repeated, by
     * any process and at the same time.
     *
     * @return the objects, in the order of the manifest
     * @throws TidegateException {@code docs/PENDING.md} says what holds then
     */
    public List<ObjectInfo> commitAll(Manifest manifest) throws IOException {
        byte[] json = Wire.utf8(manifest.toJson());
        return objects(await((store, token) -> Native.commitAll(store, token, json)));
    }

    /**
     * Completes a set that a process began to publish and did not complete, from the store alone.
     *
     * @return the objects; empty if the set was complete
     * @throws TidegateException of kind {@code NOT_FOUND} if no set was begun with this pointer
     */
    public Optional<List<ObjectInfo>> rollForward(String pointer) throws IOException {
        byte[] encoded = Wire.utf8(pointer);
        Call.Reply reply = await((store, token) -> Native.rollForward(store, token, encoded));
        return reply.payload() == null ? Optional.empty() : Optional.of(objects(reply));
    }

    private static List<ObjectInfo> objects(Call.Reply reply) {
        Wire.Decoder from = new Wire.Decoder(reply.payload());
        List<ObjectInfo> objects = new ArrayList<>();
        while (from.hasMore()) {
            objects.add(ObjectInfo.of(from));
        }
        return List.copyOf(objects);
    }

    /**
     * Gives up all uploads of a set.
     *
     * @throws TidegateException of kind {@code CLOSED} once a commit has begun: nothing is given up
     */
    public void abandonAll(Manifest manifest) throws IOException {
        byte[] json = Wire.utf8(manifest.toJson());
        await((store, token) -> Native.abandonAll(store, token, json));
    }

    /**
     * Ends a set whose commit was begun and can't be completed, because an upload of it is lost.
     *
     * @return which objects are visible and stay, and which uploads were given up
     * @throws TidegateException of kind {@code CLOSED} while every upload can be published
     */
    public AbandonedSet abandonSet(String pointer) throws IOException {
        byte[] encoded = Wire.utf8(pointer);
        return AbandonedSet.of(await((store, token) -> Native.abandonSet(store, token, encoded)));
    }
}
