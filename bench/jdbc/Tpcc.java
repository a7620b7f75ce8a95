import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CyclicBarrier;
import java.util.function.BooleanSupplier;
import java.util.function.LongPredicate;

/**
 * TPC-C's transactions by pgjdbc, one connection a thread, as bench/src/tpcc/transactions.rs has them; for
 * `ondol-bench tpcc --wire --jdbc`, which gives it the statements and judges what it tells.
 *
 * <p>Arguments: URL, threads, seconds to warm up, seconds to count, warehouses, items, customers, seed,
 * isolation (JDBC's number), file of statements. A line of that file is: name, text with question marks,
 * numbers of the parameters that these stand for, kinds of the parameters, kinds of the results; between them
 * tabs. Prints "begin" and "end" around what is counted, then transactions, rolled_back, retries, p50_us and
 * p99_us.
 */
public class Tpcc {

  record Query(String sql, int[] order, String params) {}

  static final Map<String, Query> QUERIES = new HashMap<>();
  static final String[] SYLLABLES = "BAR OUGHT ABLE PRI PRES ESE ANTI CALLY ATION EING".split(" ");
  static final List<String> AGAIN = List.of("40001", "40P01", "55P03");
  static final int DISTRICTS = 10;
  static int warehouses, items, customers;
  static volatile boolean counting, over;

  static class Terminal extends Thread {

    final Connection c;
    final Map<String, PreparedStatement> prepared = new HashMap<>();
    final SplittableRandom random;
    final List<Integer> homes = new ArrayList<>();
    final CyclicBarrier start;
    long transactions, rolledBack, retries;
    long[] waits = new long[1 << 16];
    Exception failed;

    Terminal(String url, int isolation, int thread, int threads, long seed, CyclicBarrier start)
      throws Exception {
      this.start = start;
      c = DriverManager.getConnection(url);
      c.setAutoCommit(false);
      c.setTransactionIsolation(isolation);
      random = new SplittableRandom(seed * 1000 + thread);
      for (int w = thread + 1; w <= warehouses; w += threads) homes.add(w);
      if (homes.isEmpty()) homes.add((thread % warehouses) + 1);
      for (var q : QUERIES.entrySet()) prepared.put(q.getKey(), c.prepareStatement(q.getValue().sql));
    }

    int range(int low, int high) {
      return random.nextInt(low, high + 1);
    }

    int nurand(int a, int constant, int low, int high) {
      return (((range(0, a) | range(low, high)) + constant) % (high - low + 1)) + low;
    }

    String name() {
      int n = nurand(255, 77, 0, Math.min(customers, 1000) - 1);
      return SYLLABLES[n / 100 % 10] + SYLLABLES[n / 10 % 10] + SYLLABLES[n % 10];
    }

    int another(int w) {
      int other = range(1, warehouses - 1);
      return other >= w ? other + 1 : other;
    }

    PreparedStatement bind(String name, Object... values) throws SQLException {
      Query q = QUERIES.get(name);
      PreparedStatement p = prepared.get(name);
      for (int i = 0; i < q.order.length; i++) {
        Object v = values[q.order[i] - 1];
        switch (q.params.charAt(q.order[i] - 1)) {
          case 'i' -> p.setInt(i + 1, (Integer) v);
          case 'm' -> p.setBigDecimal(i + 1, (BigDecimal) v);
          case 'd' -> p.setTimestamp(i + 1, (Timestamp) v);
          default -> p.setString(i + 1, (String) v);
        }
      }
      return p;
    }

    /** The first row's values, nothing if there is none. */
    Object[] row(String name, Object... values) throws SQLException {
      try (ResultSet r = bind(name, values).executeQuery()) {
        if (!r.next()) return null;
        Object[] all = new Object[r.getMetaData().getColumnCount()];
        for (int i = 0; i < all.length; i++) all[i] = r.getObject(i + 1);
        return all;
      }
    }

    Object[] one(String name, Object... values) throws SQLException {
      Object[] found = row(name, values);
      if (found == null) throw new SQLException(name + " found nothing");
      return found;
    }

    void change(String name, Object... values) throws SQLException {
      int n = bind(name, values).executeUpdate();
      if (n != 1) throw new SQLException(name + " changed " + n + " rows");
    }

    List<Object> column(String name, Object... values) throws SQLException {
      List<Object> all = new ArrayList<>();
      try (ResultSet r = bind(name, values).executeQuery()) {
        while (r.next()) all.add(r.getObject(1));
      }
      return all;
    }

