import dev.ondol.UnixSocketFactory;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.copy.CopyManager;

/**
 * UnixSocketFactory: its sockets alone, against a small server in this process, and with pgjdbc against a
 * server. Arguments: the folder of that server's socket, and its process's number, which is killed in the
 * end. Prints a line for each test; the status is 1 if one fails, 2 if one hangs.
 */
public class TestUnixSocketFactory {

  interface Body {
    void run() throws Exception;
  }

  static final int SECONDS = 120;
  static Path folder;
  static long pid;
  static int failed;

  public static void main(String[] args) throws Exception {
    folder = Path.of(args[0]).toAbsolutePath();
    pid = Long.parseLong(args[1]);
    sockets();
    connections();
    System.out.println(failed == 0 ? "all good" : failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }

  // The harness.

  static void test(String name, Body body) throws Exception {
    long start = System.nanoTime();
    FutureTask<Void> task = background(() -> {
      body.run();
      return null;
    });
    try {
      task.get(SECONDS, TimeUnit.SECONDS);
      System.out.printf("ok   %s (%d ms)%n", name, since(start));
    } catch (ExecutionException e) {
      failed++;
      System.out.println("FAIL " + name);
      e.getCause().printStackTrace(System.out);
    } catch (TimeoutException e) {
      System.out.println("HANG " + name);
      Thread.getAllStackTraces().forEach((thread, trace) -> {
        System.out.println(thread);
        for (StackTraceElement line : trace) System.out.println("    " + line);
      });
      System.exit(2);
    }
  }

  static <T> FutureTask<T> background(Callable<T> body) {
    FutureTask<T> task = new FutureTask<>(body);
    Thread thread = new Thread(task);
    thread.setDaemon(true);
    thread.start();
    return task;
  }

  static long since(long start) {
    return (System.nanoTime() - start) / 1_000_000;
  }

  static void equal(Object expected, Object found) {
    if (!expected.equals(found)) throw new AssertionError("expected " + expected + ", found " + found);
  }

  static void that(boolean fact, Object found) {
    if (!fact) throw new AssertionError("found " + found);
  }

  /** `body` throws a `kind` whose message, or a cause's, has all of `words`. */
  static <E extends Exception> E throwing(Class<E> kind, Body body, Object... words) throws Exception {
    try {
      body.run();
    } catch (Exception e) {
      if (!kind.isInstance(e)) throw new AssertionError("expected a " + kind.getName(), e);
      StringBuilder said = new StringBuilder();
      for (Throwable t = e; t != null; t = t.getCause()) said.append(t).append('\n');
      for (Object word : words) {
        if (said.indexOf(word.toString()) < 0) throw new AssertionError("expected \"" + word + "\"", e);
      }
      return kind.cast(e);
    }
    throw new AssertionError("expected a " + kind.getName() + ", found none");
  }

  /** What `task` threw; it does so within ten seconds. */
  static Exception ending(FutureTask<?> task) throws Exception {
    try {
      Object found = task.get(10, TimeUnit.SECONDS);
      throw new AssertionError("expected an exception, found " + found);
    } catch (ExecutionException e) {
      return (Exception) e.getCause();
    }
  }

  /** The thread waits until `fact` holds, for ten seconds at most. */
  static void until(Callable<Boolean> fact) throws Exception {
    long start = System.nanoTime();
    while (!fact.call()) {
      if (since(start) > 10_000) throw new AssertionError("it has not come in ten seconds");
      Thread.sleep(5);
    }
  }

  // Sockets alone.

  /** A listener in a folder of its own, and pairs of a socket of the factory and the other end. */
  static class Here implements AutoCloseable {

    final Path folder = Files.createTempDirectory("unix");
    final Path path = folder.resolve(".s.PGSQL.5432");
    final ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
    final List<AutoCloseable> open = new ArrayList<>();
    Socket socket;
    SocketChannel other;

    Here(int backlog) throws IOException {
      listener.bind(UnixDomainSocketAddress.of(path), backlog);
    }

    Here() throws IOException {
      this(16);
      socket = connect(1000);
      other = listener.accept();
      open.add(other);
    }

    Socket connect(int timeout) throws IOException {
      Socket s = new UnixSocketFactory(folder.toString()).createSocket();
      open.add(s);
      s.connect(InetSocketAddress.createUnresolved("localhost", 5432), timeout);
      return s;
    }

    void send(String text) throws IOException {
      other.write(ByteBuffer.wrap(text.getBytes()));
    }

    @Override
    public void close() throws Exception {
      for (AutoCloseable one : open) one.close();
      listener.close();
      Files.deleteIfExists(path);
      Files.delete(folder);
    }
  }

  static void sockets() throws Exception {
    test("every method of a socket is overridden", () -> {
      try (Socket s = new UnixSocketFactory("x").createSocket()) {
        for (Method m : Socket.class.getMethods()) {
          boolean known = Modifier.isStatic(m.getModifiers())
              || m.getDeclaringClass() != Socket.class
              || m.getName().equals("setPerformancePreferences");
          if (!known) s.getClass().getDeclaredMethod(m.getName(), m.getParameterTypes());
        }
      }
    });

    test("a read times out, and loses nothing", () -> {
      try (Here here = new Here()) {
        here.socket.setSoTimeout(100);
        equal(100, here.socket.getSoTimeout());
        InputStream in = here.socket.getInputStream();
        long start = System.nanoTime();
        throwing(SocketTimeoutException.class, in::read, here.path, "100 ms");
        that(since(start) >= 99 && since(start) < 5000, since(start));
        here.send("abc");
        equal('a', (char) in.read());
        here.socket.setSoTimeout(1);
        equal("bc", new String(in.readNBytes(2)));
        throwing(SocketTimeoutException.class, in::read);
        here.socket.setSoTimeout(0);
        FutureTask<Integer> read = background(in::read);
        Thread.sleep(100);
        here.send("d");
        equal((int) 'd', read.get(10, TimeUnit.SECONDS));
      }
    });

    test("a read and a write do not wait for each other", () -> {
      try (Here here = new Here()) {
        byte[] sent = new byte[16 << 20];
        new Random(1).nextBytes(sent);
        FutureTask<Void> echo = background(() -> {
          Channels.newInputStream(here.other).transferTo(Channels.newOutputStream(here.other));
          here.other.shutdownOutput();
          return null;
        });
        FutureTask<byte[]> read = background(() -> here.socket.getInputStream().readAllBytes());
        Thread.sleep(50);
        here.socket.getOutputStream().write(sent);
        here.socket.shutdownOutput();
        that(Arrays.equals(sent, read.get(60, TimeUnit.SECONDS)), "other bytes");
        echo.get(10, TimeUnit.SECONDS);
        equal(-1, here.socket.getInputStream().read());
      }
    });

    for (int timeout : new int[] {0, 60_000}) {
      test("close ends a read, with a timeout of " + timeout, () -> {
        try (Here here = new Here()) {
          here.socket.setSoTimeout(timeout);
          FutureTask<Integer> read = background(() -> here.socket.getInputStream().read());
          Thread.sleep(100);
          here.socket.close();
          that(ending(read) instanceof SocketException, "another exception");
          that(here.socket.isClosed() && here.socket.isConnected(), here.socket);
          equal(-1, here.other.read(ByteBuffer.allocate(1)));
          throwing(SocketException.class, () -> here.socket.getSoTimeout(), "Socket closed");
          throwing(SocketException.class, () -> here.socket.getInputStream(), "Socket closed");
        }
      });
    }

    test("close ends a write", () -> {
      try (Here here = new Here()) {
        FutureTask<Void> write = background(() -> {
          here.socket.getOutputStream().write(new byte[64 << 20]);
          return null;
        });
        Thread.sleep(100);
        that(!write.isDone(), "a write that did not wait");
        here.socket.close();
        throwing(SocketException.class, () -> { throw ending(write); }, "Socket closed");
      }
    });

    test("an interrupt changes nothing", () -> {
      try (Here here = new Here()) {
        Thread reader = Thread.currentThread();
        FutureTask<Void> after = background(() -> {
          Thread.sleep(100);
          reader.interrupt();
          Thread.sleep(100);
          here.send("x");
          return null;
        });
        equal('x', (char) here.socket.getInputStream().read());
        that(Thread.interrupted(), "no interrupt");
        after.get();
        // It has come before the read, or the write.
        reader.interrupt();
        here.socket.setSoTimeout(50);
        throwing(SocketTimeoutException.class, () -> here.socket.getInputStream().read());
        here.socket.getOutputStream().write(1);
        that(Thread.interrupted() && !here.socket.isClosed(), here.socket);
        equal(1, here.other.read(ByteBuffer.allocate(10)));
      }
    });

    test("available tells what is there, and takes nothing", () -> {
      try (Here here = new Here()) {
        InputStream in = here.socket.getInputStream();
        equal(0, in.available());
        here.send("abc");
        until(() -> in.available() == 3);
        here.send("d".repeat(20_000));
        equal("abc", new String(in.readNBytes(3)));
        until(() -> in.available() > 0);
        equal("d".repeat(20_000), new String(in.readNBytes(20_000)));
        equal(0, in.available());
        here.other.close();
        equal(0, in.available());
        equal(-1, in.read());
      }
    });

    test("the other end closes", () -> {
      try (Here here = new Here()) {
        here.send("last");
        here.other.close();
        equal("last", new String(here.socket.getInputStream().readAllBytes()));
        throwing(SocketException.class, () -> here.socket.getOutputStream().write(1), here.path);
        throwing(SocketException.class, () -> here.socket.getOutputStream().write(1), here.path);
      }
    });

    test("connecting waits until it is accepted, or times out", () -> {
      try (Here here = new Here(1)) {
        throwing(SocketTimeoutException.class, () -> {
          while (true) here.connect(200);
        }, here.path, "200 ms");
        FutureTask<Socket> late = background(() -> here.connect(0));
        Thread.sleep(100);
        that(!late.isDone(), "a connection");
        here.listener.configureBlocking(false);
        until(() -> {
          SocketChannel other = here.listener.accept();
          if (other != null) here.open.add(other);
          return late.isDone();
        });
        late.get().getOutputStream().write(1);
      }
    });

    test("options", () -> {
      try (Here here = new Here()) {
        Socket s = here.socket;
        s.setTcpNoDelay(true);
        s.setKeepAlive(true);
        s.setSoLinger(true, 3);
        s.setReceiveBufferSize(100_000);
        s.setSendBufferSize(100_000);
        that(s.getTcpNoDelay() && s.getKeepAlive() && s.getSoLinger() == 3, "other options");
        that(s.getReceiveBufferSize() >= 100_000 && s.getSendBufferSize() >= 100_000, s.getSendBufferSize());
        that(s.getOption(jdk.net.ExtendedSocketOptions.TCP_KEEPIDLE) == null, "a value");
        s.setOption(jdk.net.ExtendedSocketOptions.TCP_KEEPIDLE, 7);
        equal(7, s.getOption(jdk.net.ExtendedSocketOptions.TCP_KEEPIDLE));
        equal(UnixDomainSocketAddress.of(here.path), s.getRemoteSocketAddress());
        equal(5432, s.getPort());
      }
    });

    test("descriptors are given back", () -> {
      try (Here here = new Here()) {
        long before = descriptors();
        for (int i = 0; i < 300; i++) {
          try (Socket s = here.connect(1000); SocketChannel other = here.listener.accept()) {
            s.getOutputStream().write(i);
            equal(1, other.read(ByteBuffer.allocate(1)));
          }
        }
        that(descriptors() < before + 10, before + " descriptors, then " + descriptors());
        for (int i = 0; i < 100; i++) {
          // Dropped, not closed.
          new UnixSocketFactory(here.path.toString()).createSocket("localhost", 5432);
          here.listener.accept().close();
        }
        that(descriptors() > before + 100, before + " descriptors, then " + descriptors());
        until(() -> {
          System.gc();
          return descriptors() < before + 10;
        });
      }
    });
  }

  static long descriptors() throws IOException {
    try (var all = Files.list(Path.of("/proc/self/fd"))) {
      return all.count();
    }
  }

  // With pgjdbc.

  static String url(Object place, int port) {
    return "jdbc:postgresql://localhost:" + port + "/postgres?user=postgres"
        + "&socketFactory=dev.ondol.UnixSocketFactory&socketFactoryArg=" + place;
  }

  static Connection connect(String more) throws SQLException {
    return DriverManager.getConnection(url(folder, 5432) + more);
  }

  static Connection connect() throws SQLException {
    return connect("");
  }

  static void execute(Connection c, String text) throws SQLException {
    try (Statement s = c.createStatement()) {
      s.execute(text);
    }
  }

  static String one(Connection c, String text) throws SQLException {
    try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(text)) {
      r.next();
      return r.getString(1);
    }
  }

