//! Lists of privileges: to whom an object's owner, and those whom it has let, gave what.
//!
//! - **L1** An item says what one role gave another: which privileges, and which of them the other may give
//!   on. There is one item for each pair; one that says nothing is taken out.
//! - **L2** The owner may always give all. What somebody gave rests on being allowed to: when that is taken
//!   away, what rests on it goes (CASCADE), or nothing does.
//! - **L3** An object whose list is absent has its kind's usual one: all for the owner, and what everybody
//!   may do with such a thing.
use crate::catalog::Catalog;
use crate::role::PUBLIC_ROLE;
use ondol_types::{SqlError, SqlResult, sqlstate};

/// Privileges, a bit each, in the order in which lists show them.
pub type Privileges = u16;

pub const INSERT: Privileges = 1 << 0;
pub const SELECT: Privileges = 1 << 1;
pub const UPDATE: Privileges = 1 << 2;
pub const DELETE: Privileges = 1 << 3;
pub const TRUNCATE: Privileges = 1 << 4;
pub const REFERENCES: Privileges = 1 << 5;
pub const TRIGGER: Privileges = 1 << 6;
pub const EXECUTE: Privileges = 1 << 7;
pub const USAGE: Privileges = 1 << 8;
pub const CREATE: Privileges = 1 << 9;
pub const TEMPORARY: Privileges = 1 << 10;
pub const CONNECT: Privileges = 1 << 11;
pub const SET: Privileges = 1 << 12;
pub const ALTER_SYSTEM: Privileges = 1 << 13;

/// Each with its word and its letter.
pub const ALL: [(Privileges, &str, char); 14] = [
    (INSERT, "INSERT", 'a'),
    (SELECT, "SELECT", 'r'),
    (UPDATE, "UPDATE", 'w'),
    (DELETE, "DELETE", 'd'),
    (TRUNCATE, "TRUNCATE", 'D'),
    (REFERENCES, "REFERENCES", 'x'),
    (TRIGGER, "TRIGGER", 't'),
    (EXECUTE, "EXECUTE", 'X'),
    (USAGE, "USAGE", 'U'),
    (CREATE, "CREATE", 'C'),
    (TEMPORARY, "TEMPORARY", 'T'),
    (CONNECT, "CONNECT", 'c'),
    (SET, "SET", 's'),
    (ALTER_SYSTEM, "ALTER SYSTEM", 'A'),
];
/// The letters in the order in which a list shows them.
const SHOWN: &str = "arwdDxtXUCTcsA";

/// The privilege of a word, in whatever case.
pub fn of_word(word: &str) -> Option<Privileges> {
    match word.to_ascii_uppercase().as_str() {
        "TEMP" => Some(TEMPORARY),
        word => ALL.iter().find(|p| p.1 == word).map(|p| p.0),
    }
}
pub fn of_letter(letter: char) -> Option<Privileges> {
    ALL.iter().find(|p| p.2 == letter).map(|p| p.0)
}

/// What kind of object a list is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AclKind {
    Table,
    Column,
    Sequence,
    Database,
    Function,
    Language,
    Schema,
    Type,
}

impl AclKind {
    /// The letters that `acldefault` knows it by.
    pub fn of_letter(letter: char) -> Option<AclKind> {
        Some(match letter {
            'c' => AclKind::Column,
            'r' => AclKind::Table,
            's' => AclKind::Sequence,
            'd' => AclKind::Database,
            'f' => AclKind::Function,
            'l' => AclKind::Language,
            'n' => AclKind::Schema,
            'T' => AclKind::Type,
            _ => return None,
        })
    }
    /// All that there can be of it.
    pub fn all(self) -> Privileges {
        match self {
            AclKind::Table => INSERT | SELECT | UPDATE | DELETE | TRUNCATE | REFERENCES | TRIGGER,
            AclKind::Column => INSERT | SELECT | UPDATE | REFERENCES,
            AclKind::Sequence => USAGE | SELECT | UPDATE,
            AclKind::Database => CREATE | TEMPORARY | CONNECT,
            AclKind::Function => EXECUTE,
            AclKind::Language | AclKind::Type => USAGE,
            AclKind::Schema => USAGE | CREATE,
        }
    }
    /// What everybody may do (L3).
    pub fn of_public(self) -> Privileges {
        match self {
            AclKind::Database => TEMPORARY | CONNECT,
            AclKind::Function => EXECUTE,
            AclKind::Language | AclKind::Type => USAGE,
            AclKind::Table | AclKind::Column | AclKind::Sequence | AclKind::Schema => 0,
        }
    }
}

