import io.tidegate.Options;
import io.tidegate.Store;
import io.tidegate.Tidegate;
import io.tidegate.TidegateException;
import io.tidegate.Writer;

import java.io.IOException;
import java.io.InputStream;

/**
 * Uploads what a command prints, as one object: only if the command succeeds, and only if there is
 * none of this key.
 *
 * <pre>java -cp "jars/*" Upload.java s3://bucket/prefix backup.tar tar -C /data -c .</pre>
 */
public final class Upload {
    public static void main(String[] arguments) throws IOException, InterruptedException {
        if (arguments.length < 3) {
            System.err.println("usage: Upload STORE KEY COMMAND [ARGUMENT...]");
            System.exit(2);
        }
        Store store = Tidegate.shared(Options.of("memory", "64MiB")).open(arguments[0]);
        String[] command = java.util.Arrays.copyOfRange(arguments, 2, arguments.length);
        Process process =
                new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        // Without finish(), the end of this block discards the object, whatever ends it.
        try (InputStream output = process.getInputStream();
                Writer writer = store.writer(arguments[1], Options.of("create_only", "true"))) {
            byte[] piece = new byte[64 << 10];
            for (int length = output.read(piece); length >= 0; length = output.read(piece)) {
                writer.write(piece, 0, length);
            }
            int status = process.waitFor();
            if (status != 0) {
                System.err.println("the command ended with " + status + ": nothing was published");
                System.exit(1);
            }
            System.out.println(writer.finish());
        } catch (TidegateException e) {
            process.destroy();
            System.err.println(e.getMessage());
            System.exit(e.kind() == TidegateException.Kind.ALREADY_EXISTS ? 3 : 1);
        }
    }
}
