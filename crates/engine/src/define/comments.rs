//! Comments: made, changed, and gone with what they are on.
use super::{Catalog, Connection, d};
use crate::comment::Commented;
use crate::definers::Claim;
use ondol_types::SqlResult;
use std::sync::Arc;

impl Connection {
    /// Puts a comment on something, which is claimed by its name, or takes it away.
    pub fn comment(
        &mut self,
        on: &Commented,
        text: Option<&str>,
        wanted: impl Fn(&Catalog) -> Vec<Claim>,
    ) -> SqlResult<()> {
        self.defining(wanted, |me, c| {
            let mut all = c.comments_on(on.id);
            all.retain(|(o, _)| o != on);
            all.extend(text.map(|t| (on.clone(), Arc::from(t))));
            me.set_comments(c, on.id, &all)
        })
    }

    /// The object and its parts have these comments and no others.
    pub(super) fn set_comments(
        &mut self,
        c: &Catalog,
        id: u32,
        comments: &[(Commented, Arc<str>)],
    ) -> SqlResult<()> {
        let before = c.comments_on(id);
        if before == comments {
            return Ok(());
        }
        let db = self.db.clone();
        d::put_comments(&mut self.session, &db.dictionary, id, comments)?;
        let draft = self.draft();
        before.into_iter().for_each(|(on, _)| draft.comment(on, None));
        comments.iter().for_each(|(on, text)| draft.comment(on.clone(), Some(text.clone())));
        Ok(())
    }

    pub(super) fn drop_comments(&mut self, c: &Catalog, ids: impl IntoIterator<Item = u32>) -> SqlResult<()> {
        ids.into_iter().try_for_each(|id| self.set_comments(c, id, &[]))
    }
}
