//! Derives layouts of the same data with other columns, or of a part of it.

use super::column::{Column, ColumnKind, IdRule};
use super::compile::compile_parts;
use super::compiled::Layout;
use super::evaluation_split::Part;
use super::values::ValuesRule;
use crate::error::DataError;

impl Column {
    /// Whether this column reads `name` in addition to the column of its own name, such as for
    /// values.
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
    /// The layout without labels and weights, for scoring; labels of all examples are 0. A weight
    /// that another column needs remains as an ignored column.
    ///
    /// # Errors
    /// The errors of [`Layout::new`]; a column that is derived from the label.
    pub fn without_label(&self) -> Result<Self, DataError> {
        let names_it = |column: &Column, other: &Column| other.needs(&column.name);
        let user = |column: &Column| self.columns.iter().find(|other| names_it(column, other));
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            match (&column.kind, user(column)) {
                (ColumnKind::Label(_), Some(user)) => {
                    return Err(DataError::Options(format!(
                        "column {}: is made of {}, which is a label, but data without labels has \
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

    /// A layout with other columns of the same part of the same data; a label is optional.
    ///
    /// # Errors
    /// The errors of [`Layout::new`], as text.
    pub(crate) fn of_columns(&self, columns: Vec<Column>) -> Result<Self, String> {
        let layout = compile_parts(self.options.clone(), columns)?;
        let part = self.split.as_ref().and_then(|split| split.part);
        Ok(part.map_or(layout.clone(), |part| layout.of_part(part)))
    }

    /// The layout restricted to one part of the data, if it splits data.
    pub fn of_part(&self, part: Part) -> Self {
        let mut layout = self.clone();
        if let Some(split) = &mut layout.split {
            split.part = Some(part);
        }
        layout
    }

    /// The layout, but it recognizes records like `other`, a layout of the same columns.
    pub(crate) fn with_records_of(mut self, other: &Self) -> Self {
        self.placed_labels.clone_from(&other.placed_labels);
        self
    }
}
