package io.tidegate;

import java.nio.ByteBuffer;

/**
 * Bytes of an object to read into a buffer.
 *
 * @param position of the first byte in the object
 * @param buffer is filled from its position to its limit; direct buffers without a copy in between
 */
public record Range(long position, ByteBuffer buffer) {}
