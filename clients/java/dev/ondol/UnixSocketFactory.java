package dev.ondol;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.ref.Cleaner;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketException;
import java.net.SocketImpl;
import java.net.SocketOption;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantLock;
import javax.net.SocketFactory;

/**
 * Lets pgjdbc talk to a server on the same machine by its Unix socket. It needs Java 16 and nothing else.
 *
 * <pre>
 * jdbc:postgresql://localhost/postgres?user=postgres&amp;sslmode=disable
 *     &amp;socketFactory=dev.ondol.UnixSocketFactory&amp;socketFactoryArg=/home/ann/bank
 * </pre>
 *
 * <p>The argument is the folder of the socket, which for Ondol is the database's, or the socket itself. In a
 * folder the socket is called <code>.s.PGSQL.5432</code>, with the port of the URL. The URL's host is not
 * used, but pgjdbc resolves it, so it should be <code>localhost</code>.
 *
 * <p>What it keeps to:
 * <ol>
 * <li>Reading and writing do not wait for each other.
 * <li>A read that times out has taken nothing: the connection can go on.
 * <li>{@code close()} ends the reads and writes of other threads with a SocketException.
 * <li>An interrupt changes nothing, as with Java's own sockets: the thread finds it later.
 * <li>Options that only TCP has are remembered and do nothing.
 * </ol>
 *
 * <p>The channel never blocks; whoever has to wait does so in a selector. A channel that blocks would need
 * one system call for an answer in place of three. But Java closes such a channel when its thread is
 * interrupted, cannot read it with a timeout, and changes between the two kinds only while nobody uses it.
 *
 * <p>Ondol's shared memory is not here: Java reaches it by the foreign memory of Java 22.
 */
public final class UnixSocketFactory extends SocketFactory {

  /** What the port is where the address has none. */
  private static final int PORT = 5432;

  /** The bytes of a socket's name at most: Linux has room for 108, of which Java leaves two empty. */
  private static final int NAME = 106;

  /**
   * The bytes that are read or written at once. Java copies them through memory that it keeps for each
   * thread, as large as the largest piece that the thread has had.
   */
  private static final int PIECE = 64 << 10;

  /** How long to connect where no timeout is given; TCP gives up after about as long. */
  private static final int PATIENCE_MS = 120_000;

  private final String place;

  /** A factory of sockets to what lies at {@code place}; pgjdbc gives its {@code socketFactoryArg}. */
  public UnixSocketFactory(String place) {
    this.place = place;
  }

  @Override
  public Socket createSocket() throws IOException {
    return new UnixSocket(place);
  }

  @Override
  public Socket createSocket(String host, int port) throws IOException {
    Socket socket = createSocket();
    try {
      socket.connect(InetSocketAddress.createUnresolved(host, port));
    } catch (IOException e) {
      socket.close();
      throw e;
    }
    return socket;
  }

  @Override
  public Socket createSocket(String host, int port, InetAddress from, int fromPort) throws IOException {
    return createSocket(host, port);
  }

  @Override
  public Socket createSocket(InetAddress host, int port) throws IOException {
    return createSocket(host.getHostAddress(), port);
  }

  @Override
  public Socket createSocket(InetAddress host, int port, InetAddress from, int fromPort)
      throws IOException {
    return createSocket(host, port);
  }

