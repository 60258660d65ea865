//! Rules of a crawl: `--extract name=css`, or `name=css@attribute` for the value of an attribute.
//!
//! Selectors are those of lol_html, which sees a page once from its beginning to its end: elements, `*`, classes, ids,
//! attributes with all their comparisons, `A B`, `A > B`, `:not()` of simple selectors, `:nth-child`, `:first-child`,
//! `:nth-of-type`, `:first-of-type`, and lists of these. It lacks what would need to look back or ahead: `A + B`, `A ~ B`,
//! `:last-child`, `:only-child`, `:has()`, `:is()`, `:where()`, `:empty`, `:root` and pseudo-elements. An element whose
//! end tag is left out (`<li>` before `<li>`) counts as going on until the element around it ends.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::str::FromStr;

use lol_html::html_content::{Element, TextChunk};
use lol_html::{ElementContentHandlers, Selector};
use thiserror::Error;

use super::entities::{Place, decode};
use super::extract::folded;

/// Values that one rule may find in a page.
const VALUES_MAX: usize = 1000;
/// Bytes of one value; the rest is left out.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// What is taken out of every page.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Under which name it goes into the output.
    pub name: String,
    /// As it was written.
    text: String,
    selector: Selector,
    attribute: Option<String>,
}

/// Why a rule cannot be used.
#[derive(Debug, Error)]
pub enum RuleError {
    /// It is not `name=css`.
    #[error(
        "the rule `{0}` is not of the form name=css or name=css@attribute, with letters, digits, `_` and `-` in the name"
    )]
    Shape(String),
    /// The selector is not CSS, or needs more than one look at the page.
    #[error("the rule `{rule}` has the selector `{css}`, which cannot be used: {reason}")]
    Selector {
        /// The rule.
        rule: String,
        /// Its selector.
        css: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Rule {
    /// The rule as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its selector.
    pub(super) fn selector(&self) -> &Selector {
        &self.selector
    }

    /// What listens for its elements in one page.
    pub(super) fn handlers<'h>(
        &'h self,
        values: &Rc<RefCell<Values>>,
    ) -> ElementContentHandlers<'h> {
        let found = Rc::clone(values);
        if let Some(attribute) = &self.attribute {
            return ElementContentHandlers::default().element(
                move |element: &mut Element<'_, '_>| {
                    if let Some(value) = element.get_attribute(attribute) {
                        found.borrow_mut().add(decode(&value, Place::Attribute).into_owned());
                    }
                    Ok(())
                },
            );
        }
        let heard = Rc::clone(values);
        ElementContentHandlers::default()
            .element(move |element: &mut Element<'_, '_>| {
                let opened = found.borrow_mut().open();
                if let (Some(opened), true) = (opened, element.can_have_content()) {
                    let found = Rc::clone(&found);
                    element.on_end_tag(Box::new(move |_| {
                        found.borrow_mut().close(opened);
                        Ok(())
                    }))?;
                }
                Ok(())
            })
            .text(move |chunk: &mut TextChunk<'_>| {
                if chunk.text_type().allows_html_entities() {
                    heard.borrow_mut().hear(chunk.as_str(), chunk.last_in_text_node());
                }
                Ok(())
            })
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let shape = || RuleError::Shape(text.to_owned());
        let (name, rest) = text.split_once('=').ok_or_else(shape)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || !name.bytes().all(is_name) || rest.trim().is_empty() {
            return Err(shape());
        }
        // An `@` in a string of the selector is followed by more than a name.
        let (css, attribute) = match rest.rsplit_once('@') {
            Some((css, attribute)) if !attribute.is_empty() && attribute.bytes().all(is_name) => {
                (css, Some(attribute.to_ascii_lowercase()))
            }
            _ => (rest, None),
        };
        let selector =
            css.parse().map_err(|error: lol_html::errors::SelectorError| RuleError::Selector {
                rule: text.to_owned(),
                css: css.to_owned(),
                reason: error.to_string(),
            })?;
        Ok(Self { name: name.to_owned(), text: text.to_owned(), selector, attribute })
    }
}

/// What one rule found in one page.
#[derive(Debug, Default)]
pub(super) struct Values {
    found: Vec<String>,
    /// Elements that have begun and not ended.
    open: Vec<usize>,
    /// The text node that is being heard.
    node: String,
}

impl Values {
    fn add(&mut self, mut value: String) {
        if self.found.len() < VALUES_MAX {
            value.truncate(value.floor_char_boundary(VALUE_BYTES_MAX));
            self.found.push(value);
        }
    }

    fn open(&mut self) -> Option<usize> {
        if self.found.len() >= VALUES_MAX {
            return None;
        }
        self.found.push(String::new());
        self.open.push(self.found.len() - 1);
        self.open.last().copied()
    }

    fn close(&mut self, opened: usize) {
        self.open.retain(|open| *open != opened);
    }

    /// Entities are decoded when a node is whole, since a piece may end within one.
    fn hear(&mut self, text: &str, is_last: bool) {
        let room = VALUE_BYTES_MAX.saturating_sub(self.node.len());
        self.node.push_str(&text[..text.floor_char_boundary(room)]);
        if !is_last {
            return;
        }
        let node = std::mem::take(&mut self.node);
        let node = decode(&node, Place::Text);
        for open in &self.open {
            let value = &mut self.found[*open];
            let room = VALUE_BYTES_MAX.saturating_sub(value.len());
            value.push_str(&node[..node.floor_char_boundary(room)]);
        }
    }
}

/// What all rules found, under their names; blanks are folded, and what is empty is left out.
pub(super) fn collected(
    rules: &[Rule],
    values: &[Rc<RefCell<Values>>],
) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::<String, Vec<String>>::new();
    for (rule, values) in rules.iter().zip(values) {
        let found = std::mem::take(&mut values.borrow_mut().found);
        let found = found.iter().map(|value| folded(value)).filter(|value| !value.is_empty());
        all.entry(rule.name.clone()).or_default().extend(found);
    }
    all
}
