//! DataFusion writes a table to a store as Parquet and reads it back, through Tidegate. The table has one
//! directory per day, and the files of all days are open at once.
//!
//! ```text
//! tidegate-datafusion s3://bucket/table ROWS DAYS MEMORY_MIB
//! ```
//!
//! Prints one line for each figure: the most memory that Tidegate held, its requests, and the table as read
//! back.

use std::error::Error;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array};
use datafusion::config::TableParquetOptions;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext, col};
use tidegate::Tidegate;
use tidegate::object_store::TidegateStore;
use url::Url;

/// Rows per batch.
const BATCH: u64 = 8192;

struct Asked {
    table: Url,
    rows: u64,
    days: u64,
    memory: u64,
}

impl Asked {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut next = |what: &str| words.next().ok_or_else(|| format!("{what} is missing"));
        let mut table: Url = next("the table's URL")?.parse()?;
        // The trailing slash makes the path a directory.
        table.set_path(&format!("{}/", table.path().trim_end_matches('/')));
        let mut number = |what: &str| Ok::<u64, Box<dyn Error>>(next(what)?.parse()?);
        Ok(Self { table, rows: number("ROWS")?, days: number("DAYS")?, memory: number("MEMORY_MIB")? << 20 })
    }

    /// The rows in order of arrival: each batch has rows of every day.
    fn batches(&self) -> Result<Vec<RecordBatch>, Box<dyn Error>> {
        let starts = (0..self.rows).step_by(BATCH as usize);
        let batch = |start: u64| {
            let ids = start..self.rows.min(start + BATCH);
            let day = ids.clone().map(|id| format!("{:04}", id % self.days));
            let value = ids.clone().map(|id| (id * 7919 % 1_000_003) as i64);
            let columns: [(&str, ArrayRef); 3] = [
                ("id", Arc::new(UInt64Array::from_iter_values(ids))),
                ("value", Arc::new(Int64Array::from_iter_values(value))),
                ("day", Arc::new(StringArray::from_iter_values(day))),
            ];
            Ok(RecordBatch::try_from_iter(columns)?)
        };
        starts.map(batch).collect()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let asked = Asked::parse(std::env::args().skip(1))?;
    let tide = Tidegate::builder().memory(asked.memory).build()?;

    // The only line that changes: with DataFusion's own stores, it would create one of `object_store`'s.
    let host = asked.table[..url::Position::BeforePath].to_owned();
    let store = TidegateStore::new(tide.open(&host).await?);

    let config = SessionConfig::new()
        .with_target_partitions(2)
        // How many bytes a file buffers before its upload begins: 10 MiB by default, and Tidegate's budget does
        // not bound them.
        .set_usize("datafusion.execution.objectstore_writer_buffer_size", 64 << 10);
    let context = SessionContext::new_with_config(config);
    context.register_object_store(&Url::parse(&host)?, Arc::new(store));

    let mut parquet = TableParquetOptions::default();
    parquet.global.compression = Some("uncompressed".to_owned());
    let options = DataFrameWriteOptions::new().with_partition_by(vec!["day".to_owned()]);
    let rows = context.read_batches(asked.batches()?)?;
    rows.write_parquet(asked.table.as_str(), options, Some(parquet)).await?;
    let usage = tide.usage();
    println!("peak {} of {}", usage.peak, usage.total);
    println!("requests {}", tide.progress().snapshot().requests);

    let reading = ParquetReadOptions::default()
        .table_partition_cols(vec![("day".to_owned(), datafusion::arrow::datatypes::DataType::Utf8)]);
    let table = context.read_parquet(asked.table.as_str(), reading).await?;
    let figures =
        table.clone().aggregate(vec![], vec![count(col("id")), sum(col("value"))])?.collect().await?;
    let days = table.select(vec![col("day")])?.distinct()?.count().await?;
    let figure = |column: usize| {
        let values = figures[0].column(column).as_any().downcast_ref::<Int64Array>();
        values.map(|values| values.value(0)).ok_or("a figure is of another type")
    };
    println!("rows {}", figure(0)?);
    println!("sum {}", figure(1)?);
    println!("days {days}");
    let failed = tide.settled().await;
    if let Some(error) = failed.into_iter().next() {
        return Err(error.into());
    }
    Ok(())
}