/// L1
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AclItem {
    /// [`PUBLIC_ROLE`]: everybody.
    pub grantee: u32,
    pub grantor: u32,
    pub privileges: Privileges,
    /// Those that it may give on.
    pub options: Privileges,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    pub items: Vec<AclItem>,
}

/// A change of what one role has from another.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub item: AclItem,
    pub adds: bool,
    pub cascade: bool,
}

impl Acl {
    /// The usual list of a kind (L3).
    pub fn usual(kind: AclKind, owner: u32) -> Acl {
        let mut items = Vec::new();
        let public = kind.of_public();
        if public != 0 {
            items.push(AclItem { grantee: PUBLIC_ROLE, grantor: owner, privileges: public, options: 0 })
        }
        let all = if kind == AclKind::Column { 0 } else { kind.all() };
        if all != 0 {
            items.push(AclItem { grantee: owner, grantor: owner, privileges: all, options: 0 })
        }
        Acl { items }
    }

    /// Which of the privileges wanted, and of the rights to give them on, a role has: those that were given
    /// to it, to everybody, and to roles whose rights it may use.
    pub fn mask(
        &self,
        catalog: &Catalog,
        role: u32,
        owner: u32,
        privileges: Privileges,
        options: Privileges,
    ) -> (Privileges, Privileges) {
        let (mut has, mut may_give) = (0, 0);
        if options != 0 && catalog.has_rights_of(role, owner) {
            may_give = options
        }
        let used = catalog.roles_used_by(role);
        for item in &self.items {
            if item.grantee == PUBLIC_ROLE || used.contains(&item.grantee) || catalog.is_superuser(role) {
                has |= item.privileges & privileges;
                may_give |= item.options & options
            }
        }
        (has, may_give)
    }
    /// The rights to give on that were given to that very role or everybody, or that it has as the owner.
    pub fn options_of(&self, role: u32, owner: u32, wanted: Privileges) -> Privileges {
        if role == owner {
            return wanted;
        }
        let own = self.items.iter().filter(|i| i.grantee == role || i.grantee == PUBLIC_ROLE);
        own.fold(0, |all, i| all | i.options) & wanted
    }

    /// As whom a role gives the privileges: the owner, if it may use its rights, or else whoever of those
    /// whose rights it may use can give most of them; and which of them those are.
    pub fn grantor(&self, catalog: &Catalog, role: u32, owner: u32, wanted: Privileges) -> (u32, Privileges) {
        if catalog.has_rights_of(role, owner) {
            return (owner, wanted);
        }
        let mut best = (role, 0u16);
        let used = catalog.roles_used_by(role);
        let others = used.iter().copied().filter(|r| *r != role);
        for other in [role].into_iter().chain(others) {
            let may = self.options_of(other, owner, wanted);
            if may == wanted {
                return (other, may);
            }
            if may.count_ones() > best.1.count_ones() {
                best = (other, may)
            }
        }
        best
    }

