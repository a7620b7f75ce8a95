import java.io.*;
import java.math.*;
// pgjdbc: what a program does with it, in each of its modes. Prints a line for each exercise.
import java.sql.*;
import java.util.*;
import org.postgresql.*;
import org.postgresql.copy.*;

public class Drive {

  interface F {
    void run(Connection c) throws Exception;
  }

  static String url;
  static int bad = 0;

  static Connection open(String more) throws SQLException {
    return DriverManager.getConnection(url + (more.isEmpty() ? "" : "&" + more));
  }

  static void check(String name, String more, F f) {
    try (Connection c = open(more)) {
      f.run(c);
      System.out.println("ok " + name.trim());
    } catch (Throwable t) {
      bad++;
      System.out.println("FAIL " + name.trim() + ": " + t.toString().split("\n")[0]);
      for (StackTraceElement e : t.getStackTrace())
        if (e.getFileName() != null && e.getFileName().equals("Drive.java")) {
          System.out.println("    line " + e.getLineNumber());
          break;
        }
    }
  }

  static void eq(Object a, Object b) {
    if (!(a == null ? b == null : a.equals(b))) throw new RuntimeException("expected " + a + ", found " + b);
  }

  static ResultSet q(Connection c, String s, Object... ps) throws SQLException {
    PreparedStatement p = c.prepareStatement(s);
    for (int i = 0; i < ps.length; i++) p.setObject(i + 1, ps[i]);
    ResultSet r = p.executeQuery();
    return r;
  }

  static Object one(Connection c, String s, Object... ps) throws SQLException {
    ResultSet r = q(c, s, ps);
    r.next();
    return r.getObject(1);
  }

  static void ex(Connection c, String s) throws SQLException {
    try (Statement t = c.createStatement()) {
      t.execute(s);
    }
  }

  static String state(Connection c, String s) throws SQLException {
    try {
      ex(c, s);
      return null;
    } catch (SQLException e) {
      return e.getSQLState();
    }
  }

