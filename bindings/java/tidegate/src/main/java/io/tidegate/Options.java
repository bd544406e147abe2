package io.tidegate;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * Options: names and values, as on the command line and in Python. docs/JAVA.md says where the
 * names are listed. Options never change: each method gives new ones.
 *
 * <p>Sizes are written as {@code 16MiB} or a number of bytes, times as {@code 20ms} or a number of
 * seconds, switches as {@code true} or {@code false}. {@code spool}, {@code journal}, {@code
 * owner}, {@code metadata} and {@code tags} ({@code NAME=VALUE}) may be given several times; of all
 * others the last value counts. An unknown name, a wrong value, and an option that a call does not
 * have fail where the options are passed, with {@link TidegateException.Kind#INVALID_INPUT} and a
 * message that has the name.
 */
public final class Options {
    private record Given(String name, String value, ObjectInfo object) {}

    private static final Options NONE = new Options(List.of());

    private final List<Given> given;

    private Options(List<Given> given) {
        this.given = given;
    }

    /** No options. */
    public static Options none() {
        return NONE;
    }

    /** One option. */
    public static Options of(String name, String value) {
        return NONE.and(name, value);
    }

    /** These options and one more. */
    public Options and(String name, String value) {
        return with(new Given(Objects.requireNonNull(name), Objects.requireNonNull(value), null));
    }

    /**
     * These options and one whose value is an object: {@code replaces} of a write, {@code
     * if_unchanged} of a read.
     */
    public Options and(String name, ObjectInfo object) {
        return with(new Given(Objects.requireNonNull(name), null, Objects.requireNonNull(object)));
    }

    /** These options without one of this name. */
    public Options without(String name) {
        return new Options(given.stream().filter(option -> !option.name.equals(name)).toList());
    }

    boolean has(String name, String value) {
        return given.contains(new Given(name, value, null));
    }

    /** These options, and then others. */
    Options and(Options others) {
        List<Given> all = new ArrayList<>(given);
        all.addAll(others.given);
        return new Options(List.copyOf(all));
    }

    private Options with(Given more) {
        List<Given> all = new ArrayList<>(given);
        all.add(more);
        return new Options(List.copyOf(all));
    }

    /**
     * Whether a reader asks for bytes range by range. The native library refuses values that are no
     * switch.
     */
    boolean isRandom() {
        boolean isRandom = false;
        for (Given option : given) {
            isRandom = option.name.equals("random") ? "true".equals(option.value) : isRandom;
        }
        return isRandom;
    }

    byte[] encoded() throws TidegateException {
        Wire.Encoder to = new Wire.Encoder();
        for (Given option : given) {
            to.text(option.name).text(option.value);
            if (option.object != null) {
                option.object.encode(to);
            }
        }
        return to.bytes();
    }
}
