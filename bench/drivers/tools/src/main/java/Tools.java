import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import jakarta.persistence.*;
import java.math.BigDecimal;
import java.sql.DriverManager;
import java.time.*;
import java.util.*;
import java.util.logging.*;
import liquibase.*;
import liquibase.database.*;
import liquibase.database.jvm.JdbcConnection;
import liquibase.resource.ClassLoaderResourceAccessor;
import liquibase.snapshot.*;
import liquibase.structure.core.*;
import org.flywaydb.core.Flyway;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

/** Flyway, Liquibase, Hibernate and HikariCP: schemas that they make, change and read. A line for each exercise. */
public class Tools {
    @Entity(name = "Owner")
    public static class Owner {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) Long id;
        @jakarta.persistence.Column(nullable = false, length = 40, unique = true) String name;
        BigDecimal amount;
        Instant at;
        LocalDate day;
        UUID key;
        boolean flag;
        double weight;
        @Enumerated(EnumType.STRING) DayOfWeek rests;
        byte[] picture;
        @ElementCollection List<String> tags = new ArrayList<>();
        @OneToMany(mappedBy = "owner", cascade = CascadeType.ALL) List<Pet> pets = new ArrayList<>();
        @Version int version;
    }

    @Entity(name = "Pet")
    @jakarta.persistence.Table(indexes = @jakarta.persistence.Index(columnList = "name"))
    public static class Pet {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        String name;
        @ManyToOne(fetch = FetchType.LAZY) Owner owner;
        @jakarta.persistence.Column(columnDefinition = "text") String note;
        Duration walks;
    }

    interface Exercise {
        void run() throws Exception;
    }

    static void expect(Object wanted, Object found) {
        if (!wanted.equals(found)) throw new AssertionError("expected " + wanted + ", found " + found);
    }

    static void exercise(String name, Exercise e) {
        try {
            e.run();
            System.out.println("ok " + name);
        } catch (Throwable t) {
            while (t.getCause() != null) t = t.getCause();
            System.out.println("FAIL " + name + ": " + t.toString().replaceAll("\\s+", " "));
        }
    }

    static void flyway(String url) {
        Flyway flyway = Flyway.configure().dataSource(url, "postgres", "").load();
        expect(2, flyway.migrate().migrationsExecuted);
        expect(true, flyway.validateWithResult().validationSuccessful);
        expect(0, flyway.migrate().migrationsExecuted);
    }

    static Database database(String url) throws Exception {
        JdbcConnection c = new JdbcConnection(DriverManager.getConnection(url, "postgres", ""));
        return DatabaseFactory.getInstance().findCorrectDatabaseImplementation(c);
    }

    static void liquibase(String url) throws Exception {
        Liquibase l = new Liquibase("changes.sql", new ClassLoaderResourceAccessor(), database(url));
        l.update("");
        expect(0, l.listUnrunChangeSets(new Contexts(), new LabelExpression()).size());
    }

    static void snapshot(String url) throws Exception {
        Database db = database(url);
        SnapshotControl all = new SnapshotControl(db);
        DatabaseSnapshot s =
            SnapshotGeneratorFactory.getInstance().createSnapshot(CatalogAndSchema.DEFAULT, db, all);
        Set<String> tables = new TreeSet<>();
        s.get(liquibase.structure.core.Table.class).forEach(t -> tables.add(t.getName()));
        expect(true, tables.containsAll(List.of("flown", "changed")));
        expect(1, s.get(View.class).size());
    }

    static void hibernate(String url, String mode) {
        Configuration c = new Configuration().addAnnotatedClass(Owner.class).addAnnotatedClass(Pet.class);
        c.setProperty("hibernate.connection.url", url).setProperty("hibernate.connection.username", "postgres");
        c.setProperty("hibernate.hbm2ddl.auto", mode).setProperty("hibernate.hbm2ddl.halt_on_error", "true");
        c.setProperty("hibernate.jdbc.batch_size", "20");
        try (SessionFactory factory = c.buildSessionFactory()) {
            factory.inTransaction(s -> {
                Owner o = new Owner();
                o.name = mode;
                o.amount = new BigDecimal("3.25");
                o.at = Instant.now();
                o.day = LocalDate.now();
                o.key = UUID.randomUUID();
                o.rests = DayOfWeek.SUNDAY;
                o.picture = new byte[] {1, 2};
                o.tags.add("x");
                for (int i = 0; i < 5; i++) {
                    Pet p = new Pet();
                    p.name = "p" + i;
                    p.owner = o;
                    p.walks = Duration.ofSeconds(90);
                    o.pets.add(p);
                }
                s.persist(o);
                s.flush();
                s.clear();
                String fetched = "select o from Owner o join fetch o.pets p where p.name like :n order by o.id";
                List<Owner> found = s.createQuery(fetched, Owner.class).setParameter("n", "p%").getResultList();
                expect(5, found.get(found.size() - 1).pets.size());
                String grouped = "select p.owner.rests, count(p), max(p.name) from Pet p group by p.owner.rests";
                expect(1, s.createQuery(grouped, Object[].class).getResultList().size());
                String ranked = "select p.name, rank() over (partition by p.owner.id order by p.name) from Pet p";
                expect(true, s.createQuery(ranked, Object[].class).getResultList().size() >= 5);
                Owner locked = s.find(Owner.class, o.id, LockModeType.PESSIMISTIC_WRITE);
                locked.amount = BigDecimal.TEN;
                s.flush();
                String some = "update Pet p set p.note = 'q' where p.id in (select q.id from Pet q where q.name = 'p1')";
                expect(true, s.createMutationQuery(some).executeUpdate() >= 1);
            });
        }
    }

    static void hikari(String url) throws Exception {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(url);
        config.setUsername("postgres");
        try (HikariDataSource source = new HikariDataSource(config); var c = source.getConnection()) {
            c.setReadOnly(true);
            c.setTransactionIsolation(java.sql.Connection.TRANSACTION_SERIALIZABLE);
            expect(true, c.isValid(2));
        }
    }

    public static void main(String[] args) {
        LogManager.getLogManager().reset();
        System.setProperty("liquibase.analytics.enabled", "false");
        String url = "jdbc:postgresql://127.0.0.1:" + args[0] + "/postgres";
        exercise("flyway", () -> flyway(url));
        exercise("liquibase", () -> liquibase(url));
        exercise("liquibase snapshot", () -> snapshot(url));
        for (String mode : List.of("create", "validate", "update")) {
            exercise("hibernate " + mode, () -> hibernate(url, mode));
        }
        exercise("hikari", () -> hikari(url));
        System.exit(0);
    }
}
