//! What the clients of a history do, and what they hold the server to while the power is on.
use super::client::{Client, Heard, Reply, Stop, bind, execute, parse, power_is_lost, query, wrong};
use super::{ACCOUNTS, BALANCE, Fate, Known, mix};
use ondol_base::sync::Mutex;
use ondol_base::{clock, random};
use ondol_wire::back;
use std::time::Duration;

/// How a transaction ends that is not to be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Break {
    Rollback,
    /// A statement that is an error, before the one of this number.
    Error,
    /// The client goes away.
    Vanish,
    /// COPY is broken off.
    CopyFail,
}

/// A transaction: its place in the journal, and its statements.
struct Play {
    n: i64,
    statements: Vec<String>,
    breaks: Option<Break>,
    /// At which statement it breaks.
    at: usize,
}

/// What a pipeline's message is answered by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    Parsed,
    Bound,
    Described,
    Executed,
}

/// What a pipeline has up to a Sync.
struct Group {
    n: i64,
    bytes: Vec<u8>,
    wanted: Vec<Wanted>,
    /// It cannot commit before the server has more of its bytes.
    commits_behind: usize,
    is_broken: bool,
    /// Between BEGIN and COMMIT; a ROLLBACK follows.
    is_block: bool,
    /// The journal's statement is prepared at its end.
    prepares: bool,
}

/// A client of a history, with a number of its own.
pub(super) struct Player<'k> {
    pub number: u64,
    pub known: &'k Mutex<Known>,
    pub r: u64,
    drawn: u64,
}

/// Errors of statements that others cause.
fn is_expected(reply: &Reply, client: &Client, known: &Mutex<Known>) -> bool {
    match reply.state() {
        Some("40001" | "40P01") => true,
        Some("57014") => client.is_cancelled || known.lock().is_stopped,
        _ => power_is_lost(),
    }
}