  /** The socket that is meant by {@code place}. What is wrong with it is said here, in the user's words. */
  private static Path find(String place, int port) throws SocketException {
    if (place == null || place.isEmpty()) {
      throw new SocketException(
          "socketFactoryArg is missing: expected the database's folder or its Unix socket");
    }
    Path socket = null;
    try {
      socket = Path.of(place).toAbsolutePath();
      BasicFileAttributes found = Files.readAttributes(socket, BasicFileAttributes.class);
      if (found.isDirectory()) {
        socket = socket.resolve(".s.PGSQL." + port);
        found = Files.readAttributes(socket, BasicFileAttributes.class);
      }
      if (!found.isOther()) {
        String what = found.isDirectory() ? "a folder" : "a file";
        throw new SocketException("expected a folder or a Unix socket, found " + what + ": " + socket);
      }
    } catch (InvalidPathException e) {
      throw because("socketFactoryArg is not a path: " + place, e);
    } catch (NoSuchFileException e) {
      String what = e.getFile().equals(Path.of(place).toAbsolutePath().toString())
          ? "there is no folder and no Unix socket "
          : "there is no server's Unix socket ";
      throw because(what + socket + ": expected one of a server that runs", e);
    } catch (SocketException e) {
      throw e;
    } catch (IOException e) {
      throw because("cannot look at " + socket + ": " + e, e);
    }
    int length = socket.toString().getBytes().length;
    if (length > NAME) {
      throw new SocketException("the name of a Unix socket has " + NAME + " bytes at most, found " + length
          + ": " + socket + "; let the server have its socket elsewhere (--socket)");
    }
    if (!Files.isWritable(socket)) {
      throw new SocketException("this user may not connect to " + socket + ": it is not writable");
    }
    return socket;
  }

  private static SocketException because(String message, Exception cause) {
    SocketException e = new SocketException(message);
    e.initCause(cause);
    return e;
  }

  /** Gives back the descriptors of sockets that were dropped without being closed, as Java's own do. */
  private static final Cleaner CLEANER = Cleaner.create();

  /** What a socket holds of the system. It must not know the socket, which could not be dropped then. */
  private static final class Held implements Runnable {

    SocketChannel channel;
    Selector readable;
    /** Made when a write has to wait for the first time, which is seldom. */
    Selector writable;

    /**
     * Closes it all. A selector that is closed wakes whoever waits in it, and the system has the socket back
     * when no selector has it any more.
     */
    @Override
    @SuppressWarnings("try")
    public void run() {
      try (Selector r = readable; Selector w = writable; SocketChannel c = channel) {
      } catch (IOException e) {
        // Nobody could do more about it.
      }
    }
  }

  private static final class UnixSocket extends Socket {

    private final String place;
    private final Map<SocketOption<?>, Object> remembered = new ConcurrentHashMap<>();
    private final ReentrantLock reading = new ReentrantLock();
    private final ReentrantLock writing = new ReentrantLock();
    private final InputStream input = new Input();
    private final OutputStream output = new Output();

    private final Held held = new Held();
    private final Cleaner.Cleanable cleanable = CLEANER.register(this, held);

    /** Set once, by connect, as what is held; `closed` and what is held change under the monitor of this. */
    private volatile SocketChannel channel;
    private volatile Path socket;
    private volatile int port;
    private volatile int timeoutMs;
    private volatile boolean closed, inputShut, outputShut;
    /** What available() has read ahead; guarded by `reading`. */
    private ByteBuffer ahead = ByteBuffer.allocate(0);

    UnixSocket(String place) throws SocketException {
      // No TCP socket lies behind this one: all methods that would ask it are overridden.
      super((SocketImpl) null);
      this.place = place;
    }

    @Override
    public void connect(SocketAddress to) throws IOException {
      connect(to, 0);
    }

    @Override
    public void connect(SocketAddress to, int timeout) throws IOException {
      if (timeout < 0) {
        throw new IllegalArgumentException("a timeout is 0 ms or more, found " + timeout);
      }
      if (channel != null) {
        throw new SocketException("already connected to " + socket);
      }
      int port = to instanceof InetSocketAddress inet && inet.getPort() != 0 ? inet.getPort() : PORT;
      Path socket = find(place, port);
      int patience = timeout > 0 ? timeout : PATIENCE_MS;
      long start = System.nanoTime();
      boolean interrupted = false;
      try {
        while (true) {
          SocketException busy = attempt(socket, port);
          if (busy == null) {
            return;
          }
          long left = patience - (System.nanoTime() - start) / 1_000_000;
          if (left <= 0) {
            SocketTimeoutException e = new SocketTimeoutException(
                "no connection to " + socket + " within " + patience + " ms: " + busy.getMessage());
            e.initCause(busy);
            throw e;
          }
          try {
            Thread.sleep(Math.min(left, 10));
          } catch (InterruptedException e) {
            interrupted = true;
          }
        }
      } finally {
        if (interrupted) {
          Thread.currentThread().interrupt();
        }
      }
    }