  static void state(String expected, Body body) throws Exception {
    SQLException e = throwing(SQLException.class, body);
    if (!expected.equals(e.getSQLState())) throw new AssertionError("expected SQLSTATE " + expected, e);
  }

  /** A connection of which another thread's statement waits for its answer. */
  static class Waiting implements AutoCloseable {

    final Connection c;
    final Statement s;
    final FutureTask<Boolean> answer;

    Waiting() throws Exception {
      c = connect();
      s = c.createStatement();
      answer = background(() -> s.execute("SELECT pg_sleep(100)"));
      Thread.sleep(200);
      that(!answer.isDone(), "an answer");
    }

    @Override
    public void close() throws SQLException {
      c.close();
    }
  }

  static void connections() throws Exception {
    test("connect", () -> {
      List<String> ways = List.of("", "&sslmode=disable&gssEncMode=disable&connectTimeout=0",
          "&socketTimeout=100&tcpKeepAlive=true&sendBufferSize=70000&receiveBufferSize=70000");
      for (String more : ways) {
        try (Connection c = connect(more)) {
          equal("1", one(c, "SELECT 1"));
        }
      }
      Path relative = Path.of("").toAbsolutePath().relativize(folder);
      for (Path place : List.of(folder.resolve(".s.PGSQL.5432"), relative)) {
        try (Connection c = DriverManager.getConnection(url(place, 5432))) {
          equal("postgres", one(c, "SELECT current_user"));
        }
      }
    });

    test("a place that is wrong is told", () -> {
      Path place = Files.createTempDirectory("place");
      Path file = Files.createFile(place.resolve("file"));
      Path dead = place.resolve("dead");
      Path missing = place.resolve("missing");
      Path deep = place.resolve("deep/".repeat(20));
      Files.createDirectories(deep);
      ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(UnixDomainSocketAddress.of(dead)).close();
      Files.createFile(deep.resolve(".s.PGSQL.5432"));
      Object[][] cases = {
        {"", 5432, "socketFactoryArg is missing"},
        {missing, 5432, "there is no folder and no Unix socket " + missing + ":"},
        {place, 5432, "there is no server's Unix socket " + place.resolve(".s.PGSQL.5432") + ":"},
        {folder, 5433, "there is no server's Unix socket " + folder.resolve(".s.PGSQL.5433") + ":"},
        {file, 5432, "expected a folder or a Unix socket, found a file: " + file},
        {dead, 5432, "nobody listens at " + dead},
      };
      for (Object[] one : cases) {
        Body body = () -> DriverManager.getConnection(url(one[0], (int) one[1])).close();
        throwing(SQLException.class, body, "The connection attempt failed", one[2]);
      }
      Files.delete(deep.resolve(".s.PGSQL.5432"));
      // No socket can be made there, but one can be moved.
      Path far = deep.resolve("socket");
      Files.move(dead, far);
      throwing(SQLException.class, () -> DriverManager.getConnection(url(far, 5432)).close(),
          "has 106 bytes at most, found " + far.toString().length() + ": " + far);
      try (var all = Files.walk(place)) {
        for (Path p : all.sorted((a, b) -> b.compareTo(a)).toList()) Files.delete(p);
      }
    });

    test("prepared statements and NULL", () -> {
      try (Connection c = connect()) {
        execute(c, "CREATE TABLE kinds (id int PRIMARY KEY, word text, amount numeric, raw bytea)");
        PreparedStatement in = c.prepareStatement("INSERT INTO kinds VALUES (?, ?, ?, ?)");
        PreparedStatement out = c.prepareStatement("SELECT word, amount, raw FROM kinds WHERE id = ?");
        for (int i = 0; i < 20; i++) {
          in.setInt(1, i);
          if (i % 3 == 0) in.setNull(2, Types.VARCHAR);
          else in.setString(2, "wörd " + i);
          in.setBigDecimal(3, i % 3 == 1 ? null : new java.math.BigDecimal(i + ".25"));
          in.setBytes(4, new byte[] {0, (byte) i, -1});
          equal(1, in.executeUpdate());
          out.setInt(1, i);
          try (ResultSet r = out.executeQuery()) {
            that(r.next(), "no row");
            String word = r.getString(1);
            that(i % 3 == 0 ? word == null && r.wasNull() : word.equals("wörd " + i), word);
            Object amount = r.getBigDecimal(2);
            that(i % 3 == 1 ? amount == null : amount.toString().equals(i + ".25"), amount);
            that(Arrays.equals(new byte[] {0, (byte) i, -1}, r.getBytes(3)), "other bytes");
            that(!r.next(), "another row");
          }
        }
      }
    });

    test("batches", () -> {
      for (String more : List.of("", "&reWriteBatchedInserts=true")) {
        try (Connection c = connect(more)) {
          execute(c, "DROP TABLE IF EXISTS batch");
          execute(c, "CREATE TABLE batch (id int PRIMARY KEY, word text)");
          PreparedStatement p = c.prepareStatement("INSERT INTO batch VALUES (?, ?)");
          for (int i = 0; i < 20_000; i++) {
            p.setInt(1, i);
            p.setString(2, "word ".repeat(i % 50) + i);
            p.addBatch();
          }
          equal(20_000, p.executeBatch().length);
          equal("20000", one(c, "SELECT count(*) FROM batch"));
          p.setInt(1, 20_000);
          p.setString(2, "new");
          p.addBatch();
          p.setInt(1, 7);
          p.addBatch();
          BatchUpdateException e = throwing(BatchUpdateException.class, p::executeBatch);
          equal("23505", e.getSQLState());
          equal("20000", one(c, "SELECT count(*) FROM batch"));
        }
      }
    });

    test("transactions and errors", () -> {
      try (Connection c = connect(); Connection d = connect()) {
        execute(c, "CREATE TABLE account (id int PRIMARY KEY, balance int)");
        c.setAutoCommit(false);
        execute(c, "INSERT INTO account VALUES (1, 100)");
        equal("0", one(d, "SELECT count(*) FROM account"));
        c.commit();
        equal("1", one(d, "SELECT count(*) FROM account"));
        execute(c, "UPDATE account SET balance = 0");
        c.rollback();
        equal("100", one(c, "SELECT balance FROM account"));
        Savepoint point = c.setSavepoint();
        state("23505", () -> execute(c, "INSERT INTO account VALUES (1, 1)"));
        state("25P02", () -> execute(c, "SELECT 1"));
        c.rollback(point);
        execute(c, "INSERT INTO account VALUES (2, 1)");
        c.commit();
        equal("2", one(d, "SELECT count(*) FROM account"));
        state("42P01", () -> execute(d, "SELECT * FROM nothing"));
        state("22012", () -> execute(d, "SELECT 1 / 0"));
        state("42601", () -> execute(d, "SELEC 1"));
        equal("1", one(d, "SELECT 1"));
      }
    });

    test("a large parameter", () -> {
      try (Connection c = connect()) {
        byte[] large = new byte[30 << 20];
        new Random(2).nextBytes(large);
        PreparedStatement p = c.prepareStatement("SELECT ?::bytea");
        p.setBytes(1, large);
        try (ResultSet r = p.executeQuery()) {
          r.next();
          that(Arrays.equals(large, r.getBytes(1)), "other bytes");
        }
      }
    });

    for (int rows : new int[] {0, 1000}) {
      test("100 MB, " + (rows == 0 ? "at once" : rows + " rows at a time"), () -> {
        try (Connection c = connect("&socketTimeout=60")) {
          c.setAutoCommit(false);
          Statement s = c.createStatement();
          s.setFetchSize(rows);
          long sum = 0, bytes = 0;
          try (ResultSet r =
              s.executeQuery("SELECT i, repeat('x', 1000) || i FROM generate_series(1, 100000) i")) {
            while (r.next()) {
              sum += r.getInt(1);
              String word = r.getString(2);
              that(word.endsWith("x" + r.getInt(1)), word);
              bytes += word.length();
            }
          }
          equal(5_000_050_000L, sum);
          that(bytes > 100_000_000, bytes);
          c.commit();
        }
      });
    }

    test("COPY in and out", () -> {
      try (Connection c = connect()) {
        execute(c, "CREATE TABLE copied (id int, word text)");
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 300_000; i++) text.append(i).append("\tword ").append(i * 7L).append('\n');
        byte[] sent = text.toString().getBytes();
        CopyManager copy = c.unwrap(PGConnection.class).getCopyAPI();
        equal(300_000L, copy.copyIn("COPY copied FROM STDIN", new ByteArrayInputStream(sent)));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        equal(300_000L, copy.copyOut("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT", out));
        that(Arrays.equals(sent, out.toByteArray()), "other bytes");
        InputStream wrong = new ByteArrayInputStream("x\ty\n".getBytes());
        state("22P02", () -> copy.copyIn("COPY copied FROM STDIN", wrong));
        InputStream broken = new InputStream() {
          @Override
          public int read() throws IOException {
            throw new IOException("the source is broken");
          }
        };
        throwing(IOException.class, () -> copy.copyIn("COPY copied FROM STDIN", broken), "is broken");
        equal("300000", one(c, "SELECT count(*) FROM copied"));
      }
    });

