//! The moment of a server's log that a file is believed to show, where the evidence names one.
//!
//! - **M1** Up to that position of the log every change is in the files: a checkpoint is written after the
//!   pages that it counts on. Each change gives its page the position at which it was logged. So a page whose
//!   position is not beyond the moment is what it was at that moment, whenever it was read and whatever a
//!   server did to it since (or did to it and had not written yet); any other page is refused, and all that
//!   are read are of one moment.
//! - **M2** A row, also a delete-marked one, bears the number of the transaction that changed it last, and
//!   stays locked until that is finished. So rows of transactions that were not finished are those that bear
//!   their numbers; they are refused.
//! - **M3** Which transactions those are is in the undo logs. Where nothing lists all undo tablespaces (MySQL
//!   8 and later), a row says in which one its last change can be undone; if that one was not looked at, it
//!   is refused.

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The position of the log.
    pub lsn: u64,
    /// Transactions that were not finished, by their numbers.
    pub unfinished: Vec<u64>,
    /// A bit for each number of an undo tablespace that was looked at, where rows may name others.
    pub undo: Option<u128>,
}

impl Moment {
    /// Whether a page that was changed last at `lsn` can be of this moment; if not, why.
    pub fn admits_page(&self, lsn: u64) -> Result<(), String> {
        if lsn <= self.lsn {
            return Ok(());
        }
        Err(format!(
            "it was changed at position {lsn} of a server's log, which is after {}, the moment that is read: a server changed it while it was copied or read, or it comes from another data folder (if you know better: --assume-consistent)",
            self.lsn
        ))
    }
    /// Whether rows have to be looked at.
    pub fn asks_rows(&self) -> bool {
        !self.unfinished.is_empty() || self.undo.is_some()
    }
    /// Whether a row that a transaction changed last, and which names an undo tablespace, was committed at
    /// this moment; if not, why.
    pub fn admits_row(&self, transaction: u64, undo: u8) -> Result<(), String> {
        if self.unfinished.contains(&transaction) {
            return Err(format!(
                "it has a row of transaction {transaction}, which was neither committed nor rolled back (XA PREPARE, a rollback that was cut off, or under way when a backup was made): a server has to finish it"
            ));
        }
        if self.undo.is_some_and(|looked_at| looked_at >> undo & 1 == 0) {
            return Err(format!(
                "it has a row whose undo is in undo tablespace {undo}, which is not in the data folder: whether its transaction was finished cannot be seen"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_later_or_was_not_finished_is_refused() {
        let moment = Moment { lsn: 1000, unfinished: vec![7, 9], undo: Some(0b101) };
        assert_eq!(moment.admits_page(1000), Ok(()));
        assert!(moment.admits_page(1001).is_err());
        assert_eq!(moment.admits_row(8, 2), Ok(()));
        assert!(moment.admits_row(9, 2).is_err_and(|why| why.contains("transaction 9")));
        assert!(moment.admits_row(8, 1).is_err_and(|why| why.contains("undo tablespace 1")));
        assert!(moment.asks_rows() && !Moment { lsn: 1, unfinished: vec![], undo: None }.asks_rows());
    }
}