    /**
     * Connects, or tells why another attempt may succeed: so many clients wait to be accepted that the
     * server takes no more. Linux reports that at once, and Java without a type of its own. What else may
     * come as such a SocketException was excluded by find, as far as is possible.
     */
    private SocketException attempt(Path socket, int port) throws IOException {
      SocketChannel c = SocketChannel.open(StandardProtocolFamily.UNIX);
      Selector selector = null;
      boolean good = false;
      try {
        c.configureBlocking(false);
        for (SocketOption<Integer> option : SIZES) {
          if (remembered.get(option) instanceof Integer size) {
            c.setOption(option, size);
          }
        }
        if (!c.connect(UnixDomainSocketAddress.of(socket))) {
          return new SocketException("the server does not accept it yet");
        }
        selector = Selector.open();
        c.register(selector, SelectionKey.OP_READ);
        synchronized (this) {
          open();
          if (channel != null) {
            throw new SocketException("already connected to " + this.socket);
          }
          this.socket = socket;
          this.port = port;
          held.readable = selector;
          held.channel = c;
          channel = c;
          good = true;
        }
        return null;
      } catch (ConnectException e) {
        // As a ConnectException pgjdbc would speak of the host and of TCP.
        throw because("nobody listens at " + socket + ": expected a server, found its socket only", e);
      } catch (SocketException e) {
        if (closed || channel != null) {
          throw e;
        }
        return e;
      } finally {
        if (!good) {
          c.close();
          if (selector != null) {
            selector.close();
          }
        }
      }
    }

    private SocketChannel channel() throws SocketException {
      SocketChannel c = channel;
      if (closed) {
        throw new SocketException("Socket closed");
      }
      if (c == null) {
        throw new SocketException("Socket is not connected");
      }
      return c;
    }

    /** What to throw for `e`, which reading or writing met. */
    private SocketException failed(Exception e) {
      return closed ? because("Socket closed", e) : because(e.getMessage() + ": " + socket, e);
    }

    /** Waits until there may be something to do, for `ms` at most; 0 is for ever. */
    private static void await(Selector selector, long ms) throws IOException {
      selector.select(key -> {}, ms);
    }

    private synchronized Selector writable() throws IOException {
      SocketChannel c = channel();
      if (held.writable == null) {
        held.writable = Selector.open();
        c.register(held.writable, SelectionKey.OP_WRITE);
      }
      return held.writable;
    }

    private int read(byte[] to, int at, int length) throws IOException {
      Objects.checkFromIndexSize(at, length, to.length);
      SocketChannel c = channel();
      if (inputShut) {
        return -1;
      }
      if (length == 0) {
        return 0;
      }
      boolean interrupted = false;
      reading.lock();
      try {
        if (ahead.hasRemaining()) {
          int n = Math.min(length, ahead.remaining());
          ahead.get(to, at, n);
          return n;
        }
        ByteBuffer piece = ByteBuffer.wrap(to, at, Math.min(length, PIECE));
        int limit = timeoutMs;
        long start = limit > 0 ? System.nanoTime() : 0;
        while (true) {
          int n = c.read(piece);
          if (n != 0) {
            return n;
          }
          long left = 0;
          if (limit > 0) {
            left = limit - (System.nanoTime() - start) / 1_000_000;
            if (left <= 0) {
              throw new SocketTimeoutException(
                  "Read timed out: nothing came from " + socket + " in " + limit + " ms");
            }
          }
          // A selector does not wait for a thread that is interrupted.
          interrupted |= Thread.interrupted();
          await(held.readable, left);
        }
      } catch (SocketTimeoutException e) {
        throw e;
      } catch (IOException | IllegalStateException e) {
        throw failed(e);
      } finally {
        reading.unlock();
        if (interrupted) {
          Thread.currentThread().interrupt();
        }
      }
    }