impl<'k> Player<'k> {
    pub fn new(number: u64, known: &'k Mutex<Known>, r: u64) -> Player<'k> {
        Player { number, known, r, drawn: 0 }
    }
    fn draw(&mut self, below: u64) -> u64 {
        self.drawn += 1;
        mix(self.r, self.drawn) % below.max(1)
    }
    fn fate(&self, n: i64, fate: Fate) {
        self.known.lock().fates.insert((self.number, n), fate);
    }
    /// The client was told of a commit, and so of all that its session did before (held/H2).
    fn was_told(&self, n: i64, client: &Client) {
        let mut known = self.known.lock();
        let fate = if client.is_asynchronous { Fate::Seen } else { Fate::Durable };
        known.count("commits acknowledged", 1);
        known.fates.insert((self.number, n), fate);
        if fate == Fate::Durable {
            let mine = known.fates.range_mut((self.number, i64::MIN)..=(self.number, n));
            mine.filter(|(_, f)| **f == Fate::Seen).for_each(|(_, f)| *f = Fate::Durable)
        }
    }
    fn count(&self, what: &'static str) {
        self.known.lock().count(what, 1)
    }

    /// Plays until it has had its turns, or the server is gone.
    pub fn play(&mut self, turns: u64) -> Result<(), String> {
        let mut client = None;
        let mut refused = 0;
        let mut turn = 0;
        while turn < turns && !power_is_lost() && refused < 20 {
            let there = match client.take() {
                Some(c) => Ok(c),
                None => self.connect(),
            };
            let done = there.and_then(|mut c| {
                refused = 0;
                turn += 1;
                self.turn(&mut c).map(|stays| if stays { Some(c) } else { None })
            });
            match done {
                Ok(c) => client = c,
                Err(Stop::Lost) => {
                    refused += 1;
                    self.count("connections lost");
                    ondol_base::thread::sleep(Duration::from_micros(random::next_u64() % 2000))
                }
                Err(Stop::Wrong(_)) if power_is_lost() => return Ok(()),
                // A server that ends does that.
                Err(Stop::BrokenOff) if self.known.lock().is_stopped => {}
                Err(Stop::BrokenOff) => {
                    return Err(format!("client {}: nobody asked to break off a statement", self.number));
                }
                Err(Stop::Wrong(what)) => return Err(format!("client {}: {what}", self.number)),
            }
        }
        match client {
            Some(c) if self.draw(2) == 0 => c.leave(),
            Some(c) => c.vanish(),
            None => {}
        }
        Ok(())
    }

    fn connect(&mut self) -> Heard<Client> {
        let is_asynchronous = self.draw(3) == 0;
        let commit = if is_asynchronous { "off" } else { "on" };
        let settings = [("idle_in_transaction_session_timeout", "5s"), ("synchronous_commit", commit)];
        let mut client = Client::connect(&settings)?;
        client.is_asynchronous = is_asynchronous;
        self.count("connections");
        // What its transactions have come to is told by now, or never will be.
        self.look(&mut client, self.number)?;
        Ok(client)
    }

    /// One conversation; whether the connection is there afterwards.
    fn turn(&mut self, client: &mut Client) -> Heard<bool> {
        match self.draw(12) {
            0..3 => self.explicit(client),
            3 => self.together(client),
            4..8 => self.pipeline(client),
            8 => {
                let whom = self.draw(super::CLIENTS);
                self.look(client, whom)?;
                Ok(true)
            }
            9 => self.add_up(client),
            10 if self.draw(4) == 0 => self.slow(client),
            10 => self.points(client),
            _ => self.cancelled(client),
        }
    }

    /// A new transaction, with what it is to do.
    fn begin(&mut self, breaks_by: &[Break]) -> Play {
        let n = {
            let mut known = self.known.lock();
            let last = known.last.entry(self.number).or_insert(0);
            *last += 1;
            *last
        };
        let parts = self.draw(4) as i64;
        let (source, target) = (self.draw(ACCOUNTS), self.draw(ACCOUNTS));
        let amount = self.draw(50);
        let me = self.number;
        let mut statements =
            vec![format!("INSERT INTO journal VALUES ({me}, {n}, {source}, {target}, {amount}, {parts})")];
        if parts > 0 {
            let lines: String = (0..parts).map(|i| format!("{me}\t{n}\t{i}\n")).collect();
            match self.draw(2) {
                0 => statements.push(format!("COPY part FROM STDIN\n{lines}")),
                _ => statements.push(format!(
                    "INSERT INTO part SELECT {me}, {n}, i FROM generate_series(0, {}) AS g(i)",
                    parts - 1
                )),
            }
        }
        statements.push(format!("UPDATE account SET balance = balance - {amount} WHERE id = {source}"));
        statements.push(format!("UPDATE account SET balance = balance + {amount} WHERE id = {target}"));
        if self.draw(2) == 0 {
            statements.push("UPDATE clock SET n = n + 1".into());
            statements.push(format!("SELECT pg_notify('told', n || ' {me} {n}') FROM clock"));
        }
        // Rows are locked in any order, so that there are deadlocks to be found.
        if self.draw(2) == 0 {
            statements.swap(0, 1)
        }
        let breaks = match self.draw(5) {
            0 => Some(breaks_by[self.draw(breaks_by.len() as u64) as usize]),
            _ => None,
        };
        let at = self.draw(statements.len() as u64 + 1) as usize;
        self.fate(n, Fate::Never);
        Play { n, statements, breaks, at }
    }

    /// Statement after statement, between BEGIN and COMMIT.
    fn explicit(&mut self, client: &mut Client) -> Heard<bool> {
        let play = self.begin(&[Break::Rollback, Break::Error, Break::Vanish, Break::CopyFail]);
        client.run("BEGIN")?;
        for (i, statement) in play.statements.iter().enumerate() {
            if play.breaks == Some(Break::Vanish) && play.at == i {
                self.count("clients gone within a transaction");
                if self.draw(2) == 0 {
                    self.send_a_part(client, "COMMIT")?
                }
                return Ok(false);
            }
            if play.breaks == Some(Break::Error) && play.at == i {
                self.fail(client)?;
                return self.roll_back(client);
            }
            let reply = match statement.split_once("STDIN\n") {
                None => client.ask(statement)?,
                Some((copy, data)) => {
                    let fails = play.breaks == Some(Break::CopyFail);
                    self.copy(client, &format!("{copy}STDIN"), data, fails)?
                }
            };
            if reply.error.is_some() {
                let is_broken = play.breaks == Some(Break::CopyFail) && reply.state() == Some("57014");
                if !is_broken && !is_expected(&reply, client, self.known) {
                    return wrong(format!("{statement}: {:?}", reply.error));
                }
                if reply.status != b'E' {
                    return wrong(format!("after an error in a transaction its status is {}", reply.status));
                }
                self.known.lock().count_error(reply.state());
                return self.roll_back(client);
            }
            if reply.status != b'T' {
                return wrong(format!("in a transaction its status is {}", reply.status));
            }
        }
        match play.breaks {
            Some(Break::Vanish) => return Ok(false),
            Some(_) => return self.roll_back(client),
            None => {}
        }
        self.fate(play.n, Fate::Maybe);
        let reply = client.ask("COMMIT")?;
        self.ended(play.n, &reply, client)
    }
    /// What a COMMIT came to.
    fn ended(&mut self, n: i64, reply: &Reply, client: &Client) -> Heard<bool> {
        match (&reply.error, reply.tags.last().map(String::as_str)) {
            (None, Some("COMMIT")) => self.was_told(n, client),
            (Some(_), _) if is_expected(reply, client, self.known) => {
                // One that was cancelled late may have come before.
                if reply.state() != Some("57014") {
                    self.fate(n, Fate::Never)
                }
            }
            _ => return wrong(format!("COMMIT came to {reply:?}")),
        }
        match reply.status {
            b'I' => Ok(true),
            status => wrong(format!("after COMMIT the status is {status}")),
        }
    }
    fn roll_back(&mut self, client: &mut Client) -> Heard<bool> {
        let reply = client.run("ROLLBACK")?;
        match (reply.tags.last().map(String::as_str), reply.status) {
            (Some("ROLLBACK"), b'I') => Ok(true),
            other => wrong(format!("ROLLBACK came to {other:?}")),
        }
    }
    /// A statement that is an error.
    fn fail(&mut self, client: &mut Client) -> Heard<()> {
        let reply = client.ask("SELECT 1 / 0")?;
        match reply.state() {
            Some("22012") => Ok(()),
            _ if is_expected(&reply, client, self.known) => Ok(()),
            _ => wrong(format!("1 / 0 came to {reply:?}")),
        }
    }
    /// A message whose end does not come.
    fn send_a_part(&mut self, client: &mut Client, sql: &str) -> Heard<()> {
        let mut out = vec![];
        query(&mut out, sql);
        let n = 1 + self.draw(out.len() as u64 - 1) as usize;
        self.count("messages cut by their client's end");
        client.send(&out[..n])
    }
    fn copy(&mut self, client: &mut Client, sql: &str, data: &str, fails: bool) -> Heard<Reply> {
        let reply = client.ask(sql)?;
        if reply.kinds.last() != Some(&b'G') {
            return Ok(reply);
        }
        let mut out = vec![];
        let mut rest = data.as_bytes();
        // Messages end anywhere.
        while !rest.is_empty() {
            let n = 1 + self.draw(rest.len() as u64) as usize;
            back::Message::begin(&mut out, b'd').bytes(&rest[..n]).end();
            rest = &rest[n..]
        }
        match fails {
            true => {
                self.count("COPYs broken off");
                back::Message::begin(&mut out, b'f').text("no more").end()
            }
            false => back::empty(&mut out, b'c'),
        }
        client.send(&out)?;
        let reply = client.reply()?;
        match fails && reply.error.is_none() {
            true => wrong(format!("a COPY that was broken off came to {reply:?}")),
            false => Ok(reply),
        }
    }

    /// All statements in one text: a transaction by itself.
    fn together(&mut self, client: &mut Client) -> Heard<bool> {
        let mut play = self.begin(&[Break::Error, Break::Vanish]);
        play.statements.retain(|s| !s.starts_with("COPY"));
        if !play.statements.iter().any(|s| s.starts_with("INSERT INTO part")) {
            // What the journal says has to be so.
            let me = (self.number, play.n);
            play.statements
                .push(format!("UPDATE journal SET parts = 0 WHERE client = {} AND n = {}", me.0, me.1))
        }
        if play.breaks == Some(Break::Error) {
            play.statements.insert(play.at.min(play.statements.len()), "SELECT 1 / 0".into())
        }
        let text = play.statements.join(";\n");
        if play.breaks == Some(Break::Vanish) {
            self.send_a_part(client, &text)?;
            return Ok(false);
        }
        if play.breaks.is_none() {
            self.fate(play.n, Fate::Maybe)
        }
        let reply = client.ask(&text)?;
        match (&reply.error, play.breaks) {
            (None, None) => self.was_told(play.n, client),
            (Some(e), Some(Break::Error)) if e.0 == "22012" => {}
            (Some(_), _) if is_expected(&reply, client, self.known) => {
                self.known.lock().count_error(reply.state());
                if reply.state() != Some("57014") {
                    self.fate(play.n, Fate::Never)
                }
            }
            _ => return wrong(format!("{text} came to {reply:?}")),
        }
        match reply.status {
            b'I' => Ok(true),
            status => wrong(format!("after a transaction by itself the status is {status}")),
        }
    }

    /// Several transactions at once, by the extended protocol: each up to a Sync.
    fn pipeline(&mut self, client: &mut Client) -> Heard<bool> {
        let mut prepares = !client.is_prepared && self.draw(2) == 0;
        let groups: Vec<Group> =
            (0..1 + self.draw(4)).map(|_| self.group(client.is_prepared, &mut prepares)).collect();
        let all: Vec<u8> = groups.iter().flat_map(|g| g.bytes.iter().copied()).collect();
        let vanishes = self.draw(8) == 0;
        let sent = if vanishes { self.draw(all.len() as u64) as usize } else { all.len() };
        let mut from = 0;
        for g in &groups {
            if !g.is_broken && sent > from + g.commits_behind {
                self.fate(g.n, Fate::Maybe)
            }
            from += g.bytes.len()
        }
        client.send(&all[..sent])?;
        if vanishes {
            self.count("clients gone within a pipeline");
            return Ok(false);
        }
        self.count("pipelines");
        for g in &groups {
            let reply = client.reply()?;
            client.is_prepared |= self.check_group(g, &reply, client)?;
            if g.is_block {
                // One that has failed goes on until it is told to end.
                let reply = client.reply()?;
                if reply.state() == Some("57014") && is_expected(&reply, client, self.known) {
                    return Ok(false);
                }
                if reply.tags != ["ROLLBACK"] || reply.status != b'I' {
                    return wrong(format!("ROLLBACK came to {reply:?}"));
                }
            }
        }
        Ok(true)
    }
    /// The messages of one transaction.
    fn group(&mut self, is_prepared: bool, prepares: &mut bool) -> Group {
        let mut play = self.begin(&[Break::Error]);
        let (me, n) = (self.number, play.n);
        play.statements.retain(|s| !s.starts_with("COPY"));
        if !play.statements.iter().any(|s| s.starts_with("INSERT INTO part")) {
            play.statements.push(format!("UPDATE journal SET parts = 0 WHERE client = {me} AND n = {n}"))
        }
        if play.breaks == Some(Break::Error) {
            play.statements.insert(play.at.min(play.statements.len()), "SELECT 1 / 0".into())
        }
        let is_block = self.draw(3) == 0;
        if is_block {
            play.statements.insert(0, "BEGIN".into());
            play.statements.push("COMMIT".into())
        }
        let (mut bytes, mut wanted) = (vec![], vec![]);
        let mut commits_behind = 0;
        for statement in &play.statements {
            match statement.strip_prefix("INSERT INTO journal VALUES (") {
                Some(values) if is_prepared => {
                    let values: Vec<String> =
                        values.trim_end_matches(')').split(", ").map(str::to_string).collect();
                    bind(&mut bytes, "journal", &values)
                }
                _ => {
                    parse(&mut bytes, "", statement);
                    wanted.push(Wanted::Parsed);
                    bind(&mut bytes, "", &[])
                }
            }
            wanted.push(Wanted::Bound);
            if self.draw(3) == 0 {
                back::Message::begin(&mut bytes, b'D').byte(b'P').text("").end();
                wanted.push(Wanted::Described)
            }
            execute(&mut bytes);
            wanted.push(Wanted::Executed);
            commits_behind = bytes.len();
            if self.draw(6) == 0 {
                back::empty(&mut bytes, b'H')
            }
        }
        let is_broken = play.breaks.is_some();
        let prepares = !is_broken && std::mem::take(prepares);
        if prepares {
            parse(&mut bytes, "journal", "INSERT INTO journal VALUES ($1, $2, $3, $4, $5, $6)");
            wanted.push(Wanted::Parsed)
        }
        back::empty(&mut bytes, b'S');
        match is_block {
            true => query(&mut bytes, "ROLLBACK"),
            false => commits_behind = bytes.len() - 1,
        }
        Group { n, bytes, wanted, commits_behind, is_broken, is_block, prepares }
    }
    /// That a group was answered as it must be: to its end, or to an error and no further. Whether the
    /// journal's statement was prepared in it.
    fn check_group(&mut self, g: &Group, reply: &Reply, client: &Client) -> Heard<bool> {
        let mut kinds = reply.kinds.iter().copied().peekable();
        let mut answered = 0;
        for wanted in &g.wanted {
            let first = kinds.peek().copied();
            let is_right = match wanted {
                Wanted::Parsed => kinds.next_if_eq(&b'1').is_some(),
                Wanted::Bound => kinds.next_if_eq(&b'2').is_some(),
                Wanted::Described => kinds.next_if(|k| b"Tn".contains(k)).is_some(),
                Wanted::Executed => {
                    let rows = kinds.next_if_eq(&b'D').is_some();
                    kinds.next_if_eq(&b'C').is_some() || rows && kinds.peek() == Some(&b'E')
                }
            };
            if first == Some(b'E') || kinds.peek() == Some(&b'E') && !is_right {
                break;
            }
            if !is_right {
                return wrong(format!("message {answered} of {:?} was answered by {reply:?}", g.wanted));
            }
            answered += 1
        }
        let rest: Vec<u8> = kinds.collect();
        let is_whole = answered == g.wanted.len();
        // At the Sync itself there may be an error as well.
        if !(rest.is_empty() && is_whole && reply.error.is_none() || rest == b"E" && reply.error.is_some()) {
            return wrong(format!("{:?} was answered by {reply:?}", g.wanted));
        }
        let has_committed = reply.error.is_none()
            && (!reply.tags.iter().any(|t| t == "BEGIN") || reply.tags.iter().any(|t| t == "COMMIT"));
        match &reply.error {
            None if g.is_broken => return wrong(format!("an error was left out of {reply:?}")),
            None if !has_committed => return wrong(format!("a transaction came to {reply:?}")),
            None => self.was_told(g.n, client),
            Some(e) if g.is_broken && e.0 == "22012" => self.count("errors within pipelines"),
            Some(_) if is_expected(reply, client, self.known) => {
                self.known.lock().count_error(reply.state());
                if reply.state() != Some("57014") {
                    self.fate(g.n, Fate::Never)
                }
            }
            Some(e) => return wrong(format!("a pipeline met {e:?}")),
        }
        match reply.status {
            b'I' => Ok(is_whole && g.prepares),
            b'E' if g.is_block && reply.error.is_some() => Ok(false),
            status => wrong(format!("after a pipeline's transaction the status is {status}")),
        }
    }

    /// That a statement sees all commits that were acknowledged before it began, and none that was taken
    /// back.
    fn look(&mut self, client: &mut Client, whom: u64) -> Heard<()> {
        let must: Vec<i64> = self.known.lock().acknowledged(whom);
        let reply = client.run(&format!("SELECT n FROM journal WHERE client = {whom}"))?;
        let mut found: Vec<i64> = vec![];
        for row in &reply.rows {
            match row.first().and_then(|v| v.as_ref()?.parse().ok()) {
                Some(n) => found.push(n),
                None => return wrong(format!("a number was to come: {row:?}")),
            }
        }
        let known = self.known.lock();
        if let Some(n) = must.iter().find(|n| !found.contains(n)) {
            return wrong(format!("transaction {n} of client {whom} was acknowledged, and is not seen"));
        }
        let never = |n: &&i64| known.fates.get(&(whom, **n)).is_none_or(|f| *f == Fate::Never);
        match found.iter().find(never) {
            Some(n) => wrong(format!("transaction {n} of client {whom} is seen, which has not committed")),
            None => Ok(()),
        }
    }
    /// That one snapshot has transactions as wholes.
    fn add_up(&mut self, client: &mut Client) -> Heard<bool> {
        let sql = "SELECT (SELECT sum(balance) FROM account), (SELECT coalesce(sum(parts), 0) FROM journal),
             (SELECT count(*) FROM part)";
        let reply = client.run(sql)?;
        let (money, parts, found) = (reply.number(0)?, reply.number(1)?, reply.number(2)?);
        match money == ACCOUNTS as i64 * BALANCE && parts == found {
            true => Ok(true),
            false => wrong(format!("the accounts hold {money}; {found} parts are there of {parts}")),
        }
    }
    /// Reads by the key, several at once.
    fn points(&mut self, client: &mut Client) -> Heard<bool> {
        let mut bytes = vec![];
        parse(&mut bytes, "", "SELECT id, balance IS NOT NULL FROM account WHERE id = $1::int");
        let asked: Vec<u64> = (0..1 + self.draw(9)).map(|_| self.draw(ACCOUNTS + 1)).collect();
        for id in &asked {
            bind(&mut bytes, "", &[id.to_string()]);
            execute(&mut bytes)
        }
        back::empty(&mut bytes, b'S');
        client.send(&bytes)?;
        let reply = client.reply()?;
        if reply.error.is_some() && is_expected(&reply, client, self.known) {
            return Ok(true);
        }
        let wanted: Vec<String> = asked.iter().filter(|id| **id < ACCOUNTS).map(u64::to_string).collect();
        let found: Vec<String> = reply.rows.iter().filter_map(|r| r.first()?.clone()).collect();
        match found == wanted && reply.error.is_none() && reply.tags.len() == asked.len() {
            true => Ok(true),
            false => wrong(format!("of the accounts {asked:?} came {reply:?}")),
        }
    }
    /// Many messages, whose answers are taken late. A server that is busy meanwhile takes more steps than a
    /// world has.
    fn slow(&mut self, client: &mut Client) -> Heard<bool> {
        const COUNT: usize = 2500;
        let mut bytes = vec![];
        for _ in 0..COUNT {
            parse(&mut bytes, "", "a text that is no statement, so that more is said of it than it has");
            back::empty(&mut bytes, b'S')
        }
        client.send(&bytes)?;
        ondol_base::thread::sleep(Duration::from_secs(2));
        for n in 0..COUNT {
            let reply = client.reply()?;
            if reply.state() != Some("42601") && !is_expected(&reply, client, self.known) {
                return wrong(format!("message {n} of those that are wrong came to {reply:?}"));
            }
        }
        self.count("answers that were taken late");
        Ok(true)
    }
    /// A statement that ends by nothing but being broken off.
    fn cancelled(&mut self, client: &mut Client) -> Heard<bool> {
        let mut key = client.key.clone();
        key[0] ^= 1;
        // What asked to break off an earlier statement may be late.
        let was_cancelled = std::mem::replace(&mut client.is_cancelled, true);
        let mut bytes = vec![];
        query(&mut bytes, "SELECT pg_sleep(3600)");
        client.send(&bytes)?;
        let mut reply = Reply::default();
        // By a wrong key it is not.
        Client::cancel(client.process, &key);
        if client.reply_within(Duration::from_millis(50), &mut reply)? {
            let is_stopped = self.known.lock().is_stopped;
            if (was_cancelled || is_stopped) && reply.state() == Some("57014") {
                return Ok(true);
            }
            return wrong(format!("a wrong key came to {reply:?}"));
        }
        key[0] ^= 1;
        let until = clock::now() + Duration::from_secs(60);
        while clock::now() < until && !power_is_lost() {
            Client::cancel(client.process, &key);
            if client.reply_within(Duration::from_millis(20), &mut reply)? {
                self.count("statements broken off");
                return match reply.state() {
                    Some("57014") => Ok(true),
                    _ if power_is_lost() => Ok(false),
                    _ => wrong(format!("what was broken off came to {reply:?}")),
                };
            }
        }
        if power_is_lost() { Ok(false) } else { wrong("nothing breaks off a statement") }
    }
}

/// A client that listens. What is told comes once, in the order of commits, and not before it is seen.
pub(super) fn listen(known: &Mutex<Known>) -> Result<(), String> {
    loop {
        match listen_once(known) {
            Ok(()) => return Ok(()),
            Err(_) if power_is_lost() => return Ok(()),
            Err(Stop::Lost) => {
                known.lock().count("listeners lost", 1);
                if known.lock().is_stopped {
                    return Ok(());
                }
                ondol_base::thread::sleep(Duration::from_millis(1))
            }
            Err(Stop::BrokenOff) if known.lock().is_stopped => return Ok(()),
            Err(Stop::BrokenOff) => return Err("nobody asked to break off a listener's statement".into()),
            Err(Stop::Wrong(what)) => return Err(format!("a listener: {what}")),
        }
    }
}

fn listen_once(known: &Mutex<Known>) -> Heard<()> {
    let mut client = Client::connect(&[])?;
    client.run("LISTEN told")?;
    let now = |client: &mut Client| client.run("SELECT n FROM clock")?.number(0);
    let before = now(&mut client)?;
    let mut last = None;
    // How far it has to come, once nobody commits any more.
    let mut goal = None;
    let mut until = Duration::MAX;
    loop {
        while let Some(told) = client.told.pop_front() {
            let numbers: Vec<i64> = told.payload.split(' ').filter_map(|w| w.parse().ok()).collect();
            let [tick, whom, n] = numbers[..] else { return wrong(format!("{told:?} was not said")) };
            match last {
                None if tick <= before + 1 => {}
                Some(last) if tick == last + 1 => {}
                last => return wrong(format!("after {last:?} came {tick}; {before} was there before")),
            }
            last = Some(tick);
            known.lock().count("notifications", 1);
            let sql = format!("SELECT count(*) FROM journal WHERE client = {whom} AND n = {n}");
            if client.run(&sql)?.number(0)? != 1 {
                return wrong(format!("transaction {n} of client {whom} is told, and not seen"));
            }
        }
        let heard = last.unwrap_or(i64::MIN);
        // What was told before it listened need not come.
        if goal.is_some_and(|g| heard >= g || g == before) {
            return Ok(());
        }
        if clock::now() > until {
            return wrong(format!("the clock is at {goal:?}, and {last:?} was told last"));
        }
        if goal.is_none() && known.lock().are_done {
            goal = Some(now(&mut client)?);
            until = clock::now() + Duration::from_secs(30)
        }
        let mut nothing = Reply::default();
        client.reply_within(Duration::from_millis(5), &mut nothing)?;
        if let Some(e) = nothing.error {
            return wrong(format!("an idle client was told {e:?}"));
        }
    }
}
