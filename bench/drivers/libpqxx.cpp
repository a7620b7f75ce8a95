// libpqxx 6 (Debian's): what a program does with it. Prints a line for each exercise.
#include <iostream>
#include <pqxx/pqxx>
#include <thread>

static std::string address;

static void expect(bool good, const std::string &what) {
  if (!good) throw std::runtime_error("unexpected: " + what);
}

template <class F> static std::string state(F f) {
  try {
    f();
  } catch (const pqxx::sql_error &e) {
    return e.sqlstate();
  }
  return "none";
}

static void types(pqxx::connection &c) {
  pqxx::work w(c);
  const char *values[][2] = {
    { "boolean", "t" }, { "int2", "-32768" }, { "int4", "-2147483648" }, { "int8", "-9223372036854775808" },
    { "float8", "5e-324" }, { "numeric", "12345678901234567890.50" }, { "text", "\u00e9'\\\n" },
    { "uuid", "00000000-0000-0001-0000-000000000002" }, { "date", "2020-02-29" },
    { "timestamp", "2020-02-29 01:02:03.123456" }, { "interval", "1 mon 2 days" }, { "int4[]", "{1,NULL,3}" },
  };
  for (auto &v : values) {
    auto r = w.exec_params1(std::string("SELECT $1::") + v[0] + ", NULL::" + v[0], v[1]);
    expect(r[0].as<std::string>() == v[1], std::string(v[0]) + " " + r[0].as<std::string>());
    expect(r[1].is_null(), v[0]);
  }
  auto r = w.exec_params1("SELECT $1::int8, $2::float8, $3::boolean, $4::text", 1LL << 60, 1.1, true, nullptr);
  expect(r[0].as<long long>() == 1LL << 60 && r[1].as<double>() == 1.1 && r[2].as<bool>(), "numbers");
  expect(r[3].is_null(), "NULL");
  auto bytes = w.exec_params1("SELECT $1::bytea", pqxx::binarystring(std::string("\0\1\xff", 3)));
  expect(pqxx::binarystring(bytes[0]).str() == std::string("\0\1\xff", 3), "bytea");
}

static void transactions(pqxx::connection &c) {
  {
    pqxx::work w(c);
    w.exec0("CREATE TABLE pqxx_t (a int PRIMARY KEY)");
    w.commit();
  }
  {
    pqxx::work w(c);
    w.exec0("INSERT INTO pqxx_t VALUES (1)");
  } // It rolls back.
  {
    pqxx::work w(c);
    w.exec0("INSERT INTO pqxx_t VALUES (2)");
    {
      pqxx::subtransaction s(w);
      expect(state([&] { s.exec0("INSERT INTO pqxx_t VALUES (2)"); }) == "23505", "no violation");
    }
    expect(w.exec1("SELECT sum(a) FROM pqxx_t")[0].as<int>() == 2, "the rows");
    w.commit();
  }
  {
    pqxx::transaction<pqxx::serializable> w(c);
    expect(w.exec1("SHOW transaction_isolation")[0].as<std::string>() == "serializable", "the level");
  }
  {
    pqxx::read_transaction w(c);
    expect(state([&] { w.exec0("DELETE FROM pqxx_t"); }) == "25006", "no refusal");
  }
  pqxx::nontransaction n(c);
  n.exec0("DROP TABLE pqxx_t");
}

static void prepared(pqxx::connection &c) {
  c.prepare("twice", "SELECT 2 * $1::int");
  pqxx::work w(c);
  for (int i = 0; i < 100; i++) expect(w.exec_prepared1("twice", i)[0].as<int>() == 2 * i, "the product");
  expect(state([&] { w.exec_prepared("twice", "x"); }) == "22P02", "no error");
}

static void errors(pqxx::connection &c) {
  const char *texts[][2] = {
    { "SELEC 1", "42601" }, { "SELECT x", "42703" }, { "SELECT * FROM nope", "42P01" }, { "SELECT 1/0", "22012" },
  };
  for (auto &t : texts) {
    pqxx::nontransaction n(c);
    expect(state([&] { n.exec(t[0]); }) == t[1], t[0]);
  }
}

static void cursors(pqxx::connection &c) {
  pqxx::work w(c);
  pqxx::stateless_cursor<pqxx::cursor_base::read_only, pqxx::cursor_base::owned> all(
    w, "SELECT g FROM generate_series(1, 105) g", "many", false);
  expect(all.size() == 105, "its size");
  expect(all.retrieve(100, 200).size() == 5 && all.retrieve(10, 0).size() == 10, "its rows");
}

static void pipelines(pqxx::connection &c) {
  pqxx::nontransaction n(c);
  pqxx::pipeline p(n);
  std::vector<pqxx::pipeline::query_id> ids;
  for (int i = 0; i < 50; i++) ids.push_back(p.insert("SELECT " + std::to_string(i)));
  for (int i = 49; i >= 0; i--) expect(p.retrieve(ids[i])[0][0].as<int>() == i, "the answer");
}

static void copying(pqxx::connection &c) {
  pqxx::work w(c);
  w.exec0("CREATE TEMPORARY TABLE pqxx_c (a int, b text)");
  pqxx::stream_to to(w, "pqxx_c");
  for (int i = 0; i < 1000; i++) to << std::make_tuple(i, "x\t\\" + std::to_string(i));
  to << std::make_tuple(1000, nullptr);
  to.complete();
  expect(w.exec1("SELECT count(b) FROM pqxx_c")[0].as<int>() == 1000, "what came in");
  pqxx::stream_from from(w, "pqxx_c");
  std::tuple<int, std::string> row;
  int n = 0;
  while (n < 1000 && from >> row) {
    expect(std::get<1>(row) == "x\t\\" + std::to_string(std::get<0>(row)), "what went out");
    n++;
  }
  expect(n == 1000, "the rows");
  from.complete();
}

static void cancelling(pqxx::connection &c) {
  pqxx::nontransaction n(c);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    c.cancel_query();
  });
  std::string found = state([&] { n.exec("SELECT pg_sleep(20)"); });
  other.join();
  expect(found == "57014", found);
  expect(n.exec1("SELECT 1")[0].as<int>() == 1, "afterwards");
}

struct Heard : pqxx::notification_receiver {
  std::string said;
  Heard(pqxx::connection_base &c) : pqxx::notification_receiver(c, "pqxx_ch") {}
  void operator()(const std::string &payload, int) override { said += payload; }
};

static void notifications(pqxx::connection &c) {
  Heard heard(c);
  {
    pqxx::connection other(address);
    pqxx::work w(other);
    w.exec0("NOTIFY pqxx_ch, 'hi'");
    w.commit();
  }
  c.await_notification(3, 0);
  expect(heard.said == "hi", heard.said);
}

int main(int, char **arguments) {
  address = std::string("host=127.0.0.1 user=postgres dbname=postgres port=") + arguments[1];
  struct {
    const char *name;
    void (*run)(pqxx::connection &);
  } all[] = {
    { "types", types },         { "transactions", transactions }, { "prepared", prepared },
    { "errors", errors },       { "cursors", cursors },           { "pipelines", pipelines },
    { "copying", copying },     { "cancelling", cancelling },     { "notifications", notifications },
  };
  for (auto &e : all) {
    try {
      pqxx::connection c(address);
      e.run(c);
      std::cout << "ok " << e.name << std::endl;
    } catch (const std::exception &x) {
      std::string why = x.what();
      std::cout << "FAIL " << e.name << ": " << why.substr(0, why.find('\n')) << std::endl;
    }
  }
}