    /**
     * What can be read without waiting. pgjdbc looks for notifications by it, and once a second only where
     * it is always 0. Java does not tell how much there is, so some is read ahead.
     */
    private int available() throws IOException {
      SocketChannel c = channel();
      // Whoever reads now will have it all.
      if (inputShut || !reading.tryLock()) {
        return 0;
      }
      try {
        if (!ahead.hasRemaining()) {
          if (ahead.capacity() == 0) {
            ahead = ByteBuffer.allocate(8 << 10);
          }
          ahead.clear();
          try {
            c.read(ahead);
          } finally {
            ahead.flip();
          }
        }
        return ahead.remaining();
      } catch (IOException e) {
        throw failed(e);
      } finally {
        reading.unlock();
      }
    }

    private void write(byte[] from, int at, int length) throws IOException {
      Objects.checkFromIndexSize(at, length, from.length);
      SocketChannel c = channel();
      boolean interrupted = false;
      writing.lock();
      try {
        ByteBuffer all = ByteBuffer.wrap(from, at, length);
        while (all.position() < at + length) {
          all.limit(Math.min(at + length, all.position() + PIECE));
          if (c.write(all) == 0) {
            interrupted |= Thread.interrupted();
            await(writable(), 0);
          }
        }
      } catch (IOException | IllegalStateException e) {
        throw failed(e);
      } finally {
        writing.unlock();
        if (interrupted) {
          Thread.currentThread().interrupt();
        }
      }
    }

    @Override
    public void close() {
      synchronized (this) {
        closed = true;
      }
      // From here on nobody adds to what is held.
      cleanable.clean();
    }

    @Override
    public void shutdownInput() throws IOException {
      channel().shutdownInput();
      inputShut = true;
    }

    @Override
    public void shutdownOutput() throws IOException {
      channel().shutdownOutput();
      outputShut = true;
    }

    private final class Input extends InputStream {
      @Override
      public int read() throws IOException {
        byte[] one = new byte[1];
        return UnixSocket.this.read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
      }

      @Override
      public int read(byte[] to, int at, int length) throws IOException {
        return UnixSocket.this.read(to, at, length);
      }

      @Override
      public int available() throws IOException {
        return UnixSocket.this.available();
      }

      @Override
      public void close() throws IOException {
        UnixSocket.this.close();
      }
    }

    private final class Output extends OutputStream {
      @Override
      public void write(int one) throws IOException {
        UnixSocket.this.write(new byte[] {(byte) one}, 0, 1);
      }

      @Override
      public void write(byte[] from, int at, int length) throws IOException {
        UnixSocket.this.write(from, at, length);
      }

      @Override
      public void close() throws IOException {
        UnixSocket.this.close();
      }
    }

    @Override
    public InputStream getInputStream() throws IOException {
      channel();
      return input;
    }

    @Override
    public OutputStream getOutputStream() throws IOException {
      channel();
      return output;
    }

    /** None: whoever had it could make it block. */
    @Override
    public SocketChannel getChannel() {
      return null;
    }

    @Override
    public boolean isConnected() {
      return channel != null;
    }

    @Override
    public boolean isBound() {
      return channel != null;
    }

    @Override
    public boolean isClosed() {
      return closed;
    }

    @Override
    public boolean isInputShutdown() {
      return inputShut;
    }

    @Override
    public boolean isOutputShutdown() {
      return outputShut;
    }

    @Override
    public void bind(SocketAddress address) throws IOException {
      if (address != null) {
        throw new SocketException("a Unix socket has no address of its own to bind, found " + address);
      }
    }

    @Override
    public SocketAddress getRemoteSocketAddress() {
      return channel == null ? null : UnixDomainSocketAddress.of(socket);
    }

    @Override
    public SocketAddress getLocalSocketAddress() {
      return channel == null ? null : UnixDomainSocketAddress.of("");
    }

    @Override
    public InetAddress getInetAddress() {
      return channel == null ? null : InetAddress.getLoopbackAddress();
    }

    @Override
    public InetAddress getLocalAddress() {
      return InetAddress.getLoopbackAddress();
    }

    @Override
    public int getPort() {
      return port;
    }

    @Override
    public int getLocalPort() {
      return channel == null ? -1 : 0;
    }

    @Override
    public String toString() {
      return "UnixSocket[" + (channel == null ? "unconnected" : socket) + (closed ? ", closed]" : "]");
    }

    // Options: those that a Unix socket has go to the channel, the others are remembered.

