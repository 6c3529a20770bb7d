// SPDX-License-Identifier: MIT

// Goroutines on several threads, channels, timers, preemption by signals, sockets, children.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func busy(stop *atomic.Bool) (n int) {
	for !stop.Load() {
		n++
	}
	return
}

func main() {
	fmt.Println(len(os.Args), os.Args[1:])
	var wait sync.WaitGroup
	var total atomic.Int64
	results := make(chan int, 10)
	for i := range 1000 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			total.Add(int64(i))
			results <- i
		}()
	}
	sum := 0
	for range 1000 {
		sum += <-results
	}
	wait.Wait()
	fmt.Println(total.Load(), sum)

	runtime.GOMAXPROCS(4)
	var stop atomic.Bool
	for range 4 { // more than processors: preempted by signals
		wait.Add(1)
		go func() { defer wait.Done(); busy(&stop) }()
	}
	ticker := time.NewTicker(5 * time.Millisecond)
	for range 5 {
		<-ticker.C
	}
	stop.Store(true)
	wait.Wait()
	select {
	case <-time.After(10 * time.Millisecond):
		fmt.Println("timed out")
	case <-results:
	}

	l, err := net.Listen("unix", "go.sock")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	for i := range 20 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			c, err := net.Dial("unix", "go.sock")
			if err != nil {
				fmt.Println(err)
				return
			}
			defer c.Close()
			fmt.Fprintf(c, "hello %d\n", i)
			line, _ := bufio.NewReader(c).ReadString('\n')
			if line != fmt.Sprintf("hello %d\n", i) {
				fmt.Println("echo", line)
			}
		}()
	}
	wait.Wait()
	l.Close()

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	fmt.Println(<-signals)
	out, err := exec.Command("sh", "-c", "echo child; exit 5").CombinedOutput()
	fmt.Printf("%q %v\n", out, err)
	garbage := 0
	for i := range 200 {
		garbage += len(make([]byte, 1<<20)) >> 20 * i
	}
	runtime.GC()
	fmt.Println(garbage)
	defer func() {
		fmt.Println(recover())
		os.Exit(6)
	}()
	var p *int
	*p = 1 // a fault that becomes an error
}
