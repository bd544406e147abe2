//! Formats tables as Markdown, aligned to be readable as text.

/// A table with a header row.
#[derive(Clone, Debug, Default)]
pub struct MarkdownTable {
    rows: Vec<Vec<String>>,
}

impl MarkdownTable {
    /// A table with these columns.
    #[must_use]
    pub fn new<'a>(columns: impl IntoIterator<Item = &'a str>) -> Self {
        Self { rows: vec![columns.into_iter().map(str::to_owned).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl std::fmt::Display for MarkdownTable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
                .max(3)
        };
        for (number, row) in self.rows.iter().enumerate() {
            for column in 0..columns {
                let cell = row.get(column).map_or("", String::as_str);
                // The first column is a name, the others are numbers.
                let width = width(column);
                if column == 0 {
                    write!(out, "| {cell:<width$} ")?
                } else {
                    write!(out, "| {cell:>width$} ")?
                }
            }
            writeln!(out, "|")?;
            if number == 0 {
                for column in 0..columns {
                    let line = "-".repeat(width(column));
                    if column == 0 { write!(out, "| {line} ")? } else { write!(out, "| {line}:")? }
                }
                writeln!(out, "|")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = MarkdownTable::new(["tool", "s"]);
        table.row(["a".to_owned(), "1.5".to_owned()]);
        table.row(["longer".to_owned(), "×10".to_owned()]);
        let expected = "| tool   |   s |\n| ------ | ---:|\n| a      | 1.5 |\n| longer | ×10 |\n";
        assert_eq!(table.to_string(), expected);
    }
}
