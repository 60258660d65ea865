//! The index from task numbers to rows.
//!
//! Numbers are given out in order, so the index is pages of consecutive numbers; a page goes when its last task has
//! gone, and one left-over task keeps at most one page (2 KiB). Pages are found in a table by the low bits of their
//! number: those of the last sixteen million tasks are there, and a search finds the others.

use std::collections::BTreeMap;

use divvy_types::Seq;

use crate::table::Row;

/// Task numbers of one page.
pub(crate) const PAGE: u64 = 512;
/// Stands for no row.
pub(crate) const VACANT: Row = u32::MAX;
/// Places of the table.
const NEAR: usize = 1 << 15;

#[derive(Debug)]
pub(crate) struct Page {
    number: u64,
    live: u32,
    pub(crate) rows: Box<[Row; PAGE as usize]>,
}

#[derive(Debug)]
pub(crate) struct Pages {
    list: Vec<Option<Page>>,
    free: Vec<u32>,
    by_number: BTreeMap<u64, u32>,
    /// Where in the list the newest page with these low bits was put. It may be gone, or another by now.
    near: Vec<u32>,
}

impl Default for Pages {
    fn default() -> Self {
        Self { list: Vec::new(), free: Vec::new(), by_number: BTreeMap::new(), near: vec![0; NEAR] }
    }
}

impl Pages {
    fn index_of(&self, number: u64) -> Option<u32> {
        let near = self.near[number as usize % NEAR];
        match self.list.get(near as usize) {
            Some(Some(page)) if page.number == number => Some(near),
            _ => self.by_number.get(&number).copied(),
        }
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Page> {
        self.list[self.index_of(number)? as usize].as_ref()
    }

    fn page(&mut self, number: u64) -> &mut Page {
        let index = self.index_of(number).unwrap_or_else(|| {
            let page = Page { number, live: 0, rows: Box::new([VACANT; PAGE as usize]) };
            let index = self.free.pop().unwrap_or_else(|| {
                self.list.push(None);
                self.list.len() as u32 - 1
            });
            self.list[index as usize] = Some(page);
            self.by_number.insert(number, index);
            self.near[number as usize % NEAR] = index;
            index
        });
        self.list[index as usize].as_mut().expect("a page in use")
    }

    pub(crate) fn insert(&mut self, seq: Seq, row: Row) {
        let page = self.page(seq.0 / PAGE);
        let place = &mut page.rows[(seq.0 % PAGE) as usize];
        assert!(*place == VACANT, "a task number is used once");
        *place = row;
        page.live += 1;
    }

    pub(crate) fn remove(&mut self, seq: Seq) {
        let number = seq.0 / PAGE;
        let index = self.index_of(number).expect("the page of an open task");
        let page = self.list[index as usize].as_mut().expect("a page in use");
        page.rows[(seq.0 % PAGE) as usize] = VACANT;
        page.live -= 1;
        if page.live == 0 {
            self.list[index as usize] = None;
            self.free.push(index);
            self.by_number.remove(&number);
        }
    }

    /// Pages up to this number, greatest first.
    pub(crate) fn down_from(&self, number: u64) -> impl Iterator<Item = &Page> {
        let indices = self.by_number.range(..=number).rev().map(|(_, index)| *index);
        indices.filter_map(|index| self.list[index as usize].as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_whether_it_is_in_the_table_or_was_put_out_of_it() {
        let mut pages = Pages::default();
        let far = Seq(PAGE * NEAR as u64 + 3);
        pages.insert(Seq(3), 7);
        pages.insert(far, 8);
        let row = |pages: &Pages, seq: Seq| {
            pages.get(seq.0 / PAGE).map(|page| page.rows[(seq.0 % PAGE) as usize])
        };
        assert_eq!((row(&pages, Seq(3)), row(&pages, far)), (Some(7), Some(8)));
        pages.remove(far);
        assert_eq!((row(&pages, Seq(3)), row(&pages, far)), (Some(7), None));
        pages.insert(Seq(PAGE * 5), 9);
        assert_eq!(row(&pages, far), None, "the place of a page that is gone is used again");
        assert_eq!(pages.down_from(u64::MAX).count(), 2);
    }
}
