//! See `daruma_fuzz::TARGETS`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| daruma_fuzz::run("xml", bytes));
