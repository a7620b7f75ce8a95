import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Path;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class AccountTest {

  @RegisterExtension
  OndolServer server = new OndolServer(Path.of("../schema.sql"));

  private static String sum(Connection connection) throws SQLException {
    try (
      Statement s = connection.createStatement();
      ResultSet r = s.executeQuery("SELECT sum(balance) FROM account")
    ) {
      r.next();
      return r.getString(1);
    }
  }

  @Test
  void moneyMoves() throws Exception {
    try (Connection c = server.connect(); Statement s = c.createStatement()) {
      c.setAutoCommit(false);
      s.executeUpdate("UPDATE account SET balance = balance - 30 WHERE owner = 'Ann'");
      s.executeUpdate("UPDATE account SET balance = balance + 30 WHERE owner = 'Bob'");
      c.commit();
      assertEquals("120.50", sum(c));
    }
  }

  @Test
  void nobodyOwes() throws Exception {
    try (Connection c = server.connect(); Statement s = c.createStatement()) {
      String tooMuch = "UPDATE account SET balance = balance - 1000 WHERE owner = 'Ann'";
      SQLException e = assertThrows(SQLException.class, () -> s.executeUpdate(tooMuch));
      assertEquals("23514", e.getSQLState());
    }
  }

  @RepeatedTest(20)
  void othersChangesAreNotHere() throws Exception {
    try (Connection c = server.connect(); Statement s = c.createStatement()) {
      assertEquals("120.50", sum(c));
      s.executeUpdate("DELETE FROM account");
    }
  }
}