    /// Changes what one role has from another (L2).
    pub fn change(&mut self, change: Change, owner: u32) -> SqlResult<()> {
        let Change { item, adds, cascade } = change;
        if adds && item.options != 0 && item.grantor != owner {
            self.refuse_circle(item, owner)?
        }
        let same = |i: &AclItem| i.grantee == item.grantee && i.grantor == item.grantor;
        let place = match self.items.iter().position(same) {
            Some(place) => place,
            None => {
                self.items.push(AclItem { privileges: 0, options: 0, ..item });
                self.items.len() - 1
            }
        };
        let entry = &mut self.items[place];
        let before = entry.options;
        match adds {
            true => {
                (entry.privileges, entry.options) =
                    (entry.privileges | item.privileges, entry.options | item.options)
            }
            false => {
                (entry.privileges, entry.options) =
                    (entry.privileges & !item.privileges, entry.options & !item.options)
            }
        }
        let lost = before & !entry.options;
        if entry.privileges == 0 && entry.options == 0 {
            self.items.remove(place);
        }
        if lost != 0 {
            self.lose(item.grantee, lost, owner, cascade)?
        }
        Ok(())
    }

    /// A role may no longer give these on: what it gave goes, unless others let it, too.
    fn lose(&mut self, role: u32, lost: Privileges, owner: u32, cascade: bool) -> SqlResult<()> {
        if role == owner {
            return Ok(());
        }
        let lost = lost & !self.options_of(role, owner, lost);
        while let Some(given) =
            self.items.iter().find(|i| i.grantor == role && (i.privileges | i.options) & lost != 0).copied()
        {
            if !cascade {
                let error =
                    SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, "dependent privileges exist");
                return Err(error.hint("Use CASCADE to revoke them too."));
            }
            let item = AclItem { privileges: lost, options: lost, ..given };
            self.change(Change { item, adds: false, cascade }, owner)?
        }
        Ok(())
    }

    /// Who has the right to give something on from another does not give that right to it.
    fn refuse_circle(&self, item: AclItem, owner: u32) -> SqlResult<()> {
        let mut left = self.clone();
        // Without all that the other could give on, what remains is what does not come from it.
        while let Some(given) =
            left.items.iter().find(|i| i.grantee == item.grantee && i.options != 0).copied()
        {
            let taken = AclItem { privileges: 0, ..given };
            left.change(Change { item: taken, adds: false, cascade: true }, owner)?
        }
        if item.options & !left.options_of(item.grantor, owner, item.options) != 0 {
            let message = "grant options cannot be granted back to your own grantor";
            return Err(SqlError::new("0LP01", message));
        }
        Ok(())
    }

    /// Whether a role is named in it.
    pub fn names(&self, role: u32) -> bool {
        self.items.iter().any(|i| i.grantee == role || i.grantor == role)
    }
    /// Whether both say the same, in whatever order.
    pub fn is_as(&self, other: &Acl) -> bool {
        let sorted = |acl: &Acl| {
            let mut items = acl.items.clone();
            items.sort_unstable();
            items
        };
        sorted(self) == sorted(other)
    }
    /// What was given to one role, or by it, is another's now.
    pub fn hand_over(&mut self, from: u32, to: u32) {
        let mut items: Vec<AclItem> = Vec::with_capacity(self.items.len());
        for mut item in std::mem::take(&mut self.items) {
            for role in [&mut item.grantee, &mut item.grantor] {
                if *role == from {
                    *role = to
                }
            }
            match items.iter_mut().find(|i| i.grantee == item.grantee && i.grantor == item.grantor) {
                Some(same) => {
                    same.privileges |= item.privileges;
                    same.options |= item.options
                }
                None => items.push(item),
            }
        }
        self.items = items
    }
    /// Takes out all that a role was given, and all that it gave.
    pub fn forget(&mut self, role: u32) {
        self.items.retain(|i| i.grantee != role && i.grantor != role)
    }

    /// As the dictionary has it: numbers.
    pub(crate) fn write(&self) -> String {
        let item = |i: &AclItem| format!("{}:{}:{}:{}", i.grantee, i.privileges, i.options, i.grantor);
        self.items.iter().map(item).collect::<Vec<_>>().join(" ")
    }
    pub(crate) fn read(text: &str) -> Option<Acl> {
        let item = |word: &str| {
            let mut parts = word.split(':').map(str::parse::<u32>);
            let mut next = || parts.next()?.ok();
            let (grantee, privileges, options, grantor) = (next()?, next()?, next()?, next()?);
            let (privileges, options) = (privileges.try_into().ok()?, options.try_into().ok()?);
            Some(AclItem { grantee, grantor, privileges, options })
        };
        Some(Acl { items: text.split_whitespace().map(item).collect::<Option<_>>()? })
    }
}

