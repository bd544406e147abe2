package io.tidegate.hadoop;

import io.tidegate.ObjectInfo;

import org.apache.hadoop.fs.FileChecksum;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.Base64;
import java.util.Optional;

/**
 * The checksum of a whole file that the store keeps: CRC-64/NVME, else CRC-32C under the name that
 * HDFS gives it when it combines those of blocks. Two files of equal bytes have equal checksums of
 * one name, however they were uploaded.
 */
public final class ObjectChecksum extends FileChecksum {
    private String algorithm;
    private byte[] bytes;

    /** For {@link #readFields}, as every {@link org.apache.hadoop.io.Writable} has. */
    public ObjectChecksum() {
        this("", new byte[0]);
    }

    private ObjectChecksum(String algorithm, byte[] bytes) {
        this.algorithm = algorithm;
        this.bytes = bytes;
    }

    /** The checksum that the store has of an object, if it has one. */
    static Optional<ObjectChecksum> of(ObjectInfo object) {
        return of(object, "crc64nvme", "CRC64NVME")
                .or(() -> of(object, "crc32c", "COMPOSITE-CRC32C"));
    }

    private static Optional<ObjectChecksum> of(ObjectInfo object, String name, String algorithm) {
        return object.text(name)
                .map(text -> new ObjectChecksum(algorithm, Base64.getDecoder().decode(text)));
    }

    @Override
    public String getAlgorithmName() {
        return algorithm;
    }

    @Override
    public int getLength() {
        return bytes.length;
    }

    @Override
    public byte[] getBytes() {
        return bytes.clone();
    }

    @Override
    public void write(DataOutput to) throws IOException {
        to.writeUTF(algorithm);
        to.writeInt(bytes.length);
        to.write(bytes);
    }

    @Override
    public void readFields(DataInput from) throws IOException {
        algorithm = from.readUTF();
        bytes = new byte[from.readInt()];
        from.readFully(bytes);
    }

    @Override
    public String toString() {
        return algorithm + ":" + Base64.getEncoder().encodeToString(bytes);
    }
}
