//! temp
fn main() {
    let folder = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let quick = std::env::args().nth(2).is_some();
    let t = std::time::Instant::now();
    let f = stepwell_study::rna::run(
        &folder,
        &stepwell_study::rna::StudyOptions { quick, seed: 1 },
        &mut |s| println!("{:.1} {s}", t.elapsed().as_secs_f64()),
    )
    .unwrap();
    println!("{}", stepwell_study::rna::page(&f));
    println!("{:.1}", t.elapsed().as_secs_f64());
}
