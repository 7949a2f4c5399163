import java.io.IOException;
import java.nio.file.*;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.LongStream;

/** Threads, garbage, files, a digest, a child, and what it gets instead of a watch on files. */
public class Main {
    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> parts = new ArrayList<>();
        for (long first = 0; first < 1_000_000; first += 250_000) {
            long start = first;
            parts.add(pool.submit(() -> LongStream.range(start, start + 250_000).sum()));
        }
        long sum = 0;
        for (Future<Long> part : parts) sum += part.get();
        pool.shutdown();
        for (int i = 0; i < 400; i++) sum += new byte[1 << 20].length;
        Path file = Path.of("sum");
        Files.writeString(file, Long.toString(sum));
        System.out.println(Files.readString(file));
        System.out.println(MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(file)).length);
        Process child = new ProcessBuilder("echo", "a child").redirectErrorStream(true).start();
        System.out.print(new String(child.getInputStream().readAllBytes()));
        System.out.println(child.waitFor());
        try (WatchService watches = FileSystems.getDefault().newWatchService()) {
            System.out.println("watches files");
        } catch (IOException refused) {
            System.out.println(refused.getMessage());
        }
    }
}
