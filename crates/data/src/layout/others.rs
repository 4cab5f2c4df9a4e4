//! Layouts of the same data with other columns, or of a part of it.

use super::{Column, ColumnKind, IdRule, Layout, Part, ValuesRule, compile};
use crate::DataError;

impl Column {
    /// Whether it reads the column `name` for more than what it's named after, such as values.
    fn needs(&self, name: &str) -> bool {
        let is_it = |values: &ValuesRule| *values == ValuesRule::Column(name.to_owned());
        let rule = match &self.kind {
            ColumnKind::Id(IdRule { list: Some(list), .. }) => list.values.as_ref(),
            _ => None,
        };
        rule.is_some_and(is_it) || self.of.iter().any(|of| of == name)
    }
}

impl Layout {
    /// The same without labels and weights: data to be scored. Labels of all examples are 0. A
    /// weight that something else is made of stays as a column of the data.
    ///
    /// # Errors
    /// As [`Layout::new`]: a column that is made of the label.
    pub fn without_label(&self) -> Result<Self, DataError> {
        let names_it = |column: &Column, other: &Column| other.needs(&column.name);
        let user = |column: &Column| self.columns.iter().find(|other| names_it(column, other));
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            match (&column.kind, user(column)) {
                (ColumnKind::Label(_), Some(user)) => {
                    return Err(DataError::Options(format!(
                        "column {}: is made of {}, which is a label, and data without labels has \
                         none",
                        user.name, column.name
                    )));
                }
                (ColumnKind::Weight, Some(_)) => {
                    columns.push(Column { kind: ColumnKind::Ignored, ..column.clone() });
                }
                (ColumnKind::Label(_) | ColumnKind::Weight, None) => {}
                _ => columns.push(column.clone()),
            }
        }
        let label_count = self.labels.len();
        let layout = self.of_columns(columns).map_err(DataError::Options)?;
        Ok(Self { label_count, ..layout })
    }

    /// Other columns of the same part of the same data; they may have no label.
    ///
    /// # Errors
    /// As [`Layout::new`], in words.
    pub(crate) fn of_columns(&self, columns: Vec<Column>) -> Result<Self, String> {
        let layout = compile::compile_parts(self.options.clone(), columns)?;
        let part = self.split.as_ref().and_then(|split| split.part);
        Ok(part.map_or(layout.clone(), |part| layout.of_part(part)))
    }

    /// The same, of which one part of the data is wanted; of a layout that splits it.
    pub fn of_part(&self, part: Part) -> Self {
        let mut layout = self.clone();
        if let Some(split) = &mut layout.split {
            split.part = Some(part);
        }
        layout
    }

    /// The same, which takes for records what `other` does: a layout of the same columns.
    pub(crate) fn with_records_of(mut self, other: &Self) -> Self {
        self.placed_labels.clone_from(&other.placed_labels);
        self
    }
}
