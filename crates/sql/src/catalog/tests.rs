//! What every relation promises (catalog/Y1).

use super::relation::all;
use super::view;
use ondol_engine::Catalog;

#[test]
fn queries_give_the_columns_of_their_relations() {
    let catalog = Catalog::default();
    for key in view::keys() {
        let r = all().iter().find(|r| r.key == key).expect("a relation");
        let query = view::query_of(&catalog, r).expect(key).expect("a query");
        let found: Vec<_> = query.columns().into_iter().map(|(n, t)| (n, t.id)).collect();
        let wanted: Vec<_> = r.columns.iter().map(|c| (c.name.to_string(), c.ty)).collect();
        assert_eq!(found, wanted, "{key}");
    }
}
