//! A distributed job: a driver, and tasks that are processes of their own, on any machines.
//!
//! ```text
//! job set-up s3://bucket/t 20261130-7f3a
//! job task s3://bucket/t 20261130-7f3a part-0 attempt-0 3     # three files of task `part-0`; the next task anywhere else
//! job commit s3://bucket/t 20261130-7f3a                      # the driver; again after a crash
//! ```

use std::error::Error;

use tidegate::Tidegate;
use tidegate_transfer::job::Job;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [role, url, id, rest @ ..] = &words[..] else {
        return Err("usage: job set-up|task|commit|abort URL ID [TASK ATTEMPT FILES]".into());
    };
    let out = Tidegate::builder().memory(64 << 20).build()?.open(*url).await?;
    let job = Job::new(&out, *id)?;
    match (*role, rest) {
        ("set-up", []) => drop(job.set_up().await?),
        ("task", [task, attempt, files]) => write(&job, task, attempt, files.parse()?).await?,
        ("commit", []) => println!("{} files", job.commit().await?.objects),
        ("abort", []) => println!("{:?}", job.abort().await?),
        _ => return Err("no such role, or other arguments than it has".into()),
    }
    Ok(())
}

/// Writes the files of a task: rows that name the task, the file and their number.
async fn write(job: &Job, task: &str, attempt: &str, files: usize) -> Result<(), Box<dyn Error>> {
    let attempt = job.attempt(task, attempt).await?;
    for file in 0..files {
        let mut writer =
            attempt.writer(&format!("{task}-{file}.csv"), |options| options.content_type("text/csv")).await?;
        for row in 0..100 {
            writer.write_bytes(format!("{task},{file},{row}\n").into()).await?;
        }
        writer.close().await?;
    }
    attempt.commit().await?; // nothing is visible
    Ok(())
}