  public static void main(String[] a) throws Exception {
    url = "jdbc:postgresql://127.0.0.1:" + a[0] + "/postgres?user=postgres";
    for (String mode : new String[] {
      "",
      "preferQueryMode=simple",
      "prepareThreshold=-1",
      "prepareThreshold=1",
      "binaryTransfer=false",
      "preferQueryMode=extendedForPrepared",
    }) {
      check("transactions " + mode, mode, c -> {
        ex(c, "drop table if exists tx");
        ex(c, "create table tx(a int primary key,b text not null)");
        c.setAutoCommit(false);
        ex(c, "insert into tx values(1,'x')");
        c.rollback();
        eq(0L, one(c, "select count(*) from tx"));
        ex(c, "insert into tx values(1,'x')");
        Savepoint s = c.setSavepoint("s1");
        ex(c, "insert into tx values(2,'x')");
        c.rollback(s);
        try {
          ex(c, "insert into tx values(1,'y')");
          throw new RuntimeException("none");
        } catch (SQLException e) {
          ServerErrorMessage2(e);
        }
        eq("25P02", state(c, "select 1"));
        c.rollback(s);
        c.releaseSavepoint(s);
        c.commit();
        eq(1L, one(c, "select count(*) from tx"));
        for (int i : new int[] { 1, 2, 4, 8 }) {
          c.commit();
          c.setTransactionIsolation(i);
          eq(i == 1 ? 1 : i, c.getTransactionIsolation());
          one(c, "select 1");
          c.rollback();
        }
        c.setReadOnly(true);
        eq("25006", state(c, "delete from tx"));
        c.rollback();
        c.setReadOnly(false);
        c.setAutoCommit(true);
        ex(c, "drop table tx");
      });
      check("types " + mode, mode, c -> {
        Object[][] t = {
          { "boolean", true },
          { "int2", Integer.valueOf(-32768) },
          { "int4", Integer.MIN_VALUE },
          { "int8", Long.MIN_VALUE },
          { "float4", 1.5f },
          { "float8", Double.MIN_VALUE },
          { "numeric", new BigDecimal("12345678901234567890.5000") },
          { "text", "é😀'\\" },
          { "varchar(5)", "abc" },
          { "uuid", new UUID(1, 2) },
          { "date", java.sql.Date.valueOf("2020-02-29") },
          { "time", Time.valueOf("01:02:03") },
          { "timestamp", Timestamp.valueOf("2020-02-29 01:02:03.123456") },
          { "timestamptz", Timestamp.valueOf("2020-02-29 01:02:03.123456") },
        };
        for (int rounds = 0; rounds < 7; rounds++) for (Object[] v : t) {
          Object g = one(c, "select ?::" + v[0], v[1]);
          if (!v[1].toString().equals(g.toString())) throw new RuntimeException(
            v[0] + " " + v[1] + " -> " + g
          );
          eq(null, one(c, "select ?::" + v[0], (Object) null));
        }
        for (int rounds = 0; rounds < 7; rounds++) {
          PreparedStatement p = c.prepareStatement(
            "select ?::bytea, ?::int[], ?::text[], ?::numeric[], ?::date, ?::timestamptz, ?::interval, ?::int8[], ?::float8[], ?::bool[]"
          );
          p.setBytes(1, new byte[] { 0, 1, -1 });
          p.setArray(2, c.createArrayOf("int4", new Integer[] { 1, null, 3 }));
          p.setArray(3, c.createArrayOf("text", new String[] { "a,b", "\"", null, "NULL" }));
          p.setArray(4, c.createArrayOf("numeric", new BigDecimal[] { new BigDecimal("1.50") }));
          p.setObject(5, java.time.LocalDate.of(2020, 1, 2));
          p.setObject(6, java.time.OffsetDateTime.parse("2020-01-02T03:04:05Z"));
          p.setObject(7, new org.postgresql.util.PGInterval("1 mon 2 days 3 hours"));
          p.setObject(8, new long[] { 1, 2 });
          p.setObject(9, new double[] { 1.5, 2 });
          p.setArray(10, c.createArrayOf("bool", new Boolean[] { true, null }));
          ResultSet r = p.executeQuery();
          r.next();
          if (!Arrays.equals(new byte[] { 0, 1, -1 }, r.getBytes(1))) throw new RuntimeException("bytea");
          eq("[1, null, 3]", Arrays.toString((Object[]) r.getArray(2).getArray()));
          eq("[a,b, \", null, NULL]", Arrays.toString((Object[]) r.getArray(3).getArray()));
          eq("[1.50]", Arrays.toString((Object[]) r.getArray(4).getArray()));
          eq(java.time.LocalDate.of(2020, 1, 2), r.getObject(5, java.time.LocalDate.class));
          eq(
            java.time.Instant.parse("2020-01-02T03:04:05Z"),
            r.getObject(6, java.time.OffsetDateTime.class).toInstant()
          );
          eq("0 years 1 mons 2 days 3 hours 0 mins 0.0 secs", r.getObject(7).toString());
          eq("[1, 2]", Arrays.toString((Object[]) r.getArray(8).getArray()));
          eq("[1.5, 2.0]", Arrays.toString((Object[]) r.getArray(9).getArray()));
          eq("[true, null]", Arrays.toString((Object[]) r.getArray(10).getArray()));
        }
      });
      check("batches " + mode, mode, c -> {
        ex(c, "drop table if exists bt");
        ex(c, "create table bt(id serial primary key, a int unique)");
        PreparedStatement p = c.prepareStatement("insert into bt(a) values(?)");
        for (int i = 0; i < 1000; i++) {
          p.setInt(1, i);
          p.addBatch();
        }
        int[] n = p.executeBatch();
        eq(1000, n.length);
        eq(1, n[999]);
        // In this mode pgjdbc sends each by itself.
        boolean simple = mode.endsWith("=simple");
        if (!simple) for (int i : new int[] { 2000, 1, 2001 }) {
          p.setInt(1, i);
          p.addBatch();
        }
        if (!simple) try {
          p.executeBatch();
          throw new RuntimeException("none");
        } catch (BatchUpdateException e) {
          eq("23505", e.getSQLState());
        }
        eq(1000L, one(c, "select count(*) from bt"));
        PreparedStatement k = c.prepareStatement(
          "insert into bt(a) values(?)",
          Statement.RETURN_GENERATED_KEYS
        );
        for (int i = 5000; i < 5300; i++) {
          k.setInt(1, i);
          k.addBatch();
        }
        k.executeBatch();
        ResultSet r = k.getGeneratedKeys();
        int m = 0;
        while (r.next()) m++;
        eq(300, m);
        k = c.prepareStatement("insert into bt(a) values(7000)", new String[] { "id" });
        k.executeUpdate();
        r = k.getGeneratedKeys();
        r.next();
        r.getInt(1);
        Statement s = c.createStatement();
        s.addBatch("insert into bt(a) values(8000)");
        s.addBatch("update bt set a=a+1 where a=8000");
        s.addBatch("delete from bt where a=8001");
        eq("[1, 1, 1]", Arrays.toString(s.executeBatch()));
        ex(c, "drop table bt");
      });
      check("cursors " + mode, mode, c -> {
        c.setAutoCommit(false);
        Statement s = c.createStatement();
        s.setFetchSize(10);
        ResultSet r = s.executeQuery("select g from generate_series(1,105) g");
        int n = 0;
        while (r.next()) n++;
        eq(105, n);
        PreparedStatement p = c.prepareStatement("select g from generate_series(1,?) g");
        p.setInt(1, 105);
        p.setFetchSize(7);
        p.setMaxRows(50);
        r = p.executeQuery();
        n = 0;
        while (r.next()) n++;
        if (!mode.endsWith("=simple")) eq(50, n);
        Statement u = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE);
        ex(c, "drop table if exists up");
        ex(c, "create table up(a int primary key,b text)");
        ex(c, "insert into up values(1,'x'),(2,'y')");
        r = u.executeQuery("select * from up order by a");
        r.next();
        r.updateString(2, "z");
        r.updateRow();
        r.moveToInsertRow();
        r.updateInt(1, 3);
        r.updateString(2, "n");
        r.insertRow();
        r.beforeFirst();
        r.next();
        r.next();
        r.deleteRow();
        c.commit();
        eq("z,n", one(c, "select string_agg(b,',' order by a) from up"));
        ex(c, "drop table up");
        c.commit();
      });
      check("metadata " + mode, mode, c -> {
        ex(c, "drop table if exists md2; drop table if exists md");
        ex(
          c,
          "create table md(a serial primary key,b varchar(10) not null default 'x', c numeric(5,2), d timestamptz, e int generated always as (1) stored)"
        );
        ex(c, "create table md2(x int references md on delete cascade, y int)");
        ex(c, "create index mdi on md2(y desc)");
        DatabaseMetaData m = c.getMetaData();
        StringBuilder sb = new StringBuilder();
        ResultSet r = m.getColumns(null, "public", "md", "%");
        while (r.next())
          sb.append(
            r.getString("COLUMN_NAME") +
              ":" +
              r.getString("TYPE_NAME") +
              ":" +
              r.getInt("COLUMN_SIZE") +
              ":" +
              r.getInt("DECIMAL_DIGITS") +
              ":" +
              r.getString("IS_NULLABLE") +
              ":" +
              r.getString("COLUMN_DEF") +
              ":" +
              r.getString("IS_AUTOINCREMENT") +
              ":" +
              r.getString("IS_GENERATEDCOLUMN") +
              " "
          );
        eq(true, sb.length() > 0);
        r = m.getPrimaryKeys(null, "public", "md");
        r.next();
        eq("md_pkey", r.getString("PK_NAME"));
        r = m.getImportedKeys(null, "public", "md2");
        r.next();
        eq("md", r.getString("PKTABLE_NAME"));
        eq(0, r.getInt("DELETE_RULE") + 0);
        r = m.getExportedKeys(null, "public", "md");
        r.next();
        eq("md2", r.getString("FKTABLE_NAME"));
        r = m.getIndexInfo(null, "public", "md2", false, false);
        r.next();
        eq("D", r.getString("ASC_OR_DESC"));
        r = m.getTables(null, "public", "md%", new String[] { "TABLE" });
        int n = 0;
        while (r.next()) n++;
        eq(2, n);
        for (ResultSet x : new ResultSet[] {
          m.getSchemas(),
          m.getCatalogs(),
          m.getTableTypes(),
          m.getTypeInfo(),
          m.getProcedures(null, null, "%"),
          m.getFunctions(null, null, "%"),
          m.getFunctionColumns(null, null, "now", "%"),
          m.getCrossReference(null, null, "md", null, null, "md2"),
          m.getBestRowIdentifier(null, null, "md", 0, true),
          m.getVersionColumns(null, null, "md"),
          m.getTablePrivileges(null, null, "md"),
          m.getColumnPrivileges(null, null, "md", "%"),
          m.getUDTs(null, null, "%", null),
          m.getClientInfoProperties(),
        })
          while (x.next());
        m.getSQLKeywords();
        m.getMaxColumnNameLength();
        ResultSetMetaData k = q(c, "select a as q, b, a+1 from md").getMetaData();
        eq("q", k.getColumnLabel(1));
        eq("md", k.getTableName(1));
        eq("b", k.getColumnName(2));
        eq("", k.getTableName(3));
        eq(true, k.isAutoIncrement(1));
        eq(0, k.isNullable(2));
        eq(10, k.getPrecision(2));
        if (!mode.endsWith("=simple")) {
          ParameterMetaData pm = c
            .prepareStatement("select * from md where a=? and b=?")
            .getParameterMetaData();
          eq(2, pm.getParameterCount());
        }
        ex(c, "drop table md2");
        ex(c, "drop table md");
      });
      check("errors " + mode, mode, c -> {
        for (String[] e : new String[][] {
          { "selec 1", "42601" },
          { "select x", "42703" },
          { "select * from nope", "42P01" },
          { "select 1/0", "22012" },
          { "select 'x'::int", "22P02" },
        })
          eq(e[1], state(c, e[0]));
        Statement s = c.createStatement();
        boolean b = s.execute("select 1; select 2; drop table if exists zz; values (1),(2)");
        eq(true, b);
        s.getResultSet();
        eq(true, s.getMoreResults());
        eq(false, s.getMoreResults());
        eq(true, s.getMoreResults());
        ex(c, "drop table if exists nope");
      });
      check("copy " + mode, mode, c -> {
        ex(c, "drop table if exists cp");
        ex(c, "create table cp(a int,b text)");
        CopyManager m = c.unwrap(PGConnection.class).getCopyAPI();
        StringBuilder b = new StringBuilder();
        for (int i = 0; i < 20000; i++) b.append(i + "\tx" + i + "\n");
        eq(20000L, m.copyIn("copy cp from stdin", new StringReader(b.toString())));
        StringWriter w = new StringWriter();
        eq(20000L, m.copyOut("copy cp to stdout", w));
        eq(b.length(), w.toString().length());
        CopyIn i = m.copyIn("copy cp from stdin");
        i.writeToCopy("1\t2\n".getBytes(), 0, 4);
        i.cancelCopy();
        eq(20000L, one(c, "select count(*) from cp"));
        try {
          m.copyIn("copy cp from stdin", new StringReader("x\t1\n"));
          throw new RuntimeException("none");
        } catch (SQLException e) {
          eq("22P02", e.getSQLState());
        }
        ex(c, "drop table cp");
      });
      check("cancel " + mode, mode, c -> {
        Statement s = c.createStatement();
        new Thread(() -> {
          try {
            Thread.sleep(300);
            s.cancel();
          } catch (Exception e) {}
        }).start();
        try {
          s.execute("select count(*) from generate_series(1,100000000) a, generate_series(1,1000) b");
          throw new RuntimeException("none");
        } catch (SQLException e) {
          eq("57014", e.getSQLState());
        }
        Statement t = c.createStatement();
        t.setQueryTimeout(1);
        try {
          t.execute("select count(*) from generate_series(1,100000000) a, generate_series(1,1000) b");
          throw new RuntimeException("none");
        } catch (SQLException e) {
          eq("57014", e.getSQLState());
        }
        eq(1, one(c, "select 1"));
      });
      check("plans change " + mode, mode, c -> {
        ex(c, "drop table if exists pc");
        ex(c, "create table pc(a int)");
        PreparedStatement p = c.prepareStatement("select * from pc");
        for (int i = 0; i < 8; i++) p.executeQuery();
        ex(c, "alter table pc add b int");
        ResultSet r = p.executeQuery();
        eq(2, r.getMetaData().getColumnCount());
        ex(c, "set search_path=pg_catalog");
        ex(c, "discard all");
        p.executeQuery();
        ex(c, "drop table pc");
      });
      check("valid " + mode, mode, c -> {
        eq(true, c.isValid(3));
        c.setSchema("public");
        eq("public", c.getSchema());
        c.setClientInfo("ApplicationName", "jd");
        eq("jd", one(c, "show application_name"));
        c.setNetworkTimeout(Runnable::run, 5000);
      });
      if (!mode.endsWith("=simple")) check("functions " + mode, mode, c -> {
        ex(c, "create or replace function add2(a int,b int) returns int language sql as 'select a+b'");
        CallableStatement k = c.prepareCall("{?=call add2(?,?)}");
        k.registerOutParameter(1, Types.INTEGER);
        k.setInt(2, 3);
        k.setInt(3, 4);
        k.execute();
        eq(7, k.getInt(1));
        ex(c, "drop function add2(int,int)");
        eq(3, one(c, "select {fn length('abc')}"));
      });
    }
    check("listen", "", c -> {
      ex(c, "listen ch");
      try (Connection d = open("")) {
        ex(d, "notify ch,'hi'");
      }
      PGNotification[] n = c.unwrap(PGConnection.class).getNotifications(2000);
      eq(1, n == null ? 0 : n.length);
      eq("hi", n[0].getParameter());
    });
  }

  static void ServerErrorMessage2(SQLException e) {
    org.postgresql.util.ServerErrorMessage m = (
      (org.postgresql.util.PSQLException) e
    ).getServerErrorMessage();
    eq("23505", e.getSQLState());
    eq("tx", m.getTable());
    eq("tx_pkey", m.getConstraint());
    eq("public", m.getSchema());
  }
}