    int customer(int w, int d, boolean byName, int id, String name) throws SQLException {
      if (!byName) return id;
      List<Object> all = column("byname", w, d, name);
      if (all.isEmpty()) throw new SQLException("no customer is called " + name);
      return (Integer) all.get((all.size() + 1) / 2 - 1);
    }

    interface Work {
      /** Whether to commit. */
      boolean run() throws SQLException;
    }

    Work draw() {
      int w = homes.get(random.nextInt(homes.size())), d = range(1, DISTRICTS), which = random.nextInt(100);
      Timestamp now = new Timestamp(System.currentTimeMillis());
      boolean byName = random.nextInt(100) < 60;
      String name = name();
      int id = nurand(1023, 987, 1, customers);
      if (which < 45) return newOrder(w, d, id, now);
      if (which < 88) {
        boolean remote = warehouses > 1 && random.nextInt(100) < 15;
        int cw = remote ? another(w) : w, cd = remote ? range(1, DISTRICTS) : d;
        BigDecimal amount = BigDecimal.valueOf(range(100, 500_000), 2);
        return () -> payment(w, d, cw, cd, byName, id, name, amount, now);
      }
      if (which < 92) return () -> orderStatus(w, d, byName, id, name);
      int carrier = range(1, 10), threshold = range(10, 20);
      if (which < 96) return () -> delivery(w, carrier, now);
      return () -> {
        int next = (Integer) one("leveldistrict", w, d)[0];
        one("levelcount", w, d, next - 20, next, threshold);
        return true;
      };
    }

    Work newOrder(int w, int d, int customer, Timestamp now) {
      int[][] lines = new int[range(5, 15)][];
      boolean invalid = random.nextInt(100) == 0, local = true;
      for (int i = 0; i < lines.length; i++) {
        int supply = warehouses > 1 && random.nextInt(100) == 0 ? another(w) : w;
        local &= supply == w;
        lines[i] = new int[] { i + 1, nurand(8191, 5987, 1, items), supply, range(1, 10) };
      }
      if (invalid) lines[lines.length - 1][1] = items + 1;
      // Stock is locked in one order by all; the unused item is the last.
      Comparator<int[]> order = Comparator.comparing(l -> l[1] > items);
      Arrays.sort(lines, order.thenComparing(l -> l[2]).thenComparing(l -> l[1]));
      int allLocal = local ? 1 : 0;
      return () -> {
        one("warehouse", w);
        one("customer", w, d, customer);
        int o = (Integer) one("district", w, d)[0] - 1;
        change("order", w, d, o, customer, now, lines.length, allLocal);
        change("neworder", w, d, o);
        int good = invalid ? lines.length - 1 : lines.length;
        PreparedStatement batch = prepared.get("line");
        // An attempt that failed may have left lines.
        batch.clearBatch();
        BigDecimal[] prices = new BigDecimal[lines.length];
        for (int i = 0; i < lines.length; i++) {
          Object[] item = row("item", lines[i][1]);
          if ((item == null) != i >= good) throw new SQLException("item " + lines[i][1]);
          if (item != null) prices[i] = (BigDecimal) item[0];
        }
        for (int i = 0; i < good; i++) {
          int[] l = lines[i];
          Object[] stock = one("stock" + d, l[2], l[1], l[3], l[2] != w ? 1 : 0);
          BigDecimal amount = prices[i].multiply(BigDecimal.valueOf(l[3]));
          bind("line", w, d, o, l[0], l[1], l[2], l[3], amount, stock[1]);
          batch.addBatch();
        }
        for (int n : batch.executeBatch()) if (n != 1) throw new SQLException("a line changed " + n + " rows");
        return !invalid;
      };
    }

    boolean payment(
      int w, int d, int cw, int cd, boolean byName, int id, String name, BigDecimal amount, Timestamp now
    ) throws SQLException {
      String data = (String) one("paywarehouse", w, amount)[0];
      data += "    " + one("paydistrict", w, d, amount)[0];
      int customer = customer(cw, cd, byName, id, name);
      Object[] found = one("paycustomer", cw, cd, customer, amount);
      if (found[10].equals("BC")) {
        String note = customer + " " + cd + " " + cw + " " + d + " " + w + " " + amount + " ";
        one("paybadcredit", cw, cd, customer, note);
      }
      change("history", customer, cd, cw, d, w, now, amount, data);
      return true;
    }

