// SPDX-License-Identifier: MIT

//! Threads, channels, mutexes, sockets, children, files; a panic that is caught.
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use std::{env, fs, panic, thread};

fn main() {
    println!("{:?}", env::args().skip(1).collect::<Vec<_>>());
    let total = Arc::new(AtomicUsize::new(0));
    let locked = Arc::new((Mutex::new(0), Condvar::new()));
    let (send, receive) = mpsc::channel();
    let threads: Vec<_> = (0..8)
        .map(|i| {
            let (total, locked, send) = (total.clone(), locked.clone(), send.clone());
            thread::spawn(move || {
                for _ in 0..1000 {
                    total.fetch_add(1, Ordering::Relaxed);
                    *locked.0.lock().unwrap() += 1;
                }
                locked.1.notify_all();
                send.send(i * i).unwrap();
            })
        })
        .collect();
    let (mutex, changed) = &*locked;
    let n = *changed.wait_while(mutex.lock().unwrap(), |n| *n < 8000).unwrap();
    threads.into_iter().for_each(|t| t.join().unwrap());
    println!("{n} {} {}", total.load(Ordering::Relaxed), receive.iter().take(8).sum::<i32>());

    let listener = UnixListener::bind("rust.sock").unwrap();
    let server = thread::spawn(move || {
        let mut lines = BufReader::new(listener.accept().unwrap().0).lines();
        lines.next().unwrap().unwrap()
    });
    UnixStream::connect("rust.sock").unwrap().write_all(b"over a socket\n").unwrap();
    println!("{}", server.join().unwrap());

    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&vec![b'x'; 50000]).unwrap_or(());
    let mut text = Vec::new();
    let mut out = child.stdout.take().unwrap();
    out.read_to_end(&mut text).unwrap();
    println!("{} {}", text.len(), child.wait().unwrap().success());

    let from = Instant::now();
    thread::sleep(Duration::from_millis(20));
    println!("{}", from.elapsed() >= Duration::from_millis(20));
    fs::create_dir_all("r/s").unwrap();
    fs::write("r/s/f", "file").unwrap();
    println!("{} {:?}", fs::read_to_string("r/s/f").unwrap(), fs::read("r/none").unwrap_err().kind());
    fs::remove_dir_all("r").unwrap();
    panic::set_hook(Box::new(|_| ()));
    println!("{}", panic::catch_unwind(|| panic!("caught")).is_err());
    std::process::exit(8);
}
