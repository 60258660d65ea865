//! Experiments on the real parts: tables, charts, one page.
