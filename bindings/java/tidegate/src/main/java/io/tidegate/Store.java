package io.tidegate;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.stream.Stream;

/**
 * A bucket or a directory, or what is below a prefix of it. Any number of threads may use it, and
 * it needs no closing.
 *
 * <p>Keys are relative to the store. Every method that waits fails with {@link TidegateException},
 * or with {@link java.io.InterruptedIOException} within 100 ms after its thread was interrupted.
 */
public final class Store {
    private final Handle handle;

    Store(Handle handle) {
        this.handle = handle;
    }

    Handle handle() {
        return handle;
    }

    /** The URL of the store. */
    public String location() throws IOException {
        Call.Reply reply = Call.await(handle, Native::location);
        return new String(reply.payload(), StandardCharsets.UTF_8);
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
        Bytes from = Bytes.toRead(bytes);
        Call.Reply reply =
                Call.await(
                        handle,
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
        return Call.await(handle, (store, token) -> Native.get(store, token, encodedKey)).payload();
    }

    /**
     * Describes an object.
     *
     * @throws TidegateException of kind {@code NOT_FOUND} if there is no such object
     */
    public ObjectInfo stat(String key) throws IOException {
        byte[] encodedKey = Wire.utf8(key);
        return ObjectInfo.of(
                Call.await(handle, (store, token) -> Native.stat(store, token, encodedKey)));
    }

    /** Whether there is an object of this key. */
    public boolean exists(String key) throws IOException {
        byte[] encodedKey = Wire.utf8(key);
        return Call.await(handle, (store, token) -> Native.exists(store, token, encodedKey)).value()
                == 1;
    }

    /** Removes an object. Succeeds if there is none of this key. */
    public void delete(String key) throws IOException {
        byte[] encodedKey = Wire.utf8(key);
        Call.await(handle, (store, token) -> Native.delete(store, token, encodedKey));
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
        return ObjectInfo.of(Call.await(handle, begin));
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
                Call.await(
                        handle,
                        (store, token) -> Native.openWriter(store, token, encodedKey, encoded));
        return new Writer(new Handle(reply.value()), key);
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
                Call.await(
                        handle,
                        (store, token) -> Native.openReader(store, token, encodedKey, encoded));
        return new Reader(new Handle(reply.value()), ObjectInfo.of(reply), options.isRandom());
    }
}
