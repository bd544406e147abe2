package io.tidegate;

/** What an unfinished upload becomes when it is resumed: {@link UnfinishedUpload#resume()}. */
public sealed interface Resumed {
    /**
     * Its producer had finished, so the object was published.
     *
     * @param object as the store describes it
     */
    record Published(ObjectInfo object) implements Resumed {}

    /**
     * Its producer goes on.
     *
     * @param writer has the bytes that were durable; {@link Writer#position} says how many
     */
    record Continued(Writer writer) implements Resumed {}
}
