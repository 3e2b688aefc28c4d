package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A server process that this program started. It is ended by its id, and so are its children.
type process struct {
	command *exec.Cmd
	done    chan struct{}
	err     error
}

// launch starts a program with its output going to a log file in folder, as another user where one is named.
func launch(folder, runAs string, environment []string, name string, arguments ...string) (*process, error) {
	output, err := os.OpenFile(filepath.Join(folder, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	command := exec.Command(name, arguments...)
	command.Dir = folder
	command.Stdout, command.Stderr = output, output
	command.Env = append(os.Environ(), environment...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: credential(runAs)}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &process{command: command, done: make(chan struct{})}
	go func() {
		p.err = command.Wait()
		close(p.done)
	}()
	return p, nil
}

func credential(name string) *syscall.Credential {
	if name == "" || os.Getuid() != 0 {
		return nil
	}
	account, err := user.Lookup(name)
	if err != nil {
		return nil
	}
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// runTool runs a program to its end, as another user where one is named.
func runTool(folder, runAs, name string, arguments ...string) error {
	command := exec.Command(name, arguments...)
	command.Dir = folder
	command.SysProcAttr = &syscall.SysProcAttr{Credential: credential(runAs)}
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, bytes.TrimSpace(output))
	}
	return nil
}

// family is the process and all its descendants.
func (p *process) family() []int {
	children := map[int][]int{}
	entries, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, entry := range entries {
		text, err := os.ReadFile(entry)
		if err != nil {
			continue
		}
		// The name in brackets may hold blanks; the fields after it are state and parent.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
		if len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
	}
	found := []int{p.command.Process.Pid}
	for index := 0; index < len(found); index++ {
		found = append(found, children[found[index]]...)
	}
	return found
}

func (p *process) signal(s syscall.Signal) {
	for _, pid := range p.family() {
		_ = syscall.Kill(pid, s)
	}
}

// stop asks the server to end and insists after a while.
func (p *process) stop(s syscall.Signal) {
	p.signal(syscall.SIGCONT)
	_ = p.command.Process.Signal(s)
	select {
	case <-p.done:
		return
	case <-time.After(30 * time.Second):
	}
	p.signal(syscall.SIGKILL)
	<-p.done
}

// memoryKiB sums the proportional set sizes, so that shared pages of a process family count once.
func (p *process) memoryKiB() (int64, error) {
	var sum int64
	for _, pid := range p.family() {
		file, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue
		}
		scanner := bufio.NewScanner(file)
		for scanner.Scan() {
			if rest, found := strings.CutPrefix(scanner.Text(), "Pss:"); found {
				sum += number(strings.Fields(rest)[0])
			}
		}
		file.Close()
	}
	if sum == 0 {
		return 0, errors.New("no memory figure in /proc")
	}
	return sum, nil
}

// cpuTime sums the processor time of the process and its descendants.
func (p *process) cpuTime() time.Duration {
	const tick = time.Second / 100 // USER_HZ, the same on every Linux
	var sum time.Duration
	for _, pid := range p.family() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		// Its own time and that of children which have ended: PostgreSQL's sessions are processes.
		if len(fields) > 14 {
			for _, field := range fields[11:15] {
				sum += time.Duration(number(field)) * tick
			}
		}
	}
	return sum
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// until tries again until attempt succeeds, the process ends, or the time is over.
func (p *process) until(ctx context.Context, attempt func() error) error {
	for {
		err := attempt()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("the server ended: %v (last answer: %w)", p.err, err)
		case <-ctx.Done():
			return err
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// fdatasync makes a file's content durable, as the servers do it with their logs.
func fdatasync(file *os.File) error { return syscall.Fdatasync(int(file.Fd())) }