    boolean orderStatus(int w, int d, boolean byName, int id, String name) throws SQLException {
      int customer = customer(w, d, byName, id, name);
      one("statuscustomer", w, d, customer);
      int order = (Integer) one("statusorder", w, d, customer)[0];
      int n = column("statuslines", w, d, order).size();
      if (n < 5 || n > 15) throw new SQLException("an order has " + n + " lines");
      return true;
    }

    boolean delivery(int w, int carrier, Timestamp now) throws SQLException {
      for (int d = 1; d <= DISTRICTS; d++) {
        Object[] oldest;
        // Another delivery may have taken it meanwhile: then look again.
        do oldest = row("oldest", w, d);
        while (oldest != null && bind("remove", w, d, oldest[0]).executeUpdate() == 0);
        if (oldest == null) continue;
        int customer = (Integer) one("deliverorder", w, d, oldest[0], carrier)[0];
        BigDecimal sum = BigDecimal.ZERO;
        for (Object amount : column("deliverlines", w, d, oldest[0], now)) sum = sum.add((BigDecimal) amount);
        change("delivercustomer", w, d, customer, sum);
      }
      return true;
    }

    @Override
    public void run() {
      try {
        start.await();
        while (!over) {
          Work work = draw();
          long began = System.nanoTime();
          boolean commit;
          while (true) {
            try {
              commit = work.run();
              if (commit) c.commit();
              else c.rollback();
              break;
            } catch (SQLException e) {
              c.rollback();
              if (!AGAIN.contains(e.getSQLState())) throw e;
              if (counting) retries++;
            }
          }
          if (!counting || over) continue;
          if (transactions == waits.length) waits = Arrays.copyOf(waits, waits.length * 2);
          waits[(int) transactions++] = System.nanoTime() - began;
          if (!commit) rolledBack++;
        }
        c.close();
      } catch (Exception e) {
        failed = e;
        over = true;
      }
    }
  }

  public static void main(String[] a) throws Exception {
    int threads = Integer.parseInt(a[1]);
    long warm = (long) (Double.parseDouble(a[2]) * 1000), counted = (long) (Double.parseDouble(a[3]) * 1000);
    warehouses = Integer.parseInt(a[4]);
    items = Integer.parseInt(a[5]);
    customers = Integer.parseInt(a[6]);
    for (String line : Files.readAllLines(Path.of(a[9]))) {
      String[] f = line.split("\t", -1);
      int[] order = Arrays.stream(f[2].split(",")).mapToInt(Integer::parseInt).toArray();
      QUERIES.put(f[0], new Query(f[1], order, f[3]));
    }
    CyclicBarrier start = new CyclicBarrier(threads + 1);
    List<Terminal> all = new ArrayList<>();
    for (int t = 0; t < threads; t++) {
      all.add(new Terminal(a[0], Integer.parseInt(a[8]), t, threads, Long.parseLong(a[7]), start));
    }
    all.forEach(Thread::start);
    start.await();
    Thread.sleep(warm);
    System.out.println("begin");
    System.out.flush();
    long began = System.nanoTime();
    counting = true;
    // A moment on a busy machine may be too short for one.
    LongPredicate goes = ms -> System.nanoTime() - began < ms * 1_000_000;
    BooleanSupplier none = () -> all.stream().noneMatch(t -> t.transactions > 0);
    while (!over && (goes.test(counted) || goes.test(10_000) && none.getAsBoolean())) Thread.sleep(1);
    over = true;
    double seconds = (System.nanoTime() - began) / 1e9;
    System.out.println("end");
    System.out.flush();
    for (Terminal t : all) t.join();
    for (Terminal t : all) if (t.failed != null) throw t.failed;
    var each = all.stream().flatMapToLong(t -> Arrays.stream(t.waits, 0, (int) t.transactions));
    long[] waits = each.sorted().toArray();
    if (waits.length == 0) throw new Exception("no transaction came through");
    System.out.println("seconds " + seconds);
    System.out.println("transactions " + waits.length);
    System.out.println("rolled_back " + all.stream().mapToLong(t -> t.rolledBack).sum());
    System.out.println("retries " + all.stream().mapToLong(t -> t.retries).sum());
    System.out.println("p50_us " + waits[waits.length / 2] / 1e3);
    System.out.println("p99_us " + waits[waits.length * 99 / 100] / 1e3);
  }
}
