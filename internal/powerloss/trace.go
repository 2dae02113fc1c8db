package powerloss

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// Calls are the system calls that a trace has to have, as strace takes them.
const Calls = "openat,openat2,open,creat,close,dup,dup2,dup3,fcntl,lseek," +
	"write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fallocate," +
	"fsync,fdatasync,sync_file_range,syncfs,sync,msync,mmap," +
	"rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir," +
	"utimensat,copy_file_range,sendfile,splice"

// call is one system call that has returned. Of those that overlap the order is
// that of their ends.
type call struct {
	name string
	args []string
	ret  int64
	fail bool
	// begun is how many calls had returned when this one began.
	begun int
}

var (
	startLine   = regexp.MustCompile(`^(\d+) +([a-z0-9_]+)\((.*)$`)
	resumedLine = regexp.MustCompile(`^(\d+) +<\.\.\. ([a-z0-9_]+) resumed>(.*)$`)
	result      = regexp.MustCompile(`^(.*)\) += (-?\d+|0x[0-9a-f]+|\?)( .*)?$`)
)

const unfinished = " <unfinished ...>"

// readTrace reads what strace -f -xx wrote.
func readTrace(r io.Reader) ([]call, error) {
	type half struct {
		text  string
		begun int
	}
	var calls []call
	open := map[string]half{} // by thread
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return calls, nil // a last line without an end is of a call that never returned
		}
		if err != nil {
			return nil, err
		}
		line = strings.TrimSuffix(line, "\n")
		var pid, name, text string
		begun := len(calls)
		if m := resumedLine.FindStringSubmatch(line); m != nil {
			pid, name = m[1], m[2]
			first, ok := open[pid]
			if !ok {
				continue
			}
			delete(open, pid)
			text, begun = first.text+m[3], first.begun
		} else if m := startLine.FindStringSubmatch(line); m != nil {
			pid, name, text = m[1], m[2], m[3]
			if cut, more := strings.CutSuffix(text, unfinished); more {
				if name == "close" {
					// Its number may be given away before the call is seen to end.
					calls = append(calls, call{name: name, args: split(cut), begun: begun})
					continue
				}
				open[pid] = half{cut, begun}
				continue
			}
		} else {
			continue // signals and ends of threads
		}
		m := result.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("the trace has a line that nobody understands: %.200s", line)
		}
		c := call{name: name, args: split(m[1]), begun: begun}
		if m[2] == "?" {
			continue // the process ended in it
		}
		if c.ret, err = strconv.ParseInt(m[2], 0, 64); err != nil {
			c.ret = 0 // an address
		}
		c.fail = c.ret < 0
		calls = append(calls, c)
	}
}

// split takes apart arguments at the commas that are in no string and no
// brackets.
func split(s string) []string {
	var out []string
	depth, start, quoted := 0, 0, false
	for i := range len(s) {
		switch c := s[i]; {
		case quoted:
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[' || c == '(':
			depth++
		case c == '}' || c == ']' || c == ')':
			depth--
		case c == ',' && depth == 0:
			out = append(out, strings.TrimSpace(s[start:i]))
			start = i + 1
		}
	}
	return append(out, strings.TrimSpace(s[start:]))
}

// text reads a string of hexadecimal escapes.
func text(arg string) ([]byte, error) {
	if len(arg) < 2 || arg[0] != '"' || strings.HasSuffix(arg, "...") {
		return nil, fmt.Errorf("the trace has a string that was cut off: %.60s", arg)
	}
	arg = arg[1 : len(arg)-1]
	b := make([]byte, 0, len(arg)/4)
	for len(arg) > 0 {
		if len(arg) < 4 || arg[:2] != `\x` {
			return nil, fmt.Errorf("the trace has a string without escapes: %.60s", arg)
		}
		n, err := strconv.ParseUint(arg[2:4], 16, 8)
		if err != nil {
			return nil, err
		}
		b = append(b, byte(n))
		arg = arg[4:]
	}
	return b, nil
}

func number(arg string) (int64, error) {
	arg, _, _ = strings.Cut(arg, " ")
	return strconv.ParseInt(arg, 0, 64)
}

var vector = regexp.MustCompile(`iov_base=("[^"]*"), iov_len=`)

// vectors joins the parts of a writev.
func vectors(arg string) ([]byte, error) {
	var all []byte
	for _, m := range vector.FindAllStringSubmatch(arg, -1) {
		b, err := text(m[1])
		if err != nil {
			return nil, err
		}
		all = append(all, b...)
	}
	return all, nil
}

var instant = regexp.MustCompile(`tv_sec=(-?\d+), tv_nsec=(\d+)`)
