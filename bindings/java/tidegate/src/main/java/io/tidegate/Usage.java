package io.tidegate;

/**
 * The memory budget of an engine and the spool, in bytes, at one moment.
 *
 * @param total the whole budget
 * @param held what is held now
 * @param partial of this, what parts hold that are not full
 * @param peak the most that was held at one moment; with journals, an upper bound of that
 * @param waiting how many writers and requests wait for memory
 * @param spooled space taken in the spool directories
 */
public record Usage(long total, long held, long partial, long peak, long waiting, long spooled) {
    static Usage of(byte[] encoded) {
        Wire.Decoder from = new Wire.Decoder(encoded);
        return new Usage(
                from.number(),
                from.number(),
                from.number(),
                from.number(),
                from.number(),
                from.number());
    }
}
