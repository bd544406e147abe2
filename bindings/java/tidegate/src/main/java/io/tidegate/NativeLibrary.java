package io.tidegate;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.net.URLConnection;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Locale;
import java.util.Set;

/**
 * Loads the native library, once: the file that the property {@code tidegate.library} names, else
 * the one in {@code java.library.path}, else that of the jar {@code tidegate-natives}, which is
 * copied to a directory of this user.
 */
final class NativeLibrary {
    private static final Set<PosixFilePermission> PRIVATE =
            PosixFilePermissions.fromString("rwx------");

    /** Why it could not be loaded. */
    private record Failure(String why, Throwable cause) {}

    /** Null if it was loaded. Kept, so that every later call tells the same. */
    private static final Failure FAILURE = failure();

    private NativeLibrary() {}

    /**
     * Has the library loaded.
     *
     * @throws TidegateException of kind {@code NATIVE_LIBRARY}
     */
    static void load() throws TidegateException {
        if (FAILURE != null) {
            String message = "the native library of Tidegate can't be loaded: " + FAILURE.why;
            throw new TidegateException(
                    TidegateException.Kind.NATIVE_LIBRARY, message, FAILURE.cause);
        }
    }

    private static Failure failure() {
        Path file = null;
        try {
            file = file();
            System.load(file.toString());
            int abi = Native.abi();
            if (abi != Native.ABI) {
                return new Failure(
                        file
                                + " is of another version than the classes: it has interface "
                                + abi
                                + ", and they need "
                                + Native.ABI,
                        null);
            }
            return null;
        } catch (IOException e) {
            return new Failure(e.getMessage(), e);
        } catch (UnsatisfiedLinkError e) {
            // The JVM begins with the name of the file, once or twice.
            String message = String.valueOf(e.getMessage()).replace(file + ": ", "");
            String advice =
                    message.contains("another classloader")
                            ? "; have one class loader for all that use Tidegate, such as that of"
                                    + " the application server"
                            : "; it must be the library of tidegate-natives of the same version as"
                                    + " the classes";
            return new Failure(file + " can't be used: " + message + advice, e);
        }
    }

    private static Path file() throws IOException {
        String given = System.getProperty("tidegate.library");
        if (given != null) {
            return Path.of(given).toAbsolutePath();
        }
        String name = System.mapLibraryName("tidegate_java");
        for (String folder :
                System.getProperty("java.library.path", "").split(File.pathSeparator, -1)) {
            Path file = Path.of(folder, name).toAbsolutePath();
            if (!folder.isEmpty() && Files.isRegularFile(file)) {
                return file;
            }
        }
        return copied(name);
    }

    private static Path copied(String name) throws IOException {
        String system = system();
        String resource = "/META-INF/native/" + system + "/" + name;
        URL library = NativeLibrary.class.getResource(resource);
        URL digest = NativeLibrary.class.getResource(resource + ".sha256");
        if (library == null || digest == null) {
            throw new IOException(
                    "no jar on the class path has it for "
                            + system
                            + ": add io.tidegate:tidegate-natives with the classifier "
                            + system
                            + ", or name the file by -Dtidegate.library");
        }
        // Named by its content: the next program finds the copy, and one of another version does
        // not.
        String folderName = "tidegate-" + user() + "-" + text(digest);
        Path folder = own(Path.of(System.getProperty("java.io.tmpdir"), folderName));
        Path file = folder.resolve(name);
        URLConnection connection = library.openConnection();
        // A crash of the machine may have cut a copy.
        if (!Files.exists(file) || Files.size(file) != connection.getContentLengthLong()) {
            // Under its name only when it is whole: another program may look for it now.
            Path torn = Files.createTempFile(folder, name, ".new");
            try (InputStream content = connection.getInputStream()) {
                Files.copy(content, torn, StandardCopyOption.REPLACE_EXISTING);
                Files.move(torn, file, StandardCopyOption.ATOMIC_MOVE);
            } finally {
                Files.deleteIfExists(torn);
            }
        }
        return file;
    }

    private static String text(URL of) throws IOException {
        try (InputStream content = of.openStream()) {
            return new String(content.readAllBytes(), StandardCharsets.US_ASCII).strip();
        }
    }

    /**
     * A directory that nobody but this user can write to: others could put a library of theirs
     * there.
     */
    private static Path own(Path folder) throws IOException {
        try {
            Files.createDirectory(folder, PosixFilePermissions.asFileAttribute(PRIVATE));
        } catch (FileAlreadyExistsException e) {
            // That of an earlier program, or not: see below.
        }
        boolean isOwn =
                Files.isDirectory(folder, LinkOption.NOFOLLOW_LINKS)
                        && Files.getAttribute(folder, "unix:uid", LinkOption.NOFOLLOW_LINKS)
                                .equals(user())
                        && Files.getPosixFilePermissions(folder, LinkOption.NOFOLLOW_LINKS)
                                .equals(PRIVATE);
        if (!isOwn) {
            throw new IOException(folder + " is not a directory of this user alone: remove it");
        }
        return folder;
    }

    private static Object user() throws IOException {
        return Files.getAttribute(Path.of("/proc/self"), "unix:uid");
    }

    private static String system() {
        String os = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String processor = System.getProperty("os.arch");
        return os + "-" + (processor.equals("amd64") ? "x86_64" : processor);
    }
}