/// The letters of privileges, each followed by an asterisk where it may be given on.
pub fn letters(privileges: Privileges, options: Privileges) -> String {
    let mut out = String::new();
    for letter in SHOWN.chars() {
        let bit = of_letter(letter).unwrap_or(0);
        if privileges & bit != 0 {
            out.push(letter)
        }
        if options & bit != 0 {
            out.push('*')
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: u32 = 10;

    fn item(grantee: u32, grantor: u32, privileges: Privileges, options: Privileges) -> AclItem {
        AclItem { grantee, grantor, privileges, options }
    }
    fn grant(acl: &mut Acl, i: AclItem) -> SqlResult<()> {
        acl.change(Change { item: i, adds: true, cascade: false }, OWNER)
    }
    fn revoke(acl: &mut Acl, i: AclItem, cascade: bool) -> SqlResult<()> {
        acl.change(Change { item: i, adds: false, cascade }, OWNER)
    }

    #[test]
    fn what_was_given_on_goes_with_the_right_to_give() {
        let mut acl = Acl::usual(AclKind::Table, OWNER);
        grant(&mut acl, item(1, OWNER, SELECT, SELECT)).expect("from the owner");
        grant(&mut acl, item(2, 1, SELECT, SELECT)).expect("from one who may");
        grant(&mut acl, item(3, 2, SELECT, 0)).expect("and on");
        let back = grant(&mut acl, item(1, 2, SELECT, SELECT)).expect_err("L2: a circle");
        assert_eq!(back.sqlstate(), "0LP01");
        let mut kept = acl.clone();
        let refused = revoke(&mut kept, item(1, OWNER, 0, SELECT), false).expect_err("others rest on it");
        assert_eq!(refused.sqlstate(), sqlstate::DEPENDENT_OBJECTS_STILL_EXIST);
        revoke(&mut acl, item(1, OWNER, 0, SELECT), true).expect("with what rests on it");
        assert_eq!(acl.items[1..], [item(1, OWNER, SELECT, 0)]);
    }

    #[test]
    fn who_has_a_right_from_two_keeps_what_it_gave() {
        let mut acl = Acl::usual(AclKind::Table, OWNER);
        grant(&mut acl, item(1, OWNER, SELECT, SELECT)).expect("one");
        grant(&mut acl, item(2, OWNER, SELECT, SELECT)).expect("another");
        grant(&mut acl, item(3, 1, SELECT, SELECT)).expect("from the one");
        grant(&mut acl, item(3, 2, SELECT, SELECT)).expect("from the other");
        grant(&mut acl, item(4, 3, SELECT, 0)).expect("and on");
        revoke(&mut acl, item(3, 1, SELECT, SELECT), false).expect("the other is left");
        assert!(acl.items.contains(&item(4, 3, SELECT, 0)));
    }

    #[test]
    fn lists_are_kept_as_text() {
        let mut acl = Acl::usual(AclKind::Function, OWNER);
        grant(&mut acl, item(16500, OWNER, EXECUTE, EXECUTE)).expect("given");
        assert_eq!(Acl::read(&acl.write()), Some(acl.clone()));
        assert_eq!(Acl::read("1:2"), None);
        assert_eq!(letters(SELECT | INSERT, INSERT), "a*r");
        acl.hand_over(16500, OWNER);
        assert_eq!(acl.items.len(), 2, "one item for each pair: {acl:?}");
    }
}