    test("cancel", () -> {
      for (int i = 0; i < 5; i++) {
        try (Waiting w = new Waiting()) {
          w.s.cancel();
          state("57014", () -> { throw ending(w.answer); });
          equal("1", one(w.c, "SELECT 1"));
        }
      }
    });

    test("setQueryTimeout", () -> {
      try (Connection c = connect(); Statement s = c.createStatement()) {
        s.setQueryTimeout(1);
        long start = System.nanoTime();
        state("57014", () -> s.execute("SELECT pg_sleep(100)"));
        that(since(start) > 900 && since(start) < 20_000, since(start));
        equal("1", one(c, "SELECT 1"));
      }
    });

    test("setNetworkTimeout", () -> {
      try (Connection c = connect(); Connection d = connect()) {
        c.setNetworkTimeout(Runnable::run, 30_000);
        equal(30_000, c.getNetworkTimeout());
        for (int i = 0; i < 100; i++) equal("" + i, one(c, "SELECT " + i));
        c.setNetworkTimeout(Runnable::run, 300);
        long start = System.nanoTime();
        SQLException e = throwing(
            SQLException.class, () -> execute(c, "SELECT pg_sleep(100)"), "SocketTimeoutException");
        equal("08006", e.getSQLState());
        that(since(start) >= 299 && since(start) < 20_000, since(start));
        that(c.isClosed(), "an open connection");
        state("08003", () -> one(c, "SELECT 1"));
        equal("1", one(d, "SELECT 1"));
        // The server notices it: the statement is broken off.
        String sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'";
        until(() -> one(d, sleeping).equals("0"));
      }
    });

