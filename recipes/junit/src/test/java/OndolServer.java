import java.io.BufferedReader;
import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A database of its own for each test: {@code @RegisterExtension OndolServer server = new
 * OndolServer(schema)}.
 *
 * <p>The template is made once for each schema; each server begins with a copy of it, in some 20
 * milliseconds, and keeps nothing. The program is taken from the environment's ONDOL, or else from the path.
 */
public class OndolServer implements BeforeEachCallback, AfterEachCallback {

  private static final String ONDOL = System.getenv().getOrDefault("ONDOL", "ondol");
  private static final Map<Path, Path> TEMPLATES = new HashMap<>();
  private final Path schema;
  private Process server;
  private String url;

  public OndolServer(Path schema) {
    this.schema = schema;
  }

  /** For pgjdbc. */
  public String url() {
    return url;
  }

  public Connection connect() throws Exception {
    return DriverManager.getConnection(url);
  }

  @Override
  public void beforeEach(ExtensionContext context) throws Exception {
    String[] options = { "--listen", "127.0.0.1:0", "--trust-loopback" };
    List<String> command = new ArrayList<>(List.of(ONDOL, "serve", "--temporary", "--template"));
    command.add(template(schema).toString());
    command.addAll(List.of(options));
    server = new ProcessBuilder(command).redirectError(Redirect.DISCARD).start();
    // It is not closed: the server writes there when it ends.
    BufferedReader said = server.inputReader();
    String line;
    while ((line = said.readLine()) != null) {
      if (line.strip().startsWith("postgres://postgres@")) {
        String place = line.strip().substring("postgres://postgres@".length());
        url = "jdbc:postgresql://" + place + "?user=postgres";
        return;
      }
    }
    throw new IOException(ONDOL + " serve ended with " + server.waitFor());
  }

  @Override
  public void afterEach(ExtensionContext context) {
    if (server != null) server.destroy();
  }

  private static synchronized Path template(Path schema) throws Exception {
    Path known = TEMPLATES.get(schema);
    if (known != null) return known;
    Path folder = Files.createTempDirectory("ondol");
    Runtime.getRuntime().addShutdownHook(new Thread(() -> remove(folder)));
    Path made = folder.resolve("template");
    List<String> command = List.of(ONDOL, "shell", made.toString(), "-f", schema.toString());
    Process shell = new ProcessBuilder(command).redirectErrorStream(true).start();
    String said = new String(shell.getInputStream().readAllBytes());
    if (shell.waitFor() != 0) throw new IOException(said);
    TEMPLATES.put(schema, made);
    return made;
  }

  private static void remove(Path folder) {
    try (var all = Files.walk(folder)) {
      all.sorted(Comparator.reverseOrder()).forEach(p -> p.toFile().delete());
    } catch (IOException e) {
      System.err.println(e);
    }
  }
}