    private static final Set<SocketOption<Integer>> SIZES =
        Set.of(StandardSocketOptions.SO_SNDBUF, StandardSocketOptions.SO_RCVBUF);

    private void open() throws SocketException {
      if (closed) {
        throw new SocketException("Socket closed");
      }
    }

    @Override
    public <T> Socket setOption(SocketOption<T> option, T value) throws SocketException {
      open();
      remembered.put(option, value);
      if (channel != null && SIZES.contains(option)) {
        try {
          channel.setOption(option, value);
        } catch (IOException e) {
          throw failed(e);
        }
      }
      return this;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> T getOption(SocketOption<T> option) throws SocketException {
      open();
      if (channel != null && SIZES.contains(option)) {
        try {
          return channel.getOption(option);
        } catch (IOException e) {
          throw failed(e);
        }
      }
      return (T) remembered.get(option);
    }

    @Override
    public Set<SocketOption<?>> supportedOptions() {
      return Set.copyOf(SIZES);
    }

    private <T> T getOption(SocketOption<T> option, T otherwise) throws SocketException {
      T value = getOption(option);
      return value == null ? otherwise : value;
    }

    private static int positive(int size) {
      if (size <= 0) {
        throw new IllegalArgumentException("a buffer has 1 byte or more, found " + size);
      }
      return size;
    }

    @Override
    public void setSoTimeout(int ms) throws SocketException {
      open();
      if (ms < 0) {
        throw new IllegalArgumentException("a timeout is 0 ms or more, found " + ms);
      }
      timeoutMs = ms;
    }

    @Override
    public int getSoTimeout() throws SocketException {
      open();
      return timeoutMs;
    }

    @Override
    public void setSendBufferSize(int size) throws SocketException {
      setOption(StandardSocketOptions.SO_SNDBUF, positive(size));
    }

    @Override
    public int getSendBufferSize() throws SocketException {
      return getOption(StandardSocketOptions.SO_SNDBUF, PIECE);
    }

    @Override
    public void setReceiveBufferSize(int size) throws SocketException {
      setOption(StandardSocketOptions.SO_RCVBUF, positive(size));
    }

    @Override
    public int getReceiveBufferSize() throws SocketException {
      return getOption(StandardSocketOptions.SO_RCVBUF, PIECE);
    }

    @Override
    public void setTcpNoDelay(boolean on) throws SocketException {
      setOption(StandardSocketOptions.TCP_NODELAY, on);
    }

    @Override
    public boolean getTcpNoDelay() throws SocketException {
      return getOption(StandardSocketOptions.TCP_NODELAY, false);
    }

    @Override
    public void setKeepAlive(boolean on) throws SocketException {
      setOption(StandardSocketOptions.SO_KEEPALIVE, on);
    }

    @Override
    public boolean getKeepAlive() throws SocketException {
      return getOption(StandardSocketOptions.SO_KEEPALIVE, false);
    }

    @Override
    public void setSoLinger(boolean on, int seconds) throws SocketException {
      setOption(StandardSocketOptions.SO_LINGER, on ? seconds : -1);
    }

    @Override
    public int getSoLinger() throws SocketException {
      return getOption(StandardSocketOptions.SO_LINGER, -1);
    }

    @Override
    public void setReuseAddress(boolean on) throws SocketException {
      setOption(StandardSocketOptions.SO_REUSEADDR, on);
    }

    @Override
    public boolean getReuseAddress() throws SocketException {
      return getOption(StandardSocketOptions.SO_REUSEADDR, false);
    }

    @Override
    public void setTrafficClass(int kind) throws SocketException {
      setOption(StandardSocketOptions.IP_TOS, kind);
    }

    @Override
    public int getTrafficClass() throws SocketException {
      return getOption(StandardSocketOptions.IP_TOS, 0);
    }

    @Override
    public void setOOBInline(boolean on) throws SocketException {
      open();
    }

    @Override
    public boolean getOOBInline() throws SocketException {
      open();
      return false;
    }

    @Override
    public void sendUrgentData(int data) throws IOException {
      throw new SocketException("a Unix socket has no urgent data");
    }
  }
}
