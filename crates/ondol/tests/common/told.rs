//! What an output was told, a line each.
use ondol::{Column, Output, Row, Token};
use std::sync::Arc;

#[derive(Default)]
pub struct Told(pub Vec<String>);
impl Output for Told {
    fn columns(&mut self, columns: &Arc<[Column]>) -> ondol::Result<()> {
        self.0.push(columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(","));
        Ok(())
    }
    fn row(&mut self, row: Row<'_>) -> ondol::Result<()> {
        self.0.push(row.values().map(|v| v.to_owned().to_string()).collect::<Vec<_>>().join(","));
        Ok(())
    }
    fn done(&mut self, tag: &str, _: Option<Token>) -> ondol::Result<()> {
        self.0.push(tag.into());
        Ok(())
    }
}