    test("notifications", () -> {
      try (Connection c = connect(); Connection d = connect()) {
        execute(c, "LISTEN news");
        PGConnection listener = c.unwrap(PGConnection.class);
        List<String> heard = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
          execute(d, "NOTIFY news, '" + i + "'");
          until(() -> {
            PGNotification[] found = listener.getNotifications();
            if (found != null) for (PGNotification n : found) heard.add(n.getParameter());
            return found != null && found.length > 0;
          });
        }
        equal("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]", heard.toString());
        PGNotification[] none = listener.getNotifications(100);
        that(none == null || none.length == 0, "a notification");
        equal("1", one(c, "SELECT 1"));
      }
    });

    test("isValid and abort", () -> {
      try (Connection c = connect()) {
        that(c.isValid(10), c);
        c.abort(Runnable::run);
        that(c.isClosed() && !c.isValid(1), c);
      }
      try (Waiting w = new Waiting()) {
        w.c.abort(Runnable::run);
        throwing(SQLException.class, () -> { throw ending(w.answer); }, "Socket closed");
      }
    });

    test("close in the middle of a read", () -> {
      try (Waiting w = new Waiting()) {
        w.c.close();
        throwing(SQLException.class, () -> { throw ending(w.answer); }, "Socket closed");
      }
      Connection c = connect();
      long[] bytes = {0};
      FutureTask<Long> copy = background(() -> c.unwrap(PGConnection.class).getCopyAPI().copyOut(
          "COPY (SELECT i, repeat('x', 1000) FROM generate_series(1, 100000000) i) TO STDOUT",
          new OutputStream() {
            @Override
            public void write(int one) {
              bytes[0]++;
            }

            @Override
            public void write(byte[] from, int at, int length) {
              bytes[0] += length;
            }
          }));
      Thread.sleep(500);
      c.close();
      that(ending(copy) instanceof SQLException && bytes[0] > 0, bytes[0] + " bytes");
    });

    test("an interrupt leaves a connection as it is", () -> {
      try (Connection c = connect()) {
        Thread.currentThread().interrupt();
        equal("1", one(c, "SELECT 1"));
        equal("1", one(c, "SELECT 1 FROM pg_sleep(0.1)"));
        that(Thread.interrupted(), "no interrupt");
      }
    });

    test("8 threads", () -> {
      try (Connection c = connect()) {
        execute(c, "CREATE TABLE counter (id int PRIMARY KEY, n int)");
        execute(c, "INSERT INTO counter SELECT i, 0 FROM generate_series(0, 3) i");
        List<FutureTask<Integer>> all = new ArrayList<>();
        for (int t = 0; t < 8; t++) {
          int thread = t;
          all.add(background(() -> {
            int sum = 0;
            for (int part = 0; part < 5; part++) {
              try (Connection d = connect(thread % 2 == 0 ? "" : "&socketTimeout=60")) {
                d.setAutoCommit(false);
                PreparedStatement p = d.prepareStatement("UPDATE counter SET n = n + ? WHERE id = ?");
                PreparedStatement q = d.prepareStatement("SELECT repeat('y', ?)");
                for (int i = 0; i < 50; i++) {
                  p.setInt(1, i);
                  p.setInt(2, (thread + i) % 4);
                  sum += p.executeUpdate() * i;
                  d.commit();
                  q.setInt(1, i * 1000);
                  try (ResultSet r = q.executeQuery()) {
                    r.next();
                    equal("y".repeat(i * 1000), r.getString(1));
                  }
                }
                d.commit();
              }
            }
            return sum;
          }));
        }
        int sum = 0;
        for (FutureTask<Integer> one : all) sum += one.get();
        equal("" + sum, one(c, "SELECT sum(n) FROM counter"));
      }
    });

    // The last: no server is there any more.
    test("the server is killed", () -> {
      Connection c = connect();
      FutureTask<Long> copy = background(() -> c.unwrap(PGConnection.class).getCopyAPI().copyOut(
          "COPY (SELECT i, repeat('x', 1000) FROM generate_series(1, 100000000) i) TO STDOUT",
          OutputStream.nullOutputStream()));
      try (Waiting w = new Waiting(); Waiting timed = new Waiting(); Connection idle = connect()) {
        timed.c.setNetworkTimeout(Runnable::run, 100_000);
        ProcessHandle.of(pid).orElseThrow().destroyForcibly();
        for (FutureTask<?> one : List.of(w.answer, timed.answer, copy)) {
          SQLException e = throwing(SQLException.class, () -> { throw ending(one); });
          that(e.getSQLState().startsWith("08"), e);
        }
        state("08006", () -> one(idle, "SELECT 1"));
        that(!idle.isValid(1), idle);
      }
      try {
        c.close();
      } catch (SQLException e) {
        // Newer versions of pgjdbc tell that they could not say goodbye.
        that(e.getMessage().contains("Unable to close"), e);
      }
      throwing(SQLException.class, () -> connect().close(), folder, "expected a server");
    });
  }
}
